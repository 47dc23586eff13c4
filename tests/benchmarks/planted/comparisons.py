"""The usual tests of a kernel: normal inputs, a reference, and a tolerance."""

from itertools import pairwise

import numpy as np
import torch

from cases import SPECIAL, random_case
from eager import Eager, to_numpy, to_torch
from exact import exact, exact_gradients
from options import Run

INSTEAD = {"large-bias": "bias", "poison": "lengths"}
"""What a test with normal inputs has in the place of a special feature."""


def normal_cases(needs, seeds, longer=0):
    """Normal inputs with the options that a bug needs, and none of the special values."""
    usual = {INSTEAD.get(need, need) for need in needs} - SPECIAL
    return [random_case(usual, seed, longer) for seed in seeds]


def dense(q, k, v, o):
    """The same problem without pages, splits and packing: a list, a sequence each."""
    if o.query_offsets is not None:
        alone = o.but(query_offsets=None, key_offsets=None)
        rows, keys = ([slice(a, b) for a, b in pairwise(c)]
                      for c in (o.query_offsets, o.key_offsets))  # fmt: skip
        return [
            case
            for r, c in zip(rows, keys, strict=True)
            for case in dense(q[:, :, r], k[:, :, c], v[:, :, c], alone)
        ]
    if o.block_table is not None:
        table = np.maximum(o.block_table, 0)
        k, v = (
            np.moveaxis(x[table], 2, 1).reshape(len(table), x.shape[1], -1, x.shape[3])
            for x in (k, v)
        )
    return [(q, k, v, o.but(block_table=None, splits=1))]


def eager(q, k, v, o):
    """What eager attention returns in the format of the inputs."""
    return np.concatenate([Eager()(*case) for case in dense(q, k, v, o)], 2)


def eager_gradients(q, k, v, o, dout):
    """The gradients of eager attention in the format of the inputs, by autograd."""
    leaves = [to_torch(x).requires_grad_() for x in (q, k, v)]
    out = Eager().forward(Run(q, k, v, o), *leaves)
    return [to_numpy(g) for g in torch.autograd.grad(out, leaves, to_torch(dout))]


def _close(**tolerance):
    def passes(outs, wanted, _eager):
        try:
            for out, right in zip(outs, wanted, strict=True):
                torch.testing.assert_close(
                    to_torch(out), to_torch(right.astype(np.float32).astype(out.dtype)), **tolerance
                )
        except AssertionError:
            return False
        return True

    return passes


def _within_twice_eager(outs, wanted, eagers):
    wide = [[x.astype(np.float64) for x in xs] for xs in (outs, wanted, eagers)]
    return all(
        bool(np.abs(out - right).max() <= 2 * np.abs(plain - right).max())
        for out, right, plain in zip(*wide, strict=True)
    )


METHODS = {
    "defaults": _close(),
    "1e-2": _close(rtol=1e-2, atol=1e-2),
    "2e-2": _close(rtol=2e-2, atol=2e-2),
    "2x eager": _within_twice_eager,
}
"""Each says whether outputs pass, given the exact outputs and those of eager attention."""


def compared(outs, case, dout=None):
    """Which methods find outputs wrong: a set of their names."""
    if dout is None:
        wanted, plain = (exact(*case),), (eager(*case),)
    else:
        wanted, plain = exact_gradients(*case, dout), eager_gradients(*case, dout)
    return {name for name, passes in METHODS.items() if not passes(outs, wanted, plain)}
