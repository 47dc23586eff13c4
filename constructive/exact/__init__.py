"""Exact and ball arithmetic: modulo a prime, in balls, in dyadic numbers, in directed floats."""
