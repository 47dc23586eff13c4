"""Figures by construction: `constructive figures`, with those of the paper."""
