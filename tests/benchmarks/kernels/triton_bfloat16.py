"""Triton's interpreter cuts float32 off to bfloat16, where a GPU rounds to nearest.

Run: TRITON_INTERPRET=1 python tests/benchmarks/kernels/triton_bfloat16.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cast(x, y, count: tl.constexpr):
    """Store numbers of float32 as bfloat16."""
    index = tl.arange(0, count)
    tl.store(y + index, tl.load(x + index).to(tl.bfloat16))


numbers = torch.rand(4096, generator=torch.Generator().manual_seed(0)) + 0.5
stored = torch.zeros(4096, dtype=torch.bfloat16)
cast[(1,)](numbers, stored, count=4096)
cut = (numbers.view(torch.int32) & ~0xFFFF).view(torch.float32)
print("triton", triton.__version__)
print("cut off:", int((stored.float() == cut).sum()), "of 4096")
print("to nearest:", int((stored == numbers.bfloat16()).sum()), "of 4096")
