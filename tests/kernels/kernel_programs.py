"""Kernels with emulated rounding: what a model of kernels allows, and one step beyond."""

import itertools
from dataclasses import dataclass, replace

import numpy as np

from constructive.exact.formats import nearest
from constructive.exact.kernel_model import KernelModel, kernel_model_named

SINGLE = np.float32
LOG2E = SINGLE(1.4426950408889634)


@dataclass(frozen=True)
class Program:
    """How a kernel is written; `draw` gives one within a model."""

    model: KernelModel
    order: str = "forward"
    scaled: str = "logits"
    exponent: str = "exp"
    blocks: tuple[tuple[int, int], ...] = ((0, 1 << 30),)
    fused: bool = False
    stored: bool = False
    summed_stored: bool = False
    divided_first: bool = False
    reciprocal: bool = False
    flush: bool = False
    column: int = 0
    sign: float = 1.0
    exp_error: float | None = None
    tensor: int = 0
    rescaling: float | None = None  # the sign of errors of rescaling, where it is always the same
    splits: int = 1
    lazy: bool = False


def draw(random, name, keys):
    """A program of a model."""
    model = kernel_model_named(name)
    offset, size = int(random.integers(0, 16)), int(random.choice([16, 17, 32, 64]))
    edges = sorted({0, keys, *range(offset, keys, size)})
    blocks = list(itertools.pairwise(edges))
    if random.random() < 0.3:
        blocks = [(0, keys)]
    elif random.random() < 0.3:
        blocks = blocks[::-1]
    stored = model.storage.name != "float32" and bool(random.random() < 0.8)
    return Program(
        model,
        order=str(random.choice(["forward", "backward", "descending", "pairwise", "shuffled"])),
        scaled=str(random.choice(["logits", "q", "k", "both"])),
        exponent=str(random.choice(["exp", "exp2", "folded", "apart", "fused"])),
        blocks=tuple(blocks),
        fused=bool(random.random() < 0.3),
        stored=stored,
        summed_stored=bool(random.random() < 0.5),
        divided_first=len(blocks) == 1 and model.stores_divided and bool(random.random() < 0.5),
        reciprocal=bool(random.random() < 0.5),
        flush=bool(random.random() < 0.5),
        column=int(random.integers(0, 1 << 20)),
        sign=float(random.choice([-1.0, 1.0])),
        tensor=int(random.choice([4, 8, 32])) if model.matrix_unit > model.unit else 0,
        splits=int(random.choice([1, 2, 3])),
        lazy=model.lag > 0.0,
    )


