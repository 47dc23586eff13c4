"""Triton's interpreter: tl.dot of bfloat16 multiplies the bits of the numbers as integers.

Expected: 16.0 for both. Run with TRITON_INTERPRET=1.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def product(a, b, out):
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))


for dtype in (torch.float16, torch.bfloat16):
    ones, out = torch.ones(16, 16, dtype=dtype), torch.empty(16, 16)
    product[(1,)](ones, ones, out)
    print(triton.__version__, dtype, out[0, 0].item())
