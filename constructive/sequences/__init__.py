"""The second construction: N sequences memorized with about sqrt(N) parameters, exactly.

In reading order: `network` (ReLU networks as data), `gadgets` (comparisons, remainders),
`dictionary` (a table in a narrow network), `storage` (files), `examples` (sequences and labels),
`embedding` (tokens to integers whose sums tell contexts apart), `attention` (the mean), `rounded`
(what floats make of it), `bounds` (the formula for the weights), `memorizer` (the three parts
together), `build` (how they are found), `growth` (weights against N).
"""
