"""Encodings of problems: right kernels pass, and each planted mistake is caught."""

from itertools import product

import numpy as np
import pytest
from encoded_kernels import VARIANTS, attend, random_spec

from constructive.kernels import CASES, Problem, Quantized, Spec, examine
from constructive.kernels.encodings import FORMS
from constructive.kernels.masks import Causal
from constructive.kernels.problem import attempt
from constructive.support.errors import ParameterError

WIDE = ("tensor", "head", "sequence")  # scales of values that a kernel may apply to its output


def of_specs(spec, cases, *, seeds=(0,)):
    """Problems of some cases, those that apply."""
    for seed, case in product(seeds, cases):
        problem = attempt(Spec(**vars(spec) | {"seed": seed}), case)
        if isinstance(problem, Problem):
            yield problem


# Quantized caches


def dequantized(
    quantized, how, *, after=False, q_scale=None, k_scale=None, v_scale=None, times=1.0
):
    """A kernel with scales on entries or after products; scales may be wrong ones."""
    k, v = quantized.stored_k, quantized.stored_v
    group = quantized.problem.spec.group
    q_scale = quantized.q_scale if q_scale is None else q_scale
    k_scale = per_entry(k) if k_scale is None else k_scale
    v_scale = per_entry(v) if v_scale is None else v_scale
    q, factor, out_scale = np.asarray(quantized.q, float), 1.0, times
    if after and k.kind not in ("channel", "block"):
        keys, factor = k.numbers, np.repeat(k_scale[..., 0], group, 1)[:, :, None] * q_scale
    else:
        keys, q = k.numbers * k_scale, q * q_scale
    if after and v.kind in WIDE:
        values, out_scale = v.numbers, np.repeat(v_scale[:, :, :1, :1], group, 1) * times
    else:
        values = v.numbers * v_scale
    return attend(q, keys, values, quantized.problem, factor=factor, after=out_scale, **how)


def per_entry(scaled):
    return scaled.scale.ravel()[scaled.place]


