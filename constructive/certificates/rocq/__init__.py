"""Rocq confirms the claim *rank* about stored weights and data."""
