"""Compact decoders: sign tokens, saturated heads, and a readout of short integers."""