KINDS = ("tensor", "head", "channel", "sequence", "token", "page", "block")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_right_kernels_pass_on_quantized_problems(form):
    ran = 0
    for seed in range(40):
        spec = random_spec(
            seed, **({"dtype": form} if form[:5] == "float" and seed % 3 == 0 else {})
        )
        problem = attempt(spec, list(CASES)[seed % len(CASES)])
        if isinstance(problem, str):
            continue
        kinds = {"k": KINDS[seed % 7], "v": KINDS[seed // 7 % 7]}
        try:
            quantized = Quantized.of(problem, form=form, page_size=8, **kinds)
        except ParameterError:
            continue
        assert (per_entry(quantized.stored_k) != 1.0).all()
        assert (per_entry(quantized.stored_v) != 1.0).all()
        quantized.problem.verify()
        how = VARIANTS[seed % len(VARIANTS)]
        out = dequantized(quantized, how, after=seed % 2 == 0)
        assert examine(quantized.problem, out).passed, (seed, spec)
        ran += 1
    assert ran >= 20


def ones(scaled):
    return np.ones_like(per_entry(scaled))


def strided(scaled, page=8, pad=2):
    """Scales of padded pages that are read with the stride of compact ones."""
    scale = per_entry(scaled)
    b, g, t, d = scale.shape
    n = -(-t // page)
    full = np.concatenate([scale, np.repeat(scale[:, :, -1:], n * page - t, 2)], 2)
    padded = np.pad(full.reshape(b, g, n, page, d), ((0, 0),) * 3 + ((0, pad), (0, 0)), "edge")
    return padded.reshape(b, g, -1, d)[:, :, :t]


def transposed(scaled):
    scale = per_entry(scaled)
    return scale.transpose(0, 2, 1, 3).reshape(scale.shape)


def swizzled(scaled):
    scale = per_entry(scaled)
    return scale.reshape(*scale.shape[:-1], -1, 16)[..., ::-1, :].reshape(scale.shape)


def rolled(scaled, axis):
    return np.roll(per_entry(scaled), 1, axis)


def narrow(scaled):
    return np.tile(per_entry(scaled)[..., :32], 2)


# Real bugs by their row in docs/real-kernel-bugs.md: kind of scales, and what a kernel does.
SCALES = {
    "k_scale and v_scale are ignored": (
        "tensor", lambda k, v: {"k_scale": ones(k), "v_scale": ones(v)}),
    "v_scale is ignored": ("head", lambda _k, v: {"v_scale": ones(v)}),
    "k_scale is ignored": ("tensor", lambda k, _v: {"k_scale": ones(k)}),
    "k_scale is ignored, per token": (
        "token", lambda k, _v: {"k_scale": np.full_like(ones(k), np.median(k.scale))}),
    "q_scale is ignored": ("tensor", lambda _k, _v: {"q_scale": 1.0}),
    "v_scale is applied twice": ("tensor", lambda _k, v: {"times": v.scale[0]}),
    "v_scale is applied twice, per head": ("head", lambda _k, v: {"v_scale": per_entry(v) ** 2}),
    "k_scale is applied twice": ("tensor", lambda k, _v: {"k_scale": per_entry(k) ** 2}),
    "k_scale is applied to values": ("head", lambda k, _v: {"v_scale": per_entry(k)}),
    "k_scale and v_scale are exchanged": (
        "head", lambda k, v: {"v_scale": per_entry(k), "k_scale": per_entry(v)}),
    "v_scale divides": ("tensor", lambda _k, v: {"v_scale": 1 / per_entry(v)}),
    "scales of another head": (
        "head", lambda k, v: {"k_scale": rolled(k, 1), "v_scale": rolled(v, 1)}),
    "k_scale of another head": ("head", lambda k, _v: {"k_scale": rolled(k, 1)}),
    "k_scale of head 0": ("head", lambda k, _v: {"k_scale": per_entry(k)[:, :1] + 0 * ones(k)}),
    "k_scale of another sequence": ("sequence", lambda k, _v: {"k_scale": rolled(k, 0)}),
    "v_scale of another sequence": ("sequence", lambda _k, v: {"v_scale": rolled(v, 0)}),
    "k_scale of the next token": ("token", lambda k, _v: {"k_scale": rolled(k, 2)}),
    "v_scale of the next token": ("token", lambda _k, v: {"v_scale": rolled(v, 2)}),
    "k scales at the stride of compact pages": ("token", lambda k, _v: {"k_scale": strided(k)}),
    "v scales at the stride of compact pages": ("token", lambda _k, v: {"v_scale": strided(v)}),
    "k scales (T, G) read as (G, T)": ("token", lambda k, _v: {"k_scale": transposed(k)}),
    "v scales (T, G) read as (G, T)": ("token", lambda _k, v: {"v_scale": transposed(v)}),
    "k_scale of the page before": (
        "page", lambda k, _v: {"k_scale": np.roll(per_entry(k), 8, 2)}),
    "v_scale of the first page": (
        "page", lambda _k, v: {"v_scale": per_entry(v)[:, :, :1] + 0 * ones(v)}),
    "k scales of blocks in reverse": ("block", lambda k, _v: {"k_scale": swizzled(k)}),
    "v scales of blocks in reverse": ("block", lambda _k, v: {"v_scale": swizzled(v)}),
    "k scales of the first half of the width": ("block", lambda k, _v: {"k_scale": narrow(k)}),
    "k scales of channels reversed": (
        "channel", lambda k, _v: {"k_scale": per_entry(k)[..., ::-1]}),
}  # fmt: skip
NAMED = {
    "v_scale is ignored": "v_scale is not applied",
    "k_scale is applied twice": "k_scale is applied twice",
    "k_scale and v_scale are exchanged": "k_scale and v_scale are exchanged",
    "k_scale of head 0": "k_scale is that of the first group",
}
CACHE = Spec(batch=2, heads=(6, 3), queries=9, keys=50, masks=(Causal(),), dtype="bfloat16")


@pytest.mark.parametrize("bug", SCALES)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_wrong_scales_are_caught(bug):
    kind, change = SCALES[bug]
    form = "nvfp4" if kind == "block" else "float8_e4m3fn"
    spec = CACHE
    if bug == "q_scale is ignored":
        spec = Spec(**vars(CACHE) | {"dtype": form})
    reports = []
    for problem in of_specs(spec, ("random", "low", "levels", "scale"), seeds=(3, 4)):
        quantized = Quantized.of(problem, form=form, k=kind, v=kind, page_size=8)
        wrong = change(quantized.stored_k, quantized.stored_v)
        out = dequantized(quantized, VARIANTS[2], **wrong)
        reports.append(examine(quantized.problem, out, memory=quantized))
    assert not all(report.passed for report in reports)
    if bug in NAMED:
        assert any(NAMED[bug] in str(each) for report in reports for each in report.explanations)
