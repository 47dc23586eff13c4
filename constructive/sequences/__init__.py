"""The second construction: N sequences memorized with about sqrt(N) parameters, exactly.

In reading order: `examples` and `tokens` (sequences and labels), `network` (ReLU networks as data),
`comparisons` (steps that compare integers), `dictionary` (a table in a narrow network),
`projection` and `constructions` (tokens to integers whose sums tell contexts apart), `attention`
(the mean), `answers` (outputs and labels), `rounded` (what floats make of it), `bounds` and
`limits` (the formula for the weights, and how large its sizes can be), `memorizer` and `record`
(the three parts together), `build` (how they are found), `storage` (files), `growth` (weights
against N).
"""
