"""The second construction: N sequences memorized with about sqrt(N) parameters, exactly.

In reading order: `examples` (sequences, tokens and labels, and how files hold them), `network`
(ReLU networks and uniform attention, exactly and in floats), `dictionary` (steps that compare
integers, and a table in a narrow network), `constructions` (tokens to integers whose sums tell
contexts apart), `memorizer` (the three parts together, and the bound of their weights), `build`
(how they are found), `claims`.
"""
