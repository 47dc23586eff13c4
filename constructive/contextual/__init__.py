"""The second construction: N sequences memorized with about sqrt(N) parameters, exactly.

In reading order: `network` (ReLU networks as data), `gadgets` (comparisons, remainders),
`dictionary` (a table in a narrow network), `examples` (sequences and labels), `embedding` (tokens
to integers whose sums tell contexts apart), `memorizer` (the three parts together).
"""
