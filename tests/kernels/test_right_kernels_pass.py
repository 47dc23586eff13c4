"""Right kernels of several kinds return every answer, and every hypothesis holds."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels_of_tests import Flash, average, logits_of, plain, random_spec, values_of

from constructive.exact.formats import TF32, nearest
from constructive.kernels import CASES, Problem, Spec, battery, check, examine, problems, union
from constructive.kernels.batteries import SUITE
from constructive.kernels.masks import (
    Boolean,
    Causal,
    Given,
    LeftPadding,
    Prefix,
    RightPadding,
    VariableLengths,
    Window,
)
from constructive.kernels.spec import TAKES, needs
from constructive.support.errors import AssumptionError, ParameterError

SMALL = {"batch": 2, "heads": (4, 2), "queries": 33, "keys": 50}
SPECS = {
    "no mask": Spec(**SMALL),
    "one query": Spec(batch=2, heads=(4, 1), queries=1, keys=70),
    "causal": Spec(**SMALL, masks=(Causal("top-left"),)),
    "bottom right": Spec(**SMALL, masks=(Causal("bottom-right"),)),
    "fewer keys": Spec(queries=40, keys=9, masks=(Causal("bottom-right"),)),
    "window": Spec(**SMALL, masks=(Causal("bottom-right"), Window(9, 0))),
    "two sides": Spec(**SMALL, masks=(Window(5, 3, "top-left"),)),
    "right padding": Spec(**SMALL, masks=(RightPadding((50, 13)),)),
    "left padding": Spec(**SMALL, masks=(LeftPadding((0, 31)),)),
    "variable lengths": Spec(
        **SMALL, masks=(VariableLengths((33, 7), (50, 12)), Causal("bottom-right"))
    ),
    "prefix": Spec(**SMALL, masks=(Prefix((8, 3)),)),
    "boolean": Spec(**SMALL, masks=(Boolean(per_head=True, empty=True),)),
    "given": Spec(queries=3, keys=4, masks=(Given(np.tri(3, 4, dtype=bool)),)),
    "soft cap": Spec(**SMALL, soft_cap=50.0, masks=(Causal(),)),
    "sink": Spec(**SMALL, sink=True, masks=(Causal(),)),
    "alibi": Spec(**SMALL, alibi=True, masks=(Causal("bottom-right"),)),
    "odd sizes": Spec(queries=11, keys=23, head_dim=36, value_dim=20, scale=0.3),
}
KERNELS = {
    "plain, float64": plain,
    "plain, float32": lambda problem: plain(problem, np.float32),
    "flash, float32": lambda problem: Flash(problem).output(),
    "flash, blocks of 7": lambda problem: Flash(problem, block=7).output(),
    "flash, float64": lambda problem: Flash(problem, real=np.float64).output(),
    "lazy": lambda problem: Flash(problem, block=7, lag=np.log(256.0)).output(),
    "split": lambda problem: Flash(problem, splits=3).output(),
}


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_kernel_passes_every_case_and_every_hidden_key_is_guarded(name, dtype):
    spec = replace(SPECS[name], dtype=dtype)
    found = list(problems(spec))
    assert len(found) >= 5
    assert union(found) == 1.0
    for problem in found:
        assert problem.verify() > 0
        assert problem.checked > (0.3 if spec.alibi else 0.99)
        for kernel in KERNELS.values():
            out = kernel(problem).astype(float)
            check(problem, nearest(out, spec.output))
            check(problem, out)  # in as many bits as it was computed in
        wrong = problem.expected * (1.0 + 1.5 * spec.output.unit) + problem.answer.slack
        assert not examine(problem, wrong).passed


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "tf32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
)
def test_every_format_holds_its_problems(dtype):
    found = {problem.case: problem for problem in battery(queries=20, keys=40, dtype=dtype)}
    assert {"last", "first", "random", "ties", "uniform", "scale"} <= set(found)
    if dtype == "bfloat16":
        rounded = {case for case, problem in found.items() if problem.answer.slack.any()}
        assert rounded <= {"scale", "fine scale", "uniform", "low"}


FINE = {"float64": 0.02, "float32": 0.02, "tf32": 0.02, "float16": 0.02, "bfloat16": 0.05}


@pytest.mark.parametrize("dtype", FINE)
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_scale_that_is_slightly_wrong_is_seen(dtype, sign):
    factor = 1 + sign * FINE[dtype]
    for keys, width in ((5, 16), (130, 64), (70, 80)):
        spec = Spec(heads=(4, 2), queries=2, keys=keys, head_dim=width, dtype=dtype)
        problem = Problem.build(spec, "fine scale")
        check(problem, nearest(plain(problem), problem.spec.output))
        wrong = replace(problem, spec=replace(spec, scale=spec.factor * factor))
        assert not examine(problem, nearest(plain(wrong), spec.output)).passed


def eager(problem, form):
    """Constants, q, k and logits in few bits: q and k over the root of 1 / scale, then log2 e."""

    def f(x):
        return nearest(np.asarray(x), form)

    root = f(np.sqrt(f(1.0 / problem.spec.factor)))
    q, k = f(problem.q / root), f(np.repeat(problem.k, problem.spec.group, 1) / root)
    exponents = f(f(q @ k.swapaxes(-1, -2)) * f(np.log2(np.e)))
    exponents = np.where(problem.visible, exponents, -np.inf)
    weights = f(np.exp2(exponents - exponents.max(-1, keepdims=True)))
    return f(weights / weights.sum(-1, keepdims=True)) @ values_of(problem)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("scale", [None, 0.21, 0.551, 0.84])
def test_a_right_kernel_that_stores_constants_and_logits_passes_the_finest_case(dtype, scale):
    """With these scales a logit in bfloat16 is off by up to 4.8 roundings, of the 6 allowed."""
    for width in (64, 104):
        spec = Spec(queries=6, keys=30, head_dim=width, scale=scale, dtype=dtype)
        problem = Problem.build(spec, "fine scale")
        check(problem, nearest(eager(problem, spec.inputs), spec.output))


@pytest.mark.parametrize("convention", ["zeros", "nan", "mean"])
def test_rows_without_keys_follow_the_convention(convention):
    spec = Spec(queries=6, keys=4, masks=(Causal("bottom-right"),), fully_masked=convention)
    problem = Problem.build(spec)
    empty = problem.answer.empty
    assert empty[:, :, :2].all()
    assert not empty[:, :, 2:].any()
    rows = {"zeros": 0.0, "nan": np.nan, "mean": problem.v.mean(2)[:, :, None]}[convention]
    out = np.where(empty[..., None], rows, problem.expected)
    check(problem, out)
    other = "nan" if convention == "zeros" else "zeros"
    with pytest.raises(AssertionError, match="convention"):
        check(Problem.build(replace(spec, fully_masked=other)), out)


def changed(problem, name, *where, to):
    array = getattr(problem.draft, name).copy()
    array[where] = to
    return replace(problem, draft=replace(problem.draft, **{name: array}))


def level(problem, name, row, factor):
    """The problem with another level of a query or a key."""
    where = 0, 0, row, problem.draft.level_slot
    return changed(problem, name, *where, to=factor * getattr(problem.draft, name)[where])


def scaled(problem, of_q, of_k=1.0):
    return replace(problem, draft=replace(problem.draft, q=problem.q * of_q, k=problem.k * of_k))


def claiming(problem, expected):
    return replace(problem, answer=replace(problem.answer, expected=expected))


def cancelling_near_key(problem):
    """The logit is the same, its error is not."""
    second = int(problem.answer.weights.argmin())
    problem = changed(problem, "q", ..., slice(2), to=256.0)
    problem = changed(problem, "k", ..., slice(2), to=0.0)
    return changed(problem, "k", 0, 0, second, slice(2), to=[4.0, -4.0])


def cancelling_far_key(problem):
    head = int(np.flatnonzero(problem.slopes)[0])
    key = int(np.flatnonzero(problem.bias[0, head, 3] <= -64.0)[0])
    problem = changed(problem, "q", 0, head, 3, slice(2), to=2.0**20)
    problem = changed(problem, "k", 0, head, slice(None), slice(2), to=0.0)
    return changed(problem, "k", 0, head, key, slice(2), to=[2.0**10, -(2.0**10)])


@pytest.mark.parametrize(
    ("case", "options", "change", "word"),
    [
        ("random", {}, lambda p: scaled(p, 1 / 4), "follow"),
        ("random", {}, lambda p: scaled(p, 2.0**60, 2.0**66), "follow"),
        ("random", {}, lambda p: replace(p, v=p.v * 3), "powers of two"),
        ("random", {}, lambda p: replace(p, v=np.where(p.v == p.v[0, 0, 0], 16.0, p.v)), "1 to 8"),
        ("random", {}, lambda p: claiming(p, p.expected * 2), "follow"),
        ("random", {}, lambda p: claiming(p, p.expected * np.nan), "follow"),
        ("random", {"masks": (Causal(),)}, lambda p: replace(p, visible=~p.visible), "follow"),
        ("low", {}, lambda p: level(p, "k", 5, 0.0), "levels of keys"),
        ("low", {}, lambda p: level(p, "q", np.argmin(p.draft.levels[0, 0]), 8.0), "follow"),
        ("soft cap", {"soft_cap": 50.0}, lambda p: level(p, "q", 1, 0.0), "follow"),
        ("low", {"sink": True}, lambda p: replace(p, sinks=p.sinks / 2.0), "follow"),
        ("last", {"sink": True}, lambda p: replace(p, sinks=np.array([0.0, -1.0])), "follow"),
        ("last", {"sink": True}, lambda p: replace(p, sinks=np.array([0.0, 100.0])), "follow"),
        ("last", {"sink": True}, lambda p: replace(p, sinks=np.array([0.0, np.nan])), "follow"),
        ("scale", {"heads": (1, 1), "queries": 1, "keys": 2}, cancelling_near_key, "follow"),
        (
            "uniform", {"queries": 8, "keys": 200, "head_dim": 32, "alibi": True},
            cancelling_far_key, "follow",
        ),
    ],
)  # fmt: skip
def test_verify_sees_what_does_not_follow(case, options, change, word):
    problem = Problem.build(Spec(**{"queries": 4, "keys": 9, "head_dim": 16} | options), case)
    assert problem.verify() > 0
    with pytest.raises(AssumptionError, match=word):
        change(problem).verify()


def test_queries_may_have_another_level():
    problem = Problem.build(Spec(queries=4, keys=9, head_dim=16), "low")
    assert level(problem, "q", 0, 0.0).verify() == problem.verify()


@pytest.mark.parametrize("part", [-1.0, 1.0])
@pytest.mark.parametrize("case", ["last", "levels", "low", "scale"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_logits_may_be_off_by_a_part_of_their_products_beside_a_sink(dtype, case, part):
    spec = Spec(batch=2, queries=10, keys=40, head_dim=16, sink=True, dtype=dtype)
    problem = Problem.build(spec, case)
    problem.verify()
    q, k = problem.q, problem.k
    size = np.abs(q) @ np.abs(k).swapaxes(-1, -2)
    logits = (q @ k.swapaxes(-1, -2) + part * 2.0**-4 * size) * spec.factor
    check(problem, average(logits, problem.v, problem.sinks))


@pytest.mark.parametrize("sign", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("dtype", ["float32", "tf32", "float8_e4m3fn", "float8_e5m2"])
def test_near_weights_may_be_off_and_operands_in_the_format_of_inputs(dtype, sign):
    for scale in np.linspace(0.05, 2.0, 4):
        spec = Spec(queries=6, keys=12, head_dim=16, dtype=dtype, scale=float(scale))
        problem = Problem.build(spec, "scale")
        logits = problem.q @ problem.k.swapaxes(-1, -2) * scale * (1.0 - sign / 16.0)
        weights = np.exp(logits) * np.where(logits == 0.0, 1.0, 1.0 + sign / 64.0)
        stored = nearest(weights, spec.inputs)
        for total in (weights, stored):
            check(problem, stored @ problem.v / total.sum(-1, keepdims=True))
        wrong = replace(problem, spec=replace(spec, scale=scale / 2.0))
        assert not examine(problem, plain(wrong)).passed


def cut(numbers):
    parts, exponents = np.frexp(np.asarray(numbers, dtype=np.float64))
    return np.ldexp(np.trunc(parts * 2**11) / 2**11, exponents)


@pytest.mark.parametrize("operand", [cut, lambda numbers: nearest(numbers, TF32)])
@pytest.mark.parametrize("case", ["last", "ties", "uniform", "scale"])
def test_divided_weights_may_be_operands_of_tf32(case, operand):
    masks = (Causal("bottom-right"),)
    spec = Spec(queries=8, keys=7, head_dim=16, masks=masks, dtype="tf32", fully_masked="mean")
    problem = Problem.build(spec, case)
    logits = logits_of(problem)
    logits[:, :, 0] = 0.0  # this query sees no key
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights = operand(weights / weights.sum(-1, keepdims=True))
    check(problem, weights @ values_of(problem))
    weights[..., 0] *= 1.0 + 2.0**-6
    weights[..., 1:] *= 1.0 - 2.0**-6
    assert not examine(problem, weights @ values_of(problem)).passed


@pytest.mark.parametrize(
    ("dtype", "case", "head_dim"),
    [("tf32", "low", 48), ("tf32", "levels", 96), ("float8_e5m2", "low", 72),
     ("float32", "low", 72), ("bfloat16", "low", 72)],
)  # fmt: skip
def test_exp_may_be_fused_with_the_maximum(dtype, case, head_dim):
    spec = Spec(queries=4, keys=8, head_dim=head_dim, dtype=dtype)
    problem = Problem.build(spec, case)
    logits, log2e = logits_of(problem, np.float32), np.float32(np.log2(np.e))
    top = logits.max(-1, keepdims=True) * log2e
    weights = np.exp2(logits.astype(np.float64) * log2e - top)
    stored = cut(weights) if dtype == "tf32" else nearest(weights, spec.inputs)
    for total in (weights, stored, (weights > 0.5).astype(float)):  # the last: by the logarithm
        out = weights @ values_of(problem) / total.sum(-1, keepdims=True)
        check(problem, nearest(out, spec.output))
        out = stored @ values_of(problem) / weights.sum(-1, keepdims=True)
        check(problem, nearest(out, spec.output))
    assert not examine(problem, 1.03 * out).passed


def test_rounding_adds_a_part_of_what_is_off():
    """Theorem 14 (d): float32 says how far a weight at a level is off, by up to 0.01."""
    spec = Spec(queries=2, keys=8, head_dim=72)
    off, both = (
        (problem.answer.slack / problem.expected).max()
        for problem in (
            Problem.build(replace(spec, dtype=d), "low") for d in ("float32", "bfloat16")
        )
    )
    assert off + 2.0**-8 * (1.0 + off) - 2.0**-20 <= both < off + 2.0**-7


def test_sums_are_rescaled_before_weights_grow_by_more_than_256():
    problem = Problem.build(Spec(queries=8, keys=8, head_dim=16, masks=(Causal(),)), "random")
    check(problem, Flash(problem, block=1, lag=np.log(256.0)).output())
    assert not examine(problem, Flash(problem, block=1, lag=256.0).output()).passed


@pytest.mark.parametrize(("dtype", "largest"), [("float32", 5440.0), ("float64", 10880.0)])
def test_finite_masks_hide_keys_whose_logit_is_below_9950(dtype, largest):
    masks = (Causal("top-left"),)
    spec = Spec(queries=3, keys=200, head_dim=16, masks=masks, dtype=dtype)
    problem = Problem.build(spec, "last")
    logits = logits_of(replace(problem, visible=np.ones_like(problem.visible)))
    assert logits[~np.broadcast_to(problem.visible, logits.shape)].max() == largest
    out = average(logits - 1e4 * ~problem.visible, values_of(problem))
    assert examine(problem, out).passed == (largest < 9950.0)


@pytest.mark.parametrize("case", ["last", "random", "ties", "uniform"])
@pytest.mark.parametrize(("value_dim", "seed"), [(1, 0), (2, 1), (2, 4), (16, 0)])
def test_a_guarded_key_changes_the_answer(case, value_dim, seed):
    spec = Spec(
        queries=4, keys=4, head_dim=16, value_dim=value_dim, heads=(1, 1), masks=(Causal(),),
        sink=True, seed=seed,
    )  # fmt: skip
    problem = Problem.build(spec, case)
    for place in np.argwhere(problem.answer.guards):
        visible = np.array(np.broadcast_to(problem.visible, problem.answer.guards.shape))
        visible[tuple(place)] = True
        assert not examine(problem, plain(replace(problem, visible=visible))).passed


@pytest.mark.parametrize("factor", [0.25, np.log(2.0), 0.0])
def test_sinks_of_another_unit_are_seen(factor):
    failed = 0
    for problem in battery(heads=(2, 2), queries=20, keys=20, head_dim=16, sink=True):
        check(problem, plain(problem))
        wrong = replace(problem, sinks=factor * problem.sinks)
        failed += not examine(problem, plain(wrong)).passed
    assert failed > 0


@pytest.mark.parametrize("scale", [1e-3, 0.01, 1.0, 4.0])
@pytest.mark.parametrize("soft_cap", [None, 50.0])
def test_float16_leaves_out_cases_that_overflow(scale, soft_cap):
    found = list(battery(queries=9, keys=40, dtype="float16", scale=scale, soft_cap=soft_cap))
    assert found
    with pytest.raises(ParameterError, match="float16"):
        Problem.build(Spec(queries=9, keys=40, dtype="float16", scale=1e-3), "low")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"queries": 0}, "queries"),
        ({"head_dim": "64"}, "head_dim"),
        ({"queries": 9, "keys": 9.0, "takes": "lengths"}, "keys"),
        ({"batch": "2", "takes": "lengths"}, "batch"),
        ({"takes": ["masks"]}, "try: 'mask'"),
        ({"heads": 4}, "heads"),
        ({"heads": (3, 2)}, "3 query heads cannot share 2 KV heads"),
        ({"window": 128}, "window"),
        ({"window": (-1, 0)}, r"window(.|\n)*None in place of -1"),
        ({"window": (0, 2.5)}, "window"),
        ({"masks": Causal()}, "masks"),
        ({"masks": [np.ones((3, 3), dtype=bool)]}, "masks"),
        ({"masks": [Given(np.ones((3, 3), dtype=bool))]}, r"given mask(.|\n)*queries= and keys="),
        ({"masks": [RightPadding((300, 17))]}, r"right padding(.|\n)*queries= and keys="),
        ({"masks": [RightPadding((30, 1.5))], "keys": 40}, "2 integers from 0 to 40"),
        ({"masks": [Given(np.tri(9))], "keys": 9}, "float64(.|\n)*mask == 0"),
        ({"scale": 1e-308}, "scale=1e-308"),
        ({"soft_cap": 1e9}, "soft_cap=1e"),
        ({"soft_cap": -1.0}, r"such as 50\.0"),
        ({"causal": "topleft"}, "causal='topleft'"),
        ({"cases": []}, "no case"),
        ({"cases": ["no such case"]}, "unknown case"),
        ({"cases": ["soft cap"], "keys": 9}, "no case applies(.|\n)*there is no soft cap"),
        ({"soft_cap": 5.0, "queries": 5, "keys": 64}, "no case applies(.|\n)*soft cap of 5 leaves"),
        ({"head_dim": 16, "value_dim": 1, "keys": 40}, "value_dim=1 is too small for 160 keys"),
    ],
)
def test_arguments_that_make_no_sense_are_named(arguments, word):
    with pytest.raises(ParameterError, match=word):
        list(battery(**arguments))


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_an_error_in_a_case_is_not_a_case_that_does_not_apply(case, monkeypatch):
    def broken(*_):
        raise ParameterError("a bug", witness=None, suggestion="none")

    spec = Spec(heads=(4, 2), queries=9, keys=9, soft_cap=50.0 if "cap" in case.name else None)
    if case.refuses(spec) is None:
        monkeypatch.setattr(type(case), "draft", broken)
        with pytest.raises(ParameterError, match="a bug"):
            list(problems(spec, cases=[case.name]))
    else:
        assert not list(problems(spec, cases=[case.name]))


@given(st.integers(0, 999), st.sampled_from(sorted(CASES)), st.sampled_from([2, 3, 5, 8, 12, 64]))
def test_a_case_is_there_or_says_why_not(seed, case, width):
    spec = random_spec(seed, head_dim=width, value_dim=None)
    reason = CASES[case].refuses(spec)
    if reason is None:
        problem = Problem.build(spec, case)
        problem.verify()
        check(problem, plain(problem))
    else:
        with pytest.raises(ParameterError, match=re.escape(reason)):
            Problem.build(spec, case)


def test_the_diagonal_is_bottom_right_where_nothing_is_said():
    for mask in (Causal(), Window(2, 0), Prefix((1,))):
        assert mask == replace(mask, alignment="bottom-right")
    (mask,) = next(iter(battery(window=(2, 0), queries=3, keys=7, head_dim=16))).spec.masks
    assert mask.alignment == "bottom-right"


def test_the_default_is_wide_and_what_a_kernel_does_not_take_is_off():
    found = battery(cases=["last", "ties"])
    assert not any(problem.spec.masks for problem in found)
    specs = list(found.shapes.values())
    assert {(100, 333), (200, 70)} <= {(spec.queries, spec.keys) for spec in specs}
    assert {spec.group for spec in specs} == {1, 3, 4, 2}
    assert any(spec.d_v != spec.head_dim for spec in specs)
    assert any(spec.head_dim & (spec.head_dim - 1) for spec in specs)
    sizes = [
        spec.batch * spec.heads[0] * spec.queries * spec.keys * spec.head_dim for spec in specs
    ]
    assert sizes == sorted(sizes)
    assert "off" in str(found)
    assert set(battery(takes=TAKES).shapes) == set(SUITE)


@pytest.mark.parametrize(
    ("takes", "word"),
    [
        ("lengths", "decode, pages"), ("mask", "window, more keys"), ("window", "window"),
        ("left padding", "left padding, causal"), ("soft cap", "soft cap, causal"),
        ("ALiBi", "ALiBi"), ("sink", "sink, window"), ("variable lengths", "right padding"),
    ],
)  # fmt: skip
def test_what_a_kernel_takes_is_on(takes, word):
    found = battery(takes=["top-left", "bottom-right", "window", takes])
    assert word in found.shapes
    assert set(found.shapes) < set(SUITE)
    kept = {"mask"} if takes == "mask" else set()
    for spec in found.shapes.values():
        assert all(
            names & ({takes, "top-left", "bottom-right", "window"} | kept) for names in needs(spec)
        )


def test_what_is_said_is_so_in_every_shape():
    own = {"batch": 2, "heads": (8, 2), "head_dim": 64, "value_dim": 32, "soft_cap": 50.0}
    found = battery(**own, causal="top-left", takes=["lengths", "window"], cases="last")
    for spec in found.shapes.values():
        assert {name: getattr(spec, name) for name in own} == own
        assert spec.mask(Causal) == Causal("top-left")
        assert {mask.alignment for mask in spec.masks if hasattr(mask, "alignment")} == {"top-left"}
    lengths = [spec.lengths[1].tolist() for spec in found.shapes.values()]
    assert any(0 in each for each in lengths)
    assert {spec.d_v for spec in battery(head_dim=48).shapes.values()} == {48, 24}
    for problem in found:
        check(problem, plain(problem))
        check(problem, Flash(problem).output())


def test_one_size_has_one_shape_and_one_for_all_that_a_kernel_takes():
    assert len(battery(queries=9, keys=20).shapes) == 1
    found = battery(queries=9, keys=20, takes=["lengths", "sink"]).shapes.values()
    assert {(spec.queries, spec.keys, spec.head_dim) for spec in found} == {(9, 20, 64)}
    assert any(spec.mask(RightPadding) for spec in found)
    assert any(spec.sink for spec in found)


@given(
    queries=st.integers(1, 90), keys=st.integers(1, 90),
    alignment=st.sampled_from(["top-left", "bottom-right"]),
    more=st.sets(st.sampled_from(["window", "prefix", "left padding", "sink", "ALiBi"])),
    lengths=st.booleans(),
)  # fmt: skip
def test_masks_are_of_an_alignment_that_is_taken_where_sizes_differ(
    queries, keys, alignment, more, lengths
):
    masks = [VariableLengths((queries, 1), (1, keys))] if lengths else []
    found = battery(queries=queries, keys=keys, masks=masks, takes={alignment, *more})
    for spec in found.shapes.values():
        used = {mask.alignment for mask in spec.masks if hasattr(mask, "alignment")}
        assert used <= {alignment} or (queries == keys and not lengths)
    names = {mask.name for spec in found.shapes.values() for mask in spec.masks}
    assert {"causal", *more & {"window", "prefix"}} <= names


@pytest.mark.parametrize(
    ("takes", "names"), [("window", set()), ("mask", {"causal", "window", "prefix", "chunked"})]
)
def test_masks_have_no_alignment_that_nobody_takes(takes, names):
    found = battery(queries=20, keys=70, takes=[takes]).shapes.values()
    assert {m.name for spec in found for m in spec.masks if hasattr(m, "alignment")} == names
    assert battery(queries=20, keys=20, takes=["window"]).shapes.keys() == {
        "plain", "window, both sides",
    }  # fmt: skip


def test_the_share_of_guarded_keys_over_several_shapes():
    small = {"batch": 1, "heads": (1, 1), "head_dim": 16}
    found = list(battery(causal="top-left", cases=["last", "random"], **small))
    assert union(found) == 1.0
    first = [problem for problem in found if problem.case == "random"]
    assert len({(problem.spec.queries, problem.spec.keys) for problem in first}) == len(first) > 1
    hidden = sum(problem.hidden.sum() for problem in first)
    guarded = sum((problem.hidden & problem.answer.guards).sum() for problem in first)
    assert 0.0 < union(first) < 1.0
    assert union(first) == 1.0 - (hidden - guarded) / hidden


def test_a_soft_cap_that_is_too_small_is_refused():
    spec = Spec(queries=5, keys=64, soft_cap=26.0)
    with pytest.raises(ParameterError, match="soft cap of 26 leaves weight"):
        Problem.build(spec)
    assert Problem.build(replace(spec, soft_cap=30.0)).verify() > 0
