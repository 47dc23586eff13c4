"""Heads of Theorem 1 on one shared context, whose readout does not cost T^3.

`construction` says what there is to know of it; `elimination` does the work.
"""
