"""Enclosures of attention: `kernels.intervals` has the theorem, each file here a part of it.

`inputs` reads, `rows` cuts into pieces, `logits`, `weights` and `averages` bound errors one after
the other, `enclose` puts it together.
"""
