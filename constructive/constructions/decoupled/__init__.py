"""Readouts which do not cost T^3: most of Z is never formed, because heads saturate there.

`sweep` chooses saturating parts so well that next to nothing is left over. Own contexts:
`ordering` -> `own` -> `pairs` -> `coupling` -> `readout`. One shared context: `schur`. Both share
`iteration`.
"""
