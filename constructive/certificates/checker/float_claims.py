"""The layer in float64 with bounds of rounding, which often is enough for *error* and *readout*.

A sum of k products is off by gamma_k times the sum of their sizes. Contexts are divided by powers
of two, to be of size one, and so is what heads read. Attention of a head on an example is had

- where one token leads by NATS, whatever rounding does: as 1 and zeros. The others have at most
  (n - 1) exp(-NATS) of its weight, and attention is off by twice that in all;
- where logits are known less well than to NEAR: in fixed point, as long as these are few;
- otherwise by float64. If no logit is off by more than r, attention is off by r in all: on the way
  from ones to the others its derivative has the entries a_i (l_i - a.l) with |l_i| <= r, and the
  sum of their sizes is a mean absolute deviation, so at most a standard deviation, so at most r.
"""

import numpy as np

from bounds import LONGEST, chunks, exponentials, gamma, up
from fixed import fixed, floats, multiply
from softmax import softmax

CHUNK = 1 << 18  # entries of arrays which are worked on at a time
NATS, LEFT = 45.0, 3e-20  # more than exp(-NATS)
LIMIT = 1e6  # errors of logits beyond which nothing is known of them
NEAR = 2.0**-40  # those with which float64 is good enough
FEW = 0.125  # part of all attention which may be had in fixed point
DIGITS = 5


def residuals(weights, data, readout, keep, work):
    """Bounds of |f - y| 2^-scale (T, d_out), the scales (T,), Z 2^-scale and what that is off by.

    readout: W_V W_O W_D in fixed point (H d, d_out);  keep: whether Z is wanted
    Nothing for sums which are too long.
    """
    (heads, width, inner), contexts = weights["W_Q"].shape, data["contexts"]
    total, size, columns = len(data["queries"]), contexts.shape[-2], heads * width
    if max(columns, size, inner) > LONGEST:
        return None
    targets = data["targets"].reshape(total, -1).astype(np.float64)
    u, u_error = floats(readout)
    u = u.reshape(heads, width, -1)
    u_sizes = np.abs(u)
    per_head = up(u_sizes.sum(axis=1))
    bounds, scales = np.empty(targets.shape), np.empty(total, np.int64)
    z_all, z_error, left = [], 0.0, FEW * total * heads
    tokens_of_one = size * width * (contexts.ndim == 3)
    units = max(tokens_of_one, heads * max(size, width, inner, targets.shape[1]))
    for rows in chunks(total, units, CHUNK):
        work.tell("outputs in float64", rows.start, total)
        tokens = (contexts[rows] if contexts.ndim == 3 else contexts[None]).astype(np.float64)
        queries = data["queries"][rows].astype(np.float64)
        attention, off, precise = attend(weights, tokens, queries, left, work)
        left -= precise
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


def attend(weights, tokens, queries, most, work):
    """Attention (B, H, n), bounds (B, H) of what that does, and how many are in fixed point.

    Bounds are of the sums of its errors, and of rounding where z is computed from it.
    most: how many may be in fixed point
    """
    logits, off = bounded_logits(weights, tokens, queries)
    top = logits.max(axis=2, keepdims=True)
    below = logits - top
    first = logits.argmax(axis=2)[..., None]
    others = below.copy()
    np.put_along_axis(others, first, -np.inf, axis=2)
    known = off < LIMIT
    lead = -others.max(axis=2) * (1.0 - 2.0**-50)
    alone = known & (lead >= up(NATS + 2.0 * off))
    size = logits.shape[2]
    weight = exponentials(below)  # of logits off by 2^-47 more, up to 60 below
    attention = weight / weight.sum(axis=2, keepdims=True)
    error = up(off + 2.0**-44 + 2.0 * gamma(size + 8) + size * 1e-25)
    one = np.zeros_like(attention)
    np.put_along_axis(one, first, 1.0, axis=2)
    attention = np.where(alone[..., None], one, attention)
    error = np.where(alone, 2.0 * size * LEFT, error)  # products with 1 and zeros are exact
    examples, heads = np.nonzero(~(alone | (off <= NEAR)))
    if len(examples) > most:
        return attention, error, 0
    units = weights["W_Q"].shape[1] * max(size, weights["W_Q"].shape[2])
    for part in chunks(len(examples), units, CHUNK):
        at = examples[part], heads[part]
        attention[at], error[at] = in_fixed_point(weights, tokens, queries, *at, work)
    return attention, error, len(examples)


def bounded_logits(weights, tokens, queries):
    """Logits (B, H, n), and bounds (B, H) of what any of them is off by."""
    w_q, w_k = (weights[name].astype(np.float64) for name in ("W_Q", "W_K"))
    heads, width, inner = w_q.shape
    beside = w_q.transpose(1, 0, 2).reshape(width, -1)
    turned = w_k.transpose(0, 2, 1)

    def absorbed(queries, beside, turned):
        read = (queries @ beside).reshape(-1, heads, inner).transpose(1, 0, 2)
        return read, read @ turned

    logits = absorbed(queries, beside, turned)[1].transpose(1, 0, 2) @ tokens.transpose(0, 2, 1)
    read = up(np.abs(queries) @ np.abs(beside))
    read = read.reshape(-1, heads, inner).transpose(1, 0, 2)
    sizes = up(read @ np.abs(turned)).transpose(1, 0, 2)
    most = np.abs(tokens).max(axis=1)[:, :, None]
    sizes = up(sizes @ most)[..., 0]
    return logits, up(gamma(2 * width + inner + 8) * sizes)


def in_fixed_point(weights, tokens, queries, examples, heads, work):
    """The same (k, n), (k,) of some heads, each on one example."""
    vectors = fixed([queries[examples][:, None]], DIGITS)
    for name, axes in (("W_Q", (0, 1, 2)), ("W_K", (0, 2, 1))):
        matrices = fixed([weights[name][heads].transpose(axes)], DIGITS)
        vectors = multiply(vectors, matrices, DIGITS)
    chosen = tokens[examples if len(tokens) > 1 else np.zeros_like(examples)]
    logits = multiply(vectors, fixed([chosen.transpose(0, 2, 1)], DIGITS), DIGITS)
    attention, error = floats(softmax(logits, DIGITS, work))
    size = attention.shape[2]
    return attention[:, 0], up(size * error + gamma(size + 4))
