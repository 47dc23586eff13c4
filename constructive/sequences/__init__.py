"""The second construction: N sequences memorized with about sqrt(N) parameters, exactly.

In reading order: `storage` (numbers and symbols in files), `examples` (sequences, tokens and
labels), `network` (ReLU networks and uniform attention), `dictionary` (steps that compare integers,
and a table in a narrow network), `constructions` (tokens to integers whose sums tell contexts
apart), `floats` (what floats make of networks), `memorizer` (the three parts together, and the
bound of their weights), `build` (how they are found), `claims`.
"""
