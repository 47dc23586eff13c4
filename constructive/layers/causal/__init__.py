"""Causal attention: every position of a sequence asks, and sees what came before it.

`geometry` says which positions are computed together, `layer` computes in floats, `residues` modulo
a prime, and `bounded` in float64 with bounds of all that was rounded.
"""
