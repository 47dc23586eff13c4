"""Encodings of problems: right kernels pass, and each planted mistake is caught."""

from itertools import product

import numpy as np
import pytest
from kernels_of_tests import SINGLE, VARIANTS, attend, random_spec

from constructive.kernels import (
    CASES,
    Gathered,
    Latent,
    Paged,
    Problem,
    Quantized,
    Rotated,
    Spec,
    check,
    examine,
)
from constructive.kernels.encodings import FORMS, rotate
from constructive.kernels.masks import Boolean, Causal, RightPadding
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


def swizzled(scaled):
    scale = per_entry(scaled)
    return scale.reshape(*scale.shape[:-1], -1, 16)[..., ::-1, :].reshape(scale.shape)


def rolled(scaled, axis):
    return np.roll(per_entry(scaled), 1, axis)


# Real bugs by their row in docs/kernels-found.md: kind of scales, and what a kernel does.
SCALES = {
    "k_scale and v_scale are ignored": (
        "tensor", lambda k, v: {"k_scale": ones(k), "v_scale": ones(v)}),
    "v_scale is ignored": ("head", lambda _k, v: {"v_scale": ones(v)}),
    "k_scale is ignored, per token": (
        "token", lambda k, _v: {"k_scale": np.full_like(ones(k), np.median(k.scale))}),
    "q_scale is ignored": ("tensor", lambda _k, _v: {"q_scale": 1.0}),
    "v_scale is applied twice": ("tensor", lambda _k, v: {"times": v.scale[0]}),
    "k_scale is applied twice": ("tensor", lambda k, _v: {"k_scale": per_entry(k) ** 2}),
    "k_scale is applied to values": ("head", lambda k, _v: {"v_scale": per_entry(k)}),
    "k_scale and v_scale are exchanged": (
        "head", lambda k, v: {"v_scale": per_entry(k), "k_scale": per_entry(v)}),
    "v_scale divides": ("tensor", lambda _k, v: {"v_scale": 1 / per_entry(v)}),
    "k_scale of another head": ("head", lambda k, _v: {"k_scale": rolled(k, 1)}),
    "k_scale of head 0": ("head", lambda k, _v: {"k_scale": per_entry(k)[:, :1] + 0 * ones(k)}),
    "v_scale of another sequence": ("sequence", lambda _k, v: {"v_scale": rolled(v, 0)}),
    "v_scale of the token before": ("token", lambda _k, v: {"v_scale": rolled(v, 2)}),
    "k scales at the stride of compact pages": ("token", lambda k, _v: {"k_scale": strided(k)}),
    "k_scale of the page before": (
        "page", lambda k, _v: {"k_scale": np.roll(per_entry(k), 8, 2)}),
    "v scales of blocks in reverse": ("block", lambda _k, v: {"v_scale": swizzled(v)}),
    "k scales of channels reversed": (
        "channel", lambda k, _v: {"k_scale": per_entry(k)[..., ::-1]}),
}  # fmt: skip
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
        reports.append(examine(quantized.problem, out))
    assert not all(report.passed for report in reports)


@pytest.mark.parametrize("power", [0, 2])
def test_the_scale_of_a_tensor_shows_without_the_case_scale(power):
    reports = []
    for problem in of_specs(CACHE, ("random",), seeds=range(4)):
        quantized = Quantized.of(problem)
        wrong = per_entry(quantized.stored_k) ** power
        reports.append(
            examine(quantized.problem, dequantized(quantized, VARIANTS[0], k_scale=wrong))
        )
    assert not all(report.passed for report in reports)


# Pages


