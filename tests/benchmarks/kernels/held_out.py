"""Bugs of reports of 2025 and 2026 that tests of kernels did not look at: which are caught now?

    python tests/benchmarks/kernels/held_out.py

Each is planted in a small kernel of our own by what its report says; "like" stands before what is
only known by its kind. The right kernel and the wrong one get the same problems. *By default* is
what a tester calls who knows what the kernel is given: `battery(takes=..)`, or the class for pages,
indices and so on, without further arguments. Needs torch and pytest, as the tests do.
"""

import logging
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np

from constructive.kernels import (
    Append,
    Backward,
    Gathered,
    Problem,
    Quantized,
    Spec,
    battery,
    cut_keys,
    examine,
    merges,
    selections,
)
from constructive.kernels.inputs import STRIDED
from constructive.kernels.masks import Chunked, RightPadding

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "kernels"))

import test_encodings as encoded
import test_gradients as gradients
import test_inputs_as_kernels_get_them as given
import test_log_sum_exps as lses
import test_planted_kernels as planted
from kernels_of_tests import Flash, logits_of, plain, values_of
from real_bugs import passes, result

SINGLE = np.float32


def forward(steps, **arguments):
    for problem in battery(**arguments):
        kernels = (planted.replaced(each)(problem) for each in ({}, steps))
        yield problem.case, *(examine(problem, kernel.output()).passed for kernel in kernels)


def zero_after_hidden(self, old, scores, j):
    """A block without visible keys leaves the largest logit at 0."""
    top = Flash.top(self, old, scores, j)
    return np.where(np.isneginf(scores.max(-1, keepdims=True)), np.maximum(top, 0), top)


def gathered(change, fill=0.0):
    """Keys by indices; the row -1 of the arrays is no key."""
    for problem in battery(heads=(4, 2), takes=["mask"], cases=["last", "random", "ties"]):
        if problem.spec.keys > 100 or problem.mask is None:
            continue
        indices = Gathered.of(problem).indices
        yield (
            problem.case,
            *(
                examine(problem, each).passed
                for each in (encoded.chunked(problem, indices), change(problem, indices, fill))
            ),
        )


def times_nan(problem, indices, _):
    """Rows with an index of -1 read NaN there, times the weight 0."""
    found = encoded.chunked(problem, indices)
    return np.where((np.asarray(indices) < 0).any(-1)[..., None], np.nan, found)


def nan_of_first_chunk(problem, indices, _):
    return encoded.chunked(problem, indices, empty=np.nan)


def backward(change, **arguments):
    """`change` gets the gradients, the problem, and whether it is the first call of a shape."""
    seen = set()
    for problem in Backward.each(battery(**arguments)):
        shape = replace(problem.problem.spec, seed=0)
        right = (problem.dq, problem.dk, problem.dv)
        wrong = change(problem, [x.copy() for x in right], shape not in seen)
        seen.add(shape)
        yield problem.problem.case, *(problem.examine(*x).passed for x in (right, wrong))


def accumulated(_, found, is_first):
    """A tuner runs the kernel several times in the first call, and adds."""
    return [x * (3.0 if is_first else 1.0) for x in found]


def past_the_last(problem, found, _):
    """The first row behind the last sequence gets the gradient of a key before."""
    ends = problem.problem.spec.lengths[1]
    for b, end in enumerate(ends):
        if 0 < end < found[2].shape[2]:
            found[2][b, :, end] = found[2][b, :, end - 1] + 1.0
    return found


