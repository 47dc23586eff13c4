"""Causal decoders that recite texts.

In reading order: `corpus` (texts), `causal` (the layer), `decoder` (with tokens, positions and
files), `build` (many parameters), `compact`, `compact_tokens` and `compact_readout` (few of them),
`packed` (how numbers are stored), `margins` (as the checker bounds them), `claims`.
"""
