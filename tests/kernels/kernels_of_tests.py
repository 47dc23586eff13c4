"""Kernels of the tests: right ones of several kinds, each with mistakes that can be switched on."""

import numpy as np

from constructive.kernels.masks import Causal


def logits_of(problem, dtype=np.float64):
    """Logits of all keys, hidden ones at -inf, (B, H, T_q, T_k)."""
    spec = problem.spec
    q, k = problem.q.astype(dtype), np.repeat(problem.k, spec.group, 1).astype(dtype)
    scores = q @ k.swapaxes(-1, -2) * dtype(spec.factor)
    if spec.soft_cap is not None:
        scores = dtype(spec.soft_cap) * np.tanh(scores / dtype(spec.soft_cap))
    if problem.bias is not None:
        scores = scores + problem.bias.astype(dtype)
    return np.where(problem.visible, scores, dtype(-np.inf))


def values_of(problem, dtype=np.float64):
    return np.repeat(problem.v, problem.spec.group, 1).astype(dtype)


def plain(problem, dtype=np.float64):
    """Softmax in one piece, weights normalised before the average."""
    scores, v = logits_of(problem, dtype), values_of(problem, dtype)
    largest = scores.max(-1, keepdims=True)
    if problem.sinks is not None:
        largest = np.maximum(largest, problem.sinks.astype(dtype)[:, None, None])
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = weights.sum(-1, keepdims=True)
    if problem.sinks is not None:
        total = total + np.exp(problem.sinks.astype(dtype)[:, None, None] - largest)
    return (weights / np.where(total > 0, total, 1)) @ v


def flash(problem, dtype=np.float32, block=16, *, forgets=(), start=-np.inf, lag=0.0):
    """Online softmax in blocks; `forgets` names what is not rescaled, `lag` how late it is."""
    scores, v = logits_of(problem, dtype), values_of(problem, dtype)
    rows = scores.shape[:3]
    largest = np.full((*rows, 1), start, dtype)
    if problem.sinks is not None:
        largest = np.broadcast_to(problem.sinks.astype(dtype)[:, None, None], (*rows, 1))
    total = np.full((*rows, 1), 0 if problem.sinks is None else 1, dtype)
    out = np.zeros((*rows, v.shape[-1]), dtype)
    for first in range(0, scores.shape[-1], block):
        part = scores[..., first : first + block]
        new = np.maximum(largest, part.max(-1, keepdims=True))
        new = np.where(new > largest + dtype(lag), new, largest)
        base = np.where(np.isfinite(new), new, dtype(0))
        factor = np.exp(largest - base)
        weights = np.exp(part - base)
        total = total * (1 if "sums" in forgets else factor) + weights.sum(-1, keepdims=True)
        out = out * (1 if "outputs" in forgets else factor)
        out = out + weights @ v[:, :, first : first + block]
        largest = new
    return out / np.where(total > 0, total, dtype(1))


def split(problem, parts=3, dtype=np.float32, logsumexp=lambda x: x):
    """Splits of keys, each with a normalised output, merged by logsumexp."""
    scores, v = logits_of(problem, dtype), values_of(problem, dtype)
    outs, ends = [], []
    for columns in np.array_split(np.arange(scores.shape[-1]), parts):
        part = scores[..., columns]
        top = part.max(-1, keepdims=True)
        weights = np.exp(part - np.where(np.isfinite(top), top, dtype(0)))
        total = weights.sum(-1, keepdims=True)
        outs.append(weights @ v[:, :, columns] / np.where(total > 0, total, dtype(1)))
        with np.errstate(divide="ignore"):
            ends.append(logsumexp(top + np.log(total)))
    out, end = np.stack(outs), np.stack(ends)
    top = end.max(0)
    shares = np.exp(end - np.where(np.isfinite(top), top, dtype(0)))
    total = shares.sum(0)
    return (shares * out).sum(0) / np.where(total > 0, total, dtype(1))


def shifted_diagonal(problem, by):
    """The plain kernel with a causal mask that is off by some keys."""
    spec = problem.spec
    shift = 0 if spec.mask(Causal).alignment == "top-left" else spec.keys - spec.queries
    visible = np.arange(spec.keys) <= np.arange(spec.queries)[:, None] + shift + by
    k, v = np.repeat(problem.k, spec.group, 1), values_of(problem)
    return softmax_average(problem.q, k, v, visible, spec.factor)


def softmax_average(q, k, v, visible, scale):
    scores = np.where(visible, q @ k.swapaxes(-1, -2) * scale, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    return weights @ v / np.where(total > 0, total, 1)
