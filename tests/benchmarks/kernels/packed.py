"""What kernels take that have the interface of FlashAttention, from a problem."""

from constructive.kernels.encodings import Pool
from constructive.kernels.masks import Causal, Window


def starts(lengths, device):
    """Return where each sequence starts in memory, and the end of the last."""
    import torch

    ends = torch.from_numpy(lengths).cumsum(0)
    return torch.nn.functional.pad(ends, (1, 0)).int().to(device)


def ints(values, device):
    import torch

    return torch.from_numpy(values).int().to(device)


def floats(values, device):
    import torch

    return None if values is None else torch.from_numpy(values).float().to(device)


def is_causal(problem):
    return problem.spec.mask(Causal) is not None


def window(problem):
    """Return (left, right), -1 for all of a side."""
    found = problem.spec.mask(Window)
    if found is None:
        return (-1, -1)
    return tuple(-1 if end is None else end for end in (found.left, found.right))


def tensors(problem, device, layout="packed"):
    return problem.tensors("torch", layout=layout, device=device)


def sliding(problem, name, more=1):
    """Return the left end of a window as an option that counts so many keys more, or {}."""
    found = problem.spec.mask(Window)
    return {} if found is None else {name: found.left + more}


def quantized(cache, device):
    """Return its pages, whose scales are beside them, and a table that names a page everywhere."""
    from constructive.kernels import Paged

    paged = Paged.of(cache, page_size=16, library="torch", device=device, stale=True)
    return paged, paged.table.clamp(min=0)


def pool(problem, device, page_size=16):
    """Return pages of keys and of values (pages, page_size, G, d), and a table; old tokens fill
    what no kernel may read."""
    import torch

    found = Pool.of(problem, page_size=page_size, stale=True)
    dtype = getattr(torch, {"tf32": "float32"}.get(problem.spec.dtype, problem.spec.dtype))
    k, v = (torch.from_numpy(x).contiguous().to(dtype).to(device) for x in (found.k, found.v))
    return k, v, ints(found.table.clip(0), device)


def pages_of(problem, table, page_size=16):
    """Return pages of each sequence as one list: starts, pages, keys of the last page."""
    import numpy as np

    lengths = problem.spec.lengths[1]
    counts = -(-lengths // page_size)
    pages = [row[:count] for row, count in zip(table.cpu().numpy(), counts, strict=True)]
    last = np.where(lengths > 0, (lengths - 1) % page_size + 1, 0)
    return np.concatenate([[0], np.cumsum(counts)]), np.concatenate(pages), last


def merged(merge, device, pair):
    """Return states (T, H, d) and (T, H) that are merged one after the other."""
    outs, lses = merge.tensors("torch", device=device)
    out, lse = outs[0].contiguous(), lses[0].contiguous()
    for other, its in zip(outs[1:], lses[1:], strict=True):
        out, lse = pair(out, lse, other.contiguous(), its.contiguous())
    return out, lse


def gradients(backward, device, forward):
    """Return dq, dk and dv (B, H, T, d) of packed tensors, 0 where no token is."""
    import numpy as np
    import torch

    spec, inputs = backward.problem.spec, tensors(backward.problem, device)
    for x in inputs:
        x.requires_grad_()
    out = forward(*inputs)
    rows, columns = spec.rows(), np.arange(spec.keys) < spec.lengths[1][:, None]
    d_out = torch.from_numpy(backward.d_out.transpose(0, 2, 1, 3)[rows]).to(out.dtype).to(device)
    names = zip(("dq", "dk", "dv"), (rows, columns, columns), strict=True)
    found = []
    for x, (name, there) in zip(torch.autograd.grad(out, inputs, d_out), names, strict=True):
        whole = np.zeros_like(backward.expected[name]).transpose(0, 2, 1, 3)
        whole[there] = x.reshape(-1, *x.shape[-2:]).double().cpu().numpy()
        found.append(whole.transpose(0, 2, 1, 3))
    return tuple(found)
