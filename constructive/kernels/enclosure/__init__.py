"""Enclosures of attention by Theorem 17 (proofs/19-kernels.md): each file is a part of its proof.

`inputs` reads, `rows` cuts into pieces, `logits`, `weights` and `averages` bound errors one after
the other, `enclose` puts it together.
"""
