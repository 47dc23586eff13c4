"""PyTorch: context parallelism merges states to NaN where the first one is empty.

Where a query sees no key of the first block, its log-sum-exp is -inf, and so is what is merged so
far: the difference is NaN. Expected: a state that is empty counts nothing.
"""

from torch.distributed.tensor.experimental._context_parallel._attention import _SDPAMerger

from constructive.kernels import merges

states = next(merges())  # (k, T, H, d_v) and (k, T, H), some with lse = -inf
merger = _SDPAMerger(convert_to_f32=True, seq_dim=2)
for out, lse in zip(*states.tensors("torch"), strict=True):
    merger.step(out.permute(1, 0, 2)[None], lse.T[None], partial=False)
out, lse = merger.results()
states.check(out[0].permute(1, 0, 2), lse[0].T)
