"""What kernels take that have the interface of FlashAttention, from a problem."""

import functools

import numpy as np

from constructive.kernels import Paged
from constructive.kernels.encodings import Pool
from constructive.kernels.masks import Causal, Window

PAGE = 16


class Packed:
    """A problem as tensors of PyTorch, tokens of all sequences behind one another."""

    def __init__(self, problem, device):
        self.problem, self.spec, self.device = problem, problem.spec, device
        self.q, self.k, self.v = problem.tensors("torch", layout="packed", device=device)
        self.queries, self.keys = self.spec.lengths
        self.most_queries, self.most_keys = int(self.queries.max()), int(self.keys.max())
        self.scale, self.cap = self.spec.factor, self.spec.soft_cap or 0.0
        self.is_causal = self.spec.mask(Causal) is not None
        found = self.spec.mask(Window)
        ends = (-1, -1) if found is None else (found.left, found.right)
        self.window = tuple(-1 if end is None else end for end in ends)  # -1 for all of a side
        self.sinks, self.slopes = self.floats(problem.sinks), self.floats(problem.slopes)

    def ints(self, values):
        import torch

        return torch.from_numpy(values).int().to(self.device)

    def floats(self, values):
        import torch

        return None if values is None else torch.from_numpy(values).float().to(self.device)

    def starts(self, lengths):
        """Return where each sequence starts in memory, and the end of the last."""
        import torch

        ends = torch.from_numpy(lengths).cumsum(0)
        return torch.nn.functional.pad(ends, (1, 0)).int().to(self.device)

    def sliding(self, name, more=1):
        """Return the left end of a window as an option that counts so many keys more, or {}."""
        found = self.spec.mask(Window)
        return {} if found is None else {name: found.left + more}

    @functools.cached_property
    def pool(self):
        """Pages of keys and of values (pages, PAGE, G, d), and a table.

        Old tokens fill what no kernel may read.
        """
        import torch

        found = Pool.of(self.problem, page_size=PAGE, stale=True)
        arrays = (torch.from_numpy(x).contiguous() for x in (found.k, found.v))
        k, v = (x.to(self.q.dtype).to(self.device) for x in arrays)
        return k, v, self.ints(found.table.clip(0))

    def take(self, cache):
        """Let pages be those of a quantized cache, and return them with their scales."""
        paged = Paged.of(cache, page_size=PAGE, library="torch", device=self.device, stale=True)
        self.pool = paged.k, paged.v, paged.table.clamp(min=0)
        return paged

    def listed(self):
        """Return pages of each sequence as one list: starts, pages, keys of the last page."""
        counts = -(-self.keys // PAGE)
        table = self.pool[2].cpu().numpy()
        pages = [row[:count] for row, count in zip(table, counts, strict=True)]
        last = np.where(self.keys > 0, (self.keys - 1) % PAGE + 1, 0)
        lists = np.concatenate([[0], np.cumsum(counts)]), np.concatenate(pages), last
        return [self.ints(x) for x in lists]


def quantized(kernel, options):
    """Return what a row runs of a cache; `options` are of the cache and its pages."""

    def run(cache, device):
        p = Packed(cache.problem, device)
        return kernel(p, **options(cache, p.take(cache)))

    return run


def merged(pair):
    """Return a merge of states (T, H, d) and (T, H) one after the other, from one of two."""

    def run(merge, device):
        outs, lses = merge.tensors("torch", device=device)
        out, lse = outs[0].contiguous(), lses[0].contiguous()
        for other, its in zip(outs[1:], lses[1:], strict=True):
            out, lse = pair(out, lse, other.contiguous(), its.contiguous())
        return out, lse

    return run


def gradients(kernel):
    """Return dq, dk and dv (B, H, T, d) of a kernel of `Packed`, 0 where no token is."""

    def run(backward, device):
        import torch

        p = Packed(backward.problem, device)
        inputs = [x.requires_grad_() for x in (p.q, p.k, p.v)]
        out = kernel(p)
        out = out[0] if isinstance(out, tuple) else out
        rows, columns = p.spec.rows(), np.arange(p.spec.keys) < p.keys[:, None]
        d_out = torch.from_numpy(backward.d_out.transpose(0, 2, 1, 3)[rows])
        names = zip(("dq", "dk", "dv"), (rows, columns, columns), strict=True)
        found = []
        grads = torch.autograd.grad(out, inputs, d_out.to(out.dtype).to(device))
        for x, (name, there) in zip(grads, names, strict=True):
            whole = np.zeros_like(backward.expected[name]).transpose(0, 2, 1, 3)
            whole[there] = x.reshape(-1, *x.shape[-2:]).double().cpu().numpy()
            found.append(whole.transpose(0, 2, 1, 3))
        return tuple(found)

    return run
