"""x-transformers: Attend(causal=True) with fewer keys than queries has two meanings.

Which keys do 4 queries of 2 keys see? With flash=False the last query sees the last key (and
queries without keys see all); with flash=True the first query sees the first key alone.
"""

from importlib.metadata import version

import torch
from x_transformers.attend import Attend

q, k = torch.zeros(1, 1, 4, 8), torch.zeros(1, 1, 2, 8)
v = torch.tensor([1.0, 10.0]).reshape(1, 1, 2, 1).expand(1, 1, 2, 8)
for flash in (False, True):
    out, _ = Attend(causal=True, flash=flash)(q, k, v)
    print(version("x-transformers"), f"flash={flash}", out[0, 0, :, 0].tolist())
