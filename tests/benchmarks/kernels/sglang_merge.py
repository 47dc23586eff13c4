"""SGLang: `merge_state_triton` of two empty states is NaN, as exp(-inf + inf) is.

Expected: an output of 0 and a log-sum-exp of -inf. Merged with a state that has keys, both are NaN
again. `merge_state` falls back to it where the CUDA kernel does not apply.
"""

import torch
from sglang.kernels.ops.attention.merge_state import merge_state_triton

out = torch.zeros(1, 1, 16, device="cuda")
lse = torch.full((1, 1), -torch.inf, device="cuda")
print(merge_state_triton(out, lse, out, lse))
