"""PyTorch: the cuDNN backend adds -65504 for a boolean mask, so rows without keys are averages.

Expected: True False twice; actual: False True, then True False. These lines have not been run;
the problems of `released.py` were.
"""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

q, k, v = (torch.randn(1, 1, 8, 64, device="cuda", dtype=torch.bfloat16) for _ in "qkv")
hidden = torch.zeros(1, 1, 8, 8, dtype=torch.bool, device="cuda")
for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
    with sdpa_kernel(backend):
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden)
        print((out == 0).all().item(), torch.allclose(out, v.mean(2, keepdim=True), atol=1e-2))
