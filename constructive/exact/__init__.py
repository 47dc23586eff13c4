"""Exact and ball arithmetic on the layer: modulo a prime, in balls, in rational numbers."""
