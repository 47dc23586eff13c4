"""Layers, one for each arithmetic, and the memorizer: a layer with its record."""
