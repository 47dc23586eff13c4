"""The second construction: N sequences memorized with about sqrt(N) parameters, exactly.

In reading order: `examples` (sequences, tokens and labels), `network` (ReLU networks as data),
`dictionary` (steps that compare integers, and a table in a narrow network), `constructions` (tokens
to integers whose sums tell contexts apart), `attention` (the mean, and what floats make of
networks), `bounds` and `limits` (the formula for the weights, and how large its sizes can be),
`memorizer` (the three parts together), `build` (how they are found), `storage` (files), `growth`
(weights against N).
"""
