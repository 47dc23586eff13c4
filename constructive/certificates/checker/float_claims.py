"""Outputs in float64 with bounds of rounding, often enough for *error* and *readout*.

Contexts are divided by powers of two, to be of size one, and so is what heads read.
"""

import numpy as np

from bounds import LONGEST, chunks, gamma, up
from fixed import floats
from floating import CHUNK, attended
from views import Examples

FEW = 0.125  # part of all attention which may be had in fixed point


def residuals(weights, data, readout, keep, work):
    """Bounds of |f - y| 2^-scale (T, d_out), the scales (T,), Z 2^-scale and what that is off by.

    readout: W_V W_O W_D in fixed point (H d, d_out);  keep: whether Z is wanted
    Nothing for sums which are too long.
    """
    (heads, width, _), contexts = weights["W_V"].shape, data["contexts"]
    inner = weights["W_Q"].shape[2]
    total, size, columns = len(data["queries"]), contexts.shape[-2], heads * width
    if max(columns, size, inner) > LONGEST:
        return None
    targets = data["targets"].reshape(total, -1).astype(np.float64)
    u, u_error = floats(readout)
    u = u.reshape(heads, width, -1)
    u_sizes = np.abs(u)
    per_head = up(u_sizes.sum(axis=1))
    bounds, scales = np.empty(targets.shape), np.empty(total, np.int64)
    z_all, z_error, few = [], 0.0, FEW * total * heads
    tokens_of_one = size * width * (contexts.ndim == 3)
    units = max(tokens_of_one, heads * max(size, width, inner, targets.shape[1]))
    view = Examples(data, chunks(total, units, CHUNK))
    for (rows, *_), tokens, attention, off in attended(weights, view, few, work):
        work.tell("outputs in float64", rows.start, total)
        scale = np.frexp(np.abs(tokens).max(axis=(1, 2)))[1]
        z = (attention @ np.ldexp(tokens, -scale[:, None, None])).transpose(1, 0, 2)
        scales[rows] = scale
        goal = np.ldexp(targets[rows], -scales[rows, None])
        found, sizes = added(z @ u), up(added(np.abs(z) @ u_sizes))
        error = gamma(width + heads.bit_length() + 4) * sizes + up(off @ per_head)
        read = up(np.abs(z).sum(axis=(0, 2)) + width * up(off.sum(axis=1)))
        error = up(error + up(read * u_error)[:, None])
        bounds[rows] = up(np.abs(found - goal) + error)
        if keep:
            z_all.append(z.transpose(1, 0, 2).reshape(-1, columns))
            z_error = max(z_error, float(off.max()))
    return bounds, scales, np.concatenate(z_all) if keep else None, z_error


def added(parts):
    """The sum over the first axis by halves: each of k terms is in k.bit_length() sums at most."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = np.concatenate([parts[:half] + parts[half : 2 * half], parts[2 * half :]])
    return parts[0]
