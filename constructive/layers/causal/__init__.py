"""Causal attention: every position of a sequence asks, and sees what came before it.

`layer` computes in floats, `margins` bounds what programs round, and `integers` and `saturated`
find what they do not round.
"""
