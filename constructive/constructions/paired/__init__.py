"""Heads in pairs, for contexts of their own, whose readout does not cost T^3.

Most of Z is never formed, because heads saturate there. The steps: `ordering` -> `own` -> `pairs`
-> `coupling` -> `readout`; `construction` takes them one after the other.
"""