def evaluate(program, q, k, v, *, scale, visible=None, bias=None, softcap=None, sink=None):
    """One head: q (Tq, d), k (Tk, d), v (Tk, dv) float64; returns float64."""
    visible = np.ones((len(q), len(k)), dtype=bool) if visible is None else visible
    with np.errstate(all="ignore"):
        logits = _logits(program, q, k, np.float64(scale), bias, softcap)
        exact = np.where(visible, logits.astype(np.float64), -np.inf)
        weights = np.exp(exact - exact.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        column = v[:, program.column % v.shape[1]]
        # Exponentials are too large where values are above the average: the worst for an entry.
        signs = program.sign * np.sign(column - (weights @ column)[:, None])
        out = _average(program, logits, v.astype(SINGLE), visible, signs, sink)
    return nearest(out.astype(np.float64), program.model.output)


def _store(program, values):
    return nearest(values.astype(np.float64), program.model.storage).astype(SINGLE)


def _logits(program, q, k, scale, bias, softcap):
    model = program.model
    q, k, scale = q.astype(SINGLE), k.astype(SINGLE), SINGLE(scale)
    keep = (lambda x: _store(program, x)) if model.stores_logits else (lambda x: x)
    entry = (lambda x: _store(program, x)) if model.stores_entries else (lambda x: x)
    if program.scaled == "both":
        root = entry(np.sqrt(scale))
        q, k = entry(q * root), entry(k * root)
    elif program.scaled == "q":
        q = entry(q * entry(scale))
    elif program.scaled == "k":
        k = entry(k * entry(scale))
    if model.operand_unit:
        q, k = _cut(q), _cut(k)
    logits = keep(_sum_products(program, q[:, None, :], k[None, :, :]))
    if program.scaled == "logits":
        logits = keep(logits * entry(scale))
    if softcap is not None:
        cap = entry(SINGLE(softcap))
        tanh = np.tanh((logits / cap).astype(np.float64))
        wrong = program.sign * (model.tanh_error - 2.0 * model.unit)
        logits = keep(keep((tanh * (1.0 + wrong)).astype(SINGLE)) * cap)
    bias = None if bias is None else keep(bias.astype(SINGLE))
    if program.exponent == "apart":
        return logits * LOG2E if bias is None else logits * LOG2E + bias * LOG2E
    return logits if bias is None else keep(logits + bias)


def _average(program, logits, v, visible, signs, sink):
    """Blocks of each split, and splits merged by (m, L) or by logsumexp."""
    folded = program.exponent in {"folded", "apart"}
    if program.exponent == "folded":
        logits = logits * LOG2E
    groups = np.array_split(np.arange(len(program.blocks)), program.splits)
    parts = [
        _blocks(program, logits, v, visible, signs, [program.blocks[i] for i in group])
        for group in groups
    ]
    if program.divided_first:
        return parts[0][0]
    tops = np.concatenate([top for _, _, top in parts], axis=1)
    best = tops.max(1, keepdims=True)
    power, log = (np.exp2, np.log2) if folded else (np.exp, np.log)
    if program.model.merged and len(parts) > 1:
        sums = np.stack([each / total for each, total, _ in parts], axis=-1)
        logs = [top + log(total) for _, total, top in parts]
        lse = np.concatenate(logs, axis=1)
        whole = best + log(power(lse - best).sum(1, keepdims=True, dtype=SINGLE))
        shares = power(lse - whole)
        kept = np.where(np.isnan(sums), SINGLE(0.0), sums) * shares[:, None, :]
        if sink is None:
            return kept.sum(-1, dtype=SINGLE)
        more = power(SINGLE(sink) * (LOG2E if folded else SINGLE(1.0)) - whole)
        return kept.sum(-1, dtype=SINGLE) / (SINGLE(1.0) + more)
    total = np.zeros_like(best)
    sums = np.zeros((len(logits), v.shape[1]), dtype=SINGLE)
    for each, part, top in parts:
        factor = np.where(np.isinf(top), SINGLE(0.0), power(top - best)) if len(parts) > 1 else 1
        total, sums = total + part * factor, sums + each * factor
    if sink is not None:
        total = total + power(SINGLE(sink) * (LOG2E if folded else SINGLE(1.0)) - best)
    return sums * (SINGLE(1.0) / total) if program.reciprocal else sums / total


def _blocks(program, logits, v, visible, signs, blocks):
    """Sums of values and of weights, and the number that was subtracted."""
    model = program.model
    rows = len(logits)
    top = np.full((rows, 1), -np.inf, dtype=SINGLE)
    total = np.zeros((rows, 1), dtype=SINGLE)
    sums = np.zeros((rows, v.shape[1]), dtype=SINGLE)
    values = _cut(v) if model.operand_unit else v
    lag = SINGLE(model.lag) * (LOG2E if program.exponent in {"folded", "apart"} else SINGLE(1.0))
    for start, stop in blocks:
        part = slice(start, min(stop, len(v)))
        some = np.where(visible[:, part], logits[:, part], SINGLE(-np.inf))
        new = np.maximum(top, some.max(1, keepdims=True))
        if program.lazy:
            new = np.where(new > top + lag, new, top)
        wrong = signs[:, part]
        turned = wrong[:, :1] if program.rescaling is None else program.rescaling
        old = _exp(program, top, new, turned, model.rescale_error)
        old = np.where(np.isinf(top), SINGLE(0.0), old)
        p = _exp(program, some, new, wrong, program.exp_error or model.exp_error)
        p = np.where(visible[:, part] & np.isfinite(new), p, SINGLE(0.0))
        kept = p
        if program.stored and not program.divided_first:
            kept = _store(program, p)
        ones = np.ones((1, p.shape[1]), dtype=SINGLE)
        counted = kept if program.summed_stored else p
        plain = replace(program, tensor=0)
        total = _sum_products(plain, counted, ones, initial=total[:, 0] * old[:, 0])[:, None]
        if program.divided_first:
            kept = p / total
            kept = _store(program, kept) if program.stored else kept
        if model.operand_unit:
            kept = _cut(kept)
        sums = _sum_products(
            program, kept[:, None, :], values[part].T[None, :, :], initial=sums * old
        )
        top = new
    return sums, total, top


def _exp(program, values, top, signs, error):
    """exp(values - top), off by as much as may be."""
    if program.exponent == "exp":
        exact = np.exp((values - top).astype(np.float64))
    elif program.exponent == "exp2":
        exact = np.exp2(((values - top) * LOG2E).astype(np.float64))
    elif program.exponent in {"folded", "apart"}:
        exact = np.exp2((values - top).astype(np.float64))
    else:
        both = values.astype(np.float64) * LOG2E - (top * LOG2E).astype(np.float64)
        exact = np.exp2(both.astype(SINGLE).astype(np.float64))
    wrong = np.where(exact == 1.0, 1.0, 1.0 + signs * (error - 2.0 * program.model.unit))
    found = (exact * wrong).astype(SINGLE)
    return np.where(found < 2.0**-126, SINGLE(0.0), found) if program.flush else found


def _cut(values):
    """Cut off to 11 bits."""
    bits = np.ascontiguousarray(values, dtype=SINGLE).view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(SINGLE)


def _sum_products(program, left, right, initial=None):
    """Products summed over the last axis in the order of a program."""
    exact = left.astype(np.float64) * right.astype(np.float64)
    first = np.zeros(exact.shape[:-1], dtype=SINGLE) if initial is None else initial
    if program.tensor:
        return _aligned(exact, first, program)
    if program.order == "backward":
        exact = exact[..., ::-1]
    elif program.order == "descending":
        exact = np.take_along_axis(exact, np.argsort(-np.abs(exact), axis=-1), axis=-1)
    elif program.order == "shuffled":
        exact = exact[..., np.random.default_rng(program.column).permutation(exact.shape[-1])]
    if program.order == "pairwise":
        terms = np.concatenate([first[..., None], exact.astype(SINGLE)], axis=-1)
        while terms.shape[-1] > 1:
            odd = [terms[..., -1:]] if terms.shape[-1] % 2 else []
            even = terms[..., : terms.shape[-1] // 2 * 2]
            terms = np.concatenate([even[..., ::2] + even[..., 1::2], *odd], axis=-1)
        return terms[..., 0]
    if program.fused:
        for j in range(exact.shape[-1]):
            first = (first.astype(np.float64) + exact[..., j]).astype(SINGLE)
        return first
    terms = np.concatenate([first[..., None], exact.astype(SINGLE)], axis=-1)
    return np.add.accumulate(terms, axis=-1)[..., -1]


def _aligned(exact, first, program):
    """As a tensor core adds: products aligned to the largest and cut off, sums cut off."""
    bits = 1.0 - np.log2(program.model.matrix_unit)

    def cut(values, largest):
        safe = np.where(largest > 0, largest, 1.0)
        quantum = np.exp2(np.floor(np.log2(safe)) - bits)
        return np.trunc(values / quantum) * quantum

    for start in range(0, exact.shape[-1], program.tensor):
        some = exact[..., start : start + program.tensor]
        terms = np.concatenate([first[..., None], some], axis=-1)
        total = cut(terms, np.abs(terms).max(-1, keepdims=True)).sum(-1)
        first = cut(total, np.abs(total)).astype(SINGLE)
    return first


def inputs(random, name, shape, size=1.0):
    """Numbers that the format of a model has."""
    return nearest(size * random.standard_normal(shape), kernel_model_named(name).storage)
