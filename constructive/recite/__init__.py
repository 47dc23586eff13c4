"""Causal decoders that recite texts.

In reading order: `corpus` (texts), `causal` (the layer), `decoder` (with tokens, positions and
files), `build` (many parameters), `compact`, `compact_tokens` and `compact_readout` (few of them),
`packed` (how numbers are stored), `exact_logits` and `margins` (what programs round, and what is
left of margins), `claims`.
"""
