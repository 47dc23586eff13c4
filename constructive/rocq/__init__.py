"""Rocq confirms claims about stored weights and data: *rank*, *error*, *recites*, *impossible*."""
