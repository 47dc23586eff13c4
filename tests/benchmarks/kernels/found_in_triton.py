"""Triton's interpreter and bfloat16: two wrong results (docs/kernels-found.md).

    TRITON_INTERPRET=1 python tests/benchmarks/kernels/found_in_triton.py

`tl.dot` multiplies the bits of the numbers as integers: 16.0 is expected for both. float32 is cut
off to bfloat16, where a GPU rounds to nearest.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def product(a, b, out):
    """Store a product of two matrices."""
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))


@triton.jit
def cast(x, y, count: tl.constexpr):
    """Store numbers of float32 as bfloat16."""
    index = tl.arange(0, count)
    tl.store(y + index, tl.load(x + index).to(tl.bfloat16))


print("triton", triton.__version__)
for dtype in (torch.float16, torch.bfloat16):
    ones, out = torch.ones(16, 16, dtype=dtype), torch.empty(16, 16)
    product[(1,)](ones, ones, out)
    print(dtype, out[0, 0].item())
numbers = torch.rand(4096, generator=torch.Generator().manual_seed(0)) + 0.5
stored = torch.zeros(4096, dtype=torch.bfloat16)
cast[(1,)](numbers, stored, count=4096)
cut = (numbers.view(torch.int32) & ~0xFFFF).view(torch.float32)
print("cut off:", int((stored.float() == cut).sum()), "of 4096")
print("to nearest:", int((stored == numbers.bfloat16()).sum()), "of 4096")
