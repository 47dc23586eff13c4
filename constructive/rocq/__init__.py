"""Rocq confirms claims about stored weights and data: *rank*, *onto*, *error* and others."""