def one_block_too_few(self, out):
    """Blocks are counted from all tokens, so a part of one of each sequence is lost."""
    lengths = self.spec.lengths[0]
    blocks = -(-int(lengths.sum() - len(lengths) + 1) // 64)
    each = -(-lengths // 64)
    block = (np.cumsum(each) - each)[:, None] + np.arange(self.spec.queries) // 64
    return np.where((block < blocks)[:, None, :, None], out, 0)


def in_float8(scale, wrong, **arguments):
    kind = ml_dtypes.float8_e4m3fn
    for problem in battery(dtype="bfloat16", **arguments):
        if problem.v.max() > 8.0:
            continue
        right = plain(problem, SINGLE)
        scales = scale(right.shape)
        wide = np.repeat(scales, right.shape[-1] // scales.shape[-1], -1)
        outs = ((right / x).astype(kind) for x in (wide, wrong(wide)))
        yield problem.case, *(examine(problem, x, out_scale=scales).passed for x in outs)


def one_scale(shape):
    return np.full((1,) * len(shape), 0.25)


def of_groups(shape):
    return 0.1 + np.random.default_rng(0).random((*shape[:-1], 2 - shape[-1] % 2))


def of_torch(what, first, **arguments):
    for problem in battery(**arguments):
        if problem.case not in STRIDED:  # the same tensors for both
            continue
        masks = None
        if what == "mask" and (problem.mask is not None or problem.bias is not None):
            masks = problem.mask_tensor("torch", additive=problem.added is not None)
        elif what == "mask":
            continue
        passed = []
        for kernel in (given.AsContiguous(None), given.AsContiguous(what, first)):
            mask = masks if masks is None or kernel.what is None else in_bounds(masks, first)
            kernel = given.AsContiguous(None if masks is not None else kernel.what, first)  # noqa: PLW2901
            passed.append(examine(problem, one_of(kernel, problem, mask)).passed)
        yield problem.case, *passed


def in_bounds(mask, first):
    """A mask that is read with the strides of its shape from an axis on, within its memory."""
    import torch

    memory = mask.as_strided((mask.untyped_storage().nbytes() // mask.itemsize,), (1,))
    strides = [*mask.stride()[:first], *torch.empty(mask.shape).stride()[first:]]
    at = sum(
        torch.arange(n).reshape([-1 if a == axis else 1 for a in range(4)]) * stride
        for axis, (n, stride) in enumerate(zip(mask.shape, strides, strict=True))
    )
    return memory[at % len(memory)]


def one_of(kernel, problem, mask):
    import torch

    if problem.spec.factor != problem.spec.head_dim**-0.5:
        return torch.tensor(plain(problem))
    found = kernel(problem, mask).double().numpy()
    empty = ~np.broadcast_to(problem.visible.any(-1), found.shape[:3])
    return np.where(empty[..., None], 0.0, found)


def largest(change, **arguments):
    for problem in battery(**arguments):
        right = logits_of(problem, SINGLE).max(-1)
        found = (right.max((0, 2)), change(problem).max((0, 2)))
        yield problem.case, *(examine(problem, max_logit=x).passed for x in found)


def of_all_keys(problem):
    every = replace(problem, visible=np.ones_like(problem.visible))
    return logits_of(every, SINGLE).max(-1)


def appended(wrong, form=None):
    for seed in range(3):
        spec = Spec(batch=3, heads=(4, 2), queries=3, keys=70, dtype="bfloat16", seed=seed,
                    masks=(RightPadding((70, 33, 5)),))  # fmt: skip
        problem = Problem.build(spec, "random")
        if form is not None:
            problem = Quantized.of(problem, form=form, v="head")
        append = Append.of(problem)
        yield (
            "random",
            *(passes(append.check, *written(append, problem, how)) for how in (None, wrong)),
        )


def written(append, problem, wrong):
    """The cache after a kernel: numbers are divided by their scale and rounded."""
    caches, size = [], append.paged.pool.k.shape[1]
    slots = np.asarray(append.slots)
    for name, fresh in (("k", append.k), ("v", append.v)):
        cache = np.array(getattr(append.paged, name)).astype(float)
        numbers = np.asarray(fresh, float)
        if isinstance(problem, Quantized):
            scale = np.asarray(getattr(append.paged, f"{name}_scale"), float)
            numbers = numbers / (scale if scale.size == 1 else scale[:, None])
        at, numbers = (slots, np.rint(numbers)) if wrong is None else wrong(slots, numbers, size)
        cache.reshape(-1, *cache.shape[2:])[at] = numbers
        caches.append(cache)
    return caches


def within_the_page(slots, numbers, size):
    """Places after the first are counted on, also beyond the end of a page."""
    first = np.concatenate([[True], np.abs(np.diff(slots)) != 1])
    start = slots[np.maximum.accumulate(np.where(first, np.arange(len(slots)), 0))]
    run = np.arange(len(slots)) - np.maximum.accumulate(np.where(first, np.arange(len(slots)), 0))
    early = np.where(first & (slots % size == 0), np.maximum(slots - 1, 0), start + run)
    return early, np.rint(numbers)


def cut_off(slots, numbers, _):
    return slots, np.trunc(numbers * (1 - 2.0**-7))


def whole_pages(slots, numbers, size):
    """The rest of the last page is written, too."""
    more = slots[-1:] + np.arange(1, 1 + max(1, (-int(slots[-1]) - 1) % size))
    more = more % (slots.max() + size)
    return np.concatenate([slots, more]), np.concatenate(
        [np.rint(numbers), 0 * numbers[:1].repeat(len(more), 0)]
    )


def selected(wrong):
    for selection in selections():
        outs = chosen(selection, lambda x, _: x, 0), chosen(selection, *wrong)
        yield selection.case, *(passes(selection.check, out) for out in outs)


def chosen(selection, change, more):
    keys, k = selection.scores.shape[1], selection.count
    ends = np.asarray(selection.lengths)[:, None]
    scores = np.where(np.arange(keys) < ends + more, selection.scores, -np.inf)
    order = np.argsort(-change(scores, ends), axis=-1, kind="stable")[:, :k]
    return np.where(np.isneginf(np.take_along_axis(change(scores, ends), order, 1)), -1, order)


def from_the_least_half(scores, _):
    """What is not above the least number of float16 is not selected."""
    return np.where(scores < -65504.0, -np.inf, scores)


def ringed(wrong, **options):
    for problem in battery(queries=40, keys=40, heads=(4, 2), takes=["top-left"], **options):
        v, every = values_of(problem, SINGLE), logits_of(problem, SINGLE)
        states = []
        for keys in cut_keys(problem, 4, zigzag=True):
            logits = every[..., keys]
            top = logits.max(-1, keepdims=True)
            base = np.where(np.isneginf(top), 0, top)
            weights = np.exp(logits - base)
            total = weights.sum(-1, keepdims=True)
            with np.errstate(divide="ignore"):
                lse = (base + np.log(total))[..., 0]
            states.append((weights @ v[:, :, keys] / np.where(total > 0, total, 1), lse))
        outs, ends = map(np.stack, zip(*states, strict=True))
        yield problem.case, *(examine(problem, merged(outs, x)).passed for x in (ends, wrong(ends)))


def merged(outs, ends):
    top = np.nan_to_num(ends.max(0), neginf=0.0)
    with np.errstate(all="ignore"):
        weights = np.exp(ends - top)
        return (weights[..., None] * outs).sum(0) / weights.sum(0)[..., None]


def of_sinks(wrong):
    for states in merges(sink=True):
        outs, ends = states.outs.astype(SINGLE), states.lses.astype(SINGLE)
        sink = np.broadcast_to(states.sinks.astype(SINGLE), (1, *ends.shape[1:]))
        right = lses.at_once(
            *(np.concatenate(x) for x in ((outs, 0 * outs[:1]), (ends, sink))), "e"
        )
        yield (
            f"{len(outs)} states",
            *(passes(states.check, *found) for found in (right, wrong(outs, ends, sink))),
        )


def in_each_rank(outs, ends, sink):
    """The sink counts in each state."""
    part = np.exp(ends - np.logaddexp(ends, sink))[..., None]
    return lses.at_once(outs * np.nan_to_num(part), np.logaddexp(ends, sink), "e")


def of_own_ranks(problem, found, _):
    """Each rank's keys are weighed by the log-sum-exps of that rank alone."""
    steps = gradients.Steps(problem)
    logits = steps.logits()
    p = np.zeros_like(logits)
    for keys in cut_keys(problem.problem, 2):
        part = logits[..., keys]
        top = np.nan_to_num(part.max(-1, keepdims=True), neginf=0.0)
        weights = np.exp(part - top)
        p[..., keys] = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-30)
    return found[0], found[1], steps.summed(p.swapaxes(-1, -2) @ problem.d_out)


# report: how it is planted, what somebody calls, whether that is the default, what is run
BUGS = {
    "flash-attention#2082": (
        "the largest logit is at least 0 after a hidden block", "`check`", True,
        partial(forward, {"top": zero_after_hidden}, takes=["top-left"])),
    "miles#2079": (
        "0 times NaN of an index -1", "`Gathered`", True, partial(gathered, times_nan)),
    "vllm#48364": (
        "NaN where the first chunk of indices has no key", "`Gathered`", True,
        partial(gathered, nan_of_first_chunk)),
    "pytorch#176793": (
        "like: the row behind the last of a sequence has a gradient", "`Backward`",
        True, partial(backward, past_the_last, takes=["variable lengths"])),
    "triton#4217": (
        "the first call of a shape adds up gradients", "`Backward`", True,
        partial(backward, accumulated)),
    "a bias of sequences": (
        "the plane of the first sequence is read for all", "`check`", True,
        partial(forward, {"bias": lambda s, j: Flash.bias(s, j)[:1]}, takes=["bias"])),
    "onnxruntime#29247": (
        "like: rows of a bias are read without their padding", "`check`", True,
        partial(of_torch, "mask", 2, takes=["bias"])),
    "onnxruntime#28200": (
        "blocks are counted from tokens - sequences + 1", "`check`", True,
        partial(forward, {"written": one_block_too_few}, takes=["variable lengths"])),
    "vllm#36297": (
        "like: the scale of a float8 output is applied twice", "`check`, `out_scale=`",
        False, partial(in_float8, one_scale, lambda x: x * x)),
    "vllm#45151": (
        "like: the scale of the next group is taken", "`check`, `out_scale=`", False,
        partial(in_float8, of_groups, lambda x: np.roll(x, 1, 2))),
    "pytorch#187506": (
        "the innermost stride of keys is taken as 1", "`check`", True,
        partial(of_torch, "k", 3)),
    "pytorch#184180": (
        "like: a broadcast mask is read as if it were whole", "`check`", True,
        partial(of_torch, "mask", 0, takes=["mask"])),
    "onnxruntime#26766": (
        "like: a mask that heads share has the stride of heads", "`check`", True,
        partial(of_torch, "mask", 1, takes=["mask"])),
    "TransformerEngine#2819": (
        "like: the largest logit is that of all keys", "`check`, `max_logit=`",
        False, partial(largest, of_all_keys, takes=["lengths"])),
    "tt-metal#54742": (
        "like: a token at the start of a page is written before it", "`Append`", True,
        partial(appended, within_the_page)),
    "vllm#49012": (
        "like: numbers are cut off, not rounded", "`Append`, `Quantized`", True,
        partial(appended, cut_off, "int8")),
    "vllm#47056": (
        "like: cells behind the new tokens are written", "`Append`", True,
        partial(appended, whole_pages)),
    "sglang#36807": (
        "like: scores below -65504 are not selected", "`selections`", True,
        partial(selected, (from_the_least_half, 0))),
    "sglang#35257": (
        "like: a key behind the last is selected", "`selections`", True,
        partial(selected, (lambda x, _: x, 1))),
    "diffusers#14265": (
        "like: ranks are merged in base 2", "`check`, `cut_keys`", True,
        partial(ringed, lambda ends: ends / SINGLE(np.log(2)))),
    "TransformerEngine#3551": (
        "like: weights are those of a rank alone", "`Backward`, `cut_keys`",
        True, partial(backward, of_own_ranks, takes=["top-left"])),
    "sglang#33353": (
        "like: the sink counts in each state", "`merges`, `sink=True`", False,
        partial(of_sinks, in_each_rank)),
    "transformers#37351": (
        "chunks are counted from the first query", "`check`", True,
        partial(forward, {"seen": lambda s, j: (j <= s.at) & (
            j // chunk(s) == (s.i // chunk(s) + s.at[..., :1, :] // chunk(s)))},
            takes=["chunked"])),
    "offsets": (
        "a diagonal top left in the place of bottom right", "`check`", True,
        partial(forward, {"seen": lambda s, j: j <= s.i}, takes=["bottom-right"])),
}  # fmt: skip


def chunk(kernel):
    mask = kernel.spec.mask(Chunked)
    return 10**6 if mask is None else mask.size


def main():
    logging.disable()
    caught = {True: 0, False: 0}
    for report, (how, seen_by, is_default, run) in BUGS.items():
        is_caught, said = result([run])
        caught[is_default] += is_caught
        print(f"{report} | {how} | {seen_by}: {said}", flush=True)
    print(f"by default {caught[True]}, with settings {sum(caught.values())} of {len(BUGS)}")
    return sum(caught.values()) == len(BUGS)


if __name__ == "__main__":
    raise SystemExit(not main())