def from_pages(pages, table, lengths, layout="NHD", *, width=None, flat=False):
    """(B, G, T, ..) of pages; `width` is a stride of the table, `flat` ignores strides of pages."""
    if flat:
        memory = pages if pages.base is None else pages.base
        pages = memory.ravel()[: pages.size].reshape(pages.shape)
    pages = np.asarray(pages, float)
    pages = pages if layout == "NHD" else pages.swapaxes(1, 2)
    size, keys = pages.shape[1], int(lengths.max())
    column = np.arange(-(-keys // size))
    stride = table.shape[1] if width is None else width
    at = np.minimum(np.arange(len(table))[:, None] * stride + column, table.size - 1)
    found = pages[np.maximum(table.ravel()[at], 0)]
    return found.reshape(len(table), -1, *pages.shape[2:])[:, :keys].swapaxes(1, 2)


CACHED = Spec(
    batch=3, heads=(4, 2), queries=3, keys=40, masks=(Causal(), RightPadding((40, 17, 3)))
)  # fmt: skip


def read(paged, *, layout="NHD", k=None, v=None, **how):
    arrays = (paged.k if k is None else k, paged.v if v is None else v)
    return [from_pages(x, paged.table, paged.lengths, layout, **how) for x in arrays]


@pytest.mark.parametrize("stale", [False, True])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_pages_of_all_layouts(layout, joined, stale):
    problem = Problem.build(CACHED, "random")
    paged = Paged.of(
        problem, page_size=8, layout=layout, joined=joined, stale=stale, padding=2, columns=3
    )
    assert paged.table.shape == (3, 5 + 3)
    unused = ~paged.pool.is_own & (not stale)
    assert np.array_equal(np.isnan(paged.pool.k).any((2, 3)), unused)
    assert not paged.k.flags.c_contiguous
    tokens = paged.v if layout == "NHD" else paged.v.swapaxes(1, 2)
    assert np.array_equal(tokens, paged.pool.v, equal_nan=True)
    k, v = (np.where(np.isnan(x), 1.0, x) for x in read(paged, layout=layout))
    assert examine(problem, attend(problem.q, k, v, problem)).passed
    if joined:
        assert np.shares_memory(paged.k, paged.kv)
        assert np.shares_memory(paged.v, paged.kv)
        torch_pages = Paged.of(problem, page_size=8, layout=layout, joined=True, library="torch")
        assert torch_pages.kv.shape[1] == 2
    mistakes = {
        "exchanged": {"layout": layout, "k": paged.v, "v": paged.k},
        "stride of the table": {"layout": layout, "width": 5},
        "strides of pages": {"layout": layout, "flat": True},
    }
    if layout == "HND":
        problem_of_layout = Paged.of(problem, page_size=2, layout=layout, stale=stale)
        k, v = read(problem_of_layout, layout="NHD")  # G is the page size
        assert not examine(problem, attend(problem.q, k, v, problem)).passed
    for name, how in mistakes.items():
        k, v = (np.where(np.isnan(x), 1.0, x) for x in read(paged, **how))
        assert not examine(problem, attend(problem.q, k, v, problem)).passed, name


@pytest.mark.parametrize("kind", KINDS)
def test_pages_of_quantized_caches_have_their_scales(kind):
    problem = Problem.build(CACHED, "random")
    quantized = Quantized.of(problem, form="int8", k=kind, v=kind, page_size=8)
    for stale, layout in product((False, True), ("NHD", "HND")):
        paged = Paged.of(quantized, page_size=8, padding=2, stale=stale, layout=layout)
        parts = []
        for pages, scale, own in zip(
            (paged.k, paged.v), (paged.k_scale, paged.v_scale),
            (quantized.stored_k, quantized.stored_v), strict=True,
        ):  # fmt: skip
            x = from_pages(pages, paged.table, paged.lengths, layout)
            if kind in ("token", "block"):
                of_pages = scale[..., None] if kind == "token" else np.repeat(scale, 32, -1)
                s = from_pages(of_pages, paged.table, paged.lengths, layout)
            elif kind == "page":
                filled = np.broadcast_to(scale[:, None, None, None], (len(scale), 8, 2, 1))
                s = from_pages(filled, paged.table, paged.lengths)
            else:
                s = per_entry(own)
            parts.append(np.where(np.isnan(x * s), 1.0, x * s))
        assert examine(quantized.problem, attend(problem_q(quantized), *parts, problem)).passed
    if kind == "page":
        with pytest.raises(ParameterError, match="pages of 8"):
            Paged.of(quantized, page_size=16)


def test_a_case_whose_values_a_format_does_not_hold_is_named():
    problem = Problem.build(Spec(queries=20, keys=40), "fine scale")
    with pytest.raises(ParameterError, match=r"'fine scale' span 2\^\d+; int8 holds 2\^6"):
        Quantized.of(problem, form="int8")


def problem_q(quantized):
    return np.asarray(quantized.q, float) * quantized.q_scale


# Indices and packed masks


def chunked(problem, indices, *, empty=0.0, size=64):
    """Chunks of indices that are merged; what a first chunk without keys leaves is added."""
    spec, chunks = problem.spec, []
    keys = np.broadcast_to(indices, (spec.batch, spec.heads[0], *indices.shape[2:]))
    k, v = (np.repeat(x, spec.group, 1) for x in (problem.k, problem.v))
    b, h, _ = np.ogrid[: spec.batch, : spec.heads[0], : spec.queries]
    for start in range(0, keys.shape[-1], size):
        at = keys[..., start : start + size]
        there = (at >= 0) & (at < spec.keys)
        place = b[..., None], h[..., None], np.where(there, at, 0)
        logits = spec.factor * (k[place] * problem.q[..., None, :]).sum(-1)
        top = np.where(there, logits, -np.inf).max(-1, keepdims=True)
        weights = np.where(
            there, np.exp(logits - np.where(there.any(-1, keepdims=True), top, 0)), 0
        )
        chunks.append((top[..., 0], weights.sum(-1), (weights[..., None] * v[place]).sum(-2)))
    first = chunks[0][1] == 0.0
    best = np.nan_to_num(np.max([top for top, _, _ in chunks], axis=0), neginf=0.0)
    fade = [np.where(total > 0, np.exp(top - best), 0.0) for top, total, _ in chunks]
    total = sum(f * t for f, (_, t, _) in zip(fade, chunks, strict=True))
    out = sum(f[..., None] * o for f, (_, _, o) in zip(fade, chunks, strict=True))
    out = out / np.where(total > 0, total, 1)[..., None]
    return np.where(first[..., None], out + empty, out)


GATHERS = {  # of indices and the number of keys
    "-1 is the last key": lambda x, keys: np.where(x < 0, keys - 1, x),
    "-1 is the first key": lambda x, _: np.maximum(x, 0),
    "one index too few": lambda x, _: np.where(
        np.cumsum((x >= 0)[..., ::-1], -1)[..., ::-1] > 1, x, -1),
}  # fmt: skip


def test_gathered_keys():
    caught = dict.fromkeys(GATHERS, 0)
    for seed in range(30):
        spec = random_spec(seed, soft_cap=None, sink=False, bias=None, dtype="float32")
        problem = attempt(spec, ("random", "last", "first")[seed % 3])
        if isinstance(problem, str):
            continue
        indices = Gathered.of(problem).indices
        assert examine(problem, chunked(problem, indices)).passed
        for name, change in GATHERS.items():
            wrong = chunked(problem, change(indices, spec.keys))
            caught[name] += not examine(problem, wrong).passed
    assert min(caught.values()) >= 3, caught


@pytest.mark.parametrize("fully_masked", ["zeros", "nan"])
def test_a_chunk_of_indices_without_keys_must_not_be_nan(fully_masked):
    """The advice for rows without keys does not hide that a first chunk without keys is NaN."""
    spec = Spec(
        batch=2, queries=20, keys=60, masks=(Boolean(empty=True),), fully_masked=fully_masked
    )
    said = set()
    for problem in of_specs(spec, ("random", "last", "ties")):
        indices = Gathered.of(problem).indices
        unmasked = problem.answer.empty[..., None] & (fully_masked == "nan")
        right = np.where(unmasked, np.nan, chunked(problem, indices))
        check(problem, right)
        with np.errstate(all="ignore"):
            report = examine(problem, chunked(problem, indices, empty=np.nan))
        assert not report.passed
        said |= set(report.how)
        assert report.wrong[~problem.answer.empty].any()
    assert any("a block without keys before others" in line for line in said) == (
        fully_masked == "zeros"
    )


def test_indices_beyond_the_keys_are_behind_all_keys():
    problem = Problem.build(Spec(queries=5, keys=9, masks=(Causal(),)))
    gathered = Gathered.of(problem, unused="beyond", width=20)
    for row, count in zip(gathered.indices[0, 0], gathered.counts[0, 0], strict=True):
        assert (row[:count] < 9).all()
        assert (row[count:] >= 9).all()
    anywhere = Gathered.of(problem)
    assert anywhere.counts is None
    there = anywhere.indices[0, 0] >= 0
    assert {(bool(row[0]), bool(row[-1])) for row in there} >= {(True, False), (False, True)}
    with pytest.raises(ParameterError, match="unused"):
        Gathered.of(problem, unused="front")


def test_gathered_keys_of_pages():
    problem = Problem.build(CACHED, "random")
    paged = Paged.of(problem, page_size=8)
    gathered = Gathered.of(problem, paged=paged, width=64, unused="behind")
    tokens = paged.k.reshape(-1, *paged.k.shape[2:])
    for b, i in np.ndindex(3, 3):
        there = gathered.indices[b, 0, i]
        keys = np.flatnonzero(problem.visible[b, 0, i])
        assert (there[gathered.counts[b, 0, i] :] == -1).all()
        found = sorted(map(bytes, tokens[there[there >= 0]]))
        assert found == sorted(map(bytes, problem.k[b].swapaxes(0, 1)[keys].astype("float32")))
    with pytest.raises(ParameterError, match="more than width"):
        Gathered.of(problem, width=2)


# Values inside keys


def latent_attention(latent, how, *, q=None, kv=None, v=None, out=lambda x: x, **options):
    q = np.asarray(latent.q, float) if q is None else q
    kv = np.asarray(latent.kv, float)[:, None] if kv is None else kv
    v = kv[..., : latent.problem.spec.d_v] if v is None else v
    return out(attend(q, kv, v, latent.problem, **how, **options))


def unread(latent, start, end):
    q = np.array(latent.q, float)
    q[..., start:end] = 0.0
    return {"q": q}


def rows_of_the_first(out):
    count = out.shape[2]
    return np.repeat(out[:, :, :1], count, 2) if count & (count - 1) else out


LATENT = {
    "all queries are the first where their number is no power of two": (
        lambda _: {"out": rows_of_the_first}),
    "values are the last entries": lambda x: {"v": np.asarray(x.kv, float)[:, None, :, 64:]},
    "entries of the embedding are not read": lambda x: unread(x, 512, 576),
    "half a tile is not read": lambda x: unread(x, 288, 320),
    "the scale of 576 entries": lambda _: {"scale": lambda: SINGLE(576**-0.5)},
}  # fmt: skip


def latent_problems(seeds, **fixed):
    for seed in seeds:
        r = np.random.default_rng(seed)
        keys = int(r.integers(5, 60))
        spec = Spec(
            batch=2, heads=(8, 1), queries=int(r.integers(1, 5)), keys=keys, head_dim=64,
            value_dim=512, masks=(Causal(), RightPadding((keys, int(r.integers(5, keys + 1))))),
            scale=(None, 192**-0.5, 0.25)[seed % 3], seed=seed,
            dtype=("bfloat16", "float16", "float32")[seed // 3 % 3], **fixed,
        )  # fmt: skip
        for problem in of_specs(spec, CASES, seeds=(seed,)):
            yield Latent.of(problem)


def test_right_kernels_pass_with_values_inside_keys():
    ran = 0
    for turn, latent in enumerate(latent_problems(range(6))):
        latent.problem.verify()
        q, values = np.asarray(latent.q, float)[..., :512], latent.problem.v.swapaxes(-1, -2)
        assert not (q @ values).any()
        assert (np.abs(q) @ values).max() * latent.scale <= 2.0**16  # Proposition 25 (c)
        out = latent_attention(latent, VARIANTS[turn % len(VARIANTS)])
        assert examine(latent.problem, out).passed, latent.problem
        ran += 1
    assert ran >= 50


@pytest.mark.parametrize("bug", LATENT)
def test_wrong_kernels_with_values_inside_keys_are_caught(bug):
    for latent in latent_problems(range(9)):
        wrong = LATENT[bug](latent)
        if not examine(latent.problem, latent_attention(latent, VARIANTS[2], **wrong)).passed:
            return
    pytest.fail(bug)


# Rotary embeddings


def rotating(rotated, *, layout, rotary, q_at=None, k_at=None, sign=1.0):
    parts = []
    for x, at in (
        (rotated.q, rotated.q_positions if q_at is None else q_at),
        (rotated.k, rotated.k_positions if k_at is None else k_at),
    ):
        cos, sin = (
            np.asarray(t, float)[at][:, None, :, : rotary // 2] for t in (rotated.cos, rotated.sin)
        )
        parts.append(rotate(np.asarray(x, float), cos, sign * sin, layout))
    return attend(*parts, rotated.problem.v, rotated.problem)


def test_rotary_embeddings():
    caught = dict.fromkeys(("layout", "partial", "sign", "positions", "first position"), 0)
    ran = 0
    for seed in range(40):
        spec = random_spec(seed)
        problem = attempt(spec, list(CASES)[seed % len(CASES)])
        if isinstance(problem, str):
            continue
        layout, other = ("half", "interleaved")[:: 1 - 2 * (seed % 2)]
        rotary = (spec.head_dim, spec.head_dim // 2)[seed // 2 % 2]
        rotated = Rotated.of(problem, layout=layout, rotary=rotary)
        right = {"layout": layout, "rotary": rotary}
        assert examine(problem, rotating(rotated, **right)).passed
        ran += 1
        wrong = {
            "layout": {"layout": other},
            "partial": {"rotary": rotary // 2},
            "sign": {"sign": -1.0},
            "positions": {"q_at": rotated.q_positions - rotated.q_positions[:, :1]},
            "first position": {"q_at": 0 * rotated.q_positions + rotated.q_positions[:, :1]},
        }
        for name, change in wrong.items():
            caught[name] += not examine(problem, rotating(rotated, **(right | change))).passed
    assert ran >= 25
    assert min(caught.values()) >= ran // 4, (ran, caught)
