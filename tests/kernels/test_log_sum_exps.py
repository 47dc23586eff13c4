"""Log-sum-exps and merges: right kernels pass, planted bugs are caught and described by facts.

A bug is a row: what it does to a right result, and words that must occur in the message.
"""

import numpy as np
import pytest
from kernels_of_tests import LOG2E, SINGLE, Encoded

from constructive.exact.formats import FORMATS, nearest
from constructive.kernels import (
    KernelError,
    Problem,
    Spec,
    battery,
    check,
    diagnose,
    examine,
    merges,
    problems,
)
from constructive.kernels.answer import LN2
from constructive.kernels.masks import Causal, RightPadding, VariableLengths
from constructive.support.errors import ParameterError

SHAPE = {"batch": 2, "heads": (4, 2), "queries": 21, "keys": 40, "head_dim": 64}
MASKS = {
    "none": {}, "rows without keys": {"queries": 40, "keys": 21, "masks": (Causal(),)},
    "padding": {"masks": (RightPadding((40, 0)),)}, "sink": {"sink": True},
    "lengths": {"masks": (VariableLengths((21, 9), (40, 13)),)}, "scale": {"scale": 0.3},
    "soft cap": {"soft_cap": 50.0}, "alibi": {"alibi": True},
    "sink alone": {"sink": True, "queries": 40, "keys": 21, "masks": (Causal(),)},
}  # fmt: skip


def logs(x):
    with np.errstate(divide="ignore"):
        return np.log(x)


def kernel(problem, *, splits=1, base="e", **how):
    """A kernel that returns (out, lse), of splits that are merged by log-sum-exps, with a sink."""
    out, lse = Encoded(
        problem, block=-(-problem.spec.keys // splits), splits=splits, **how
    ).outputs()
    if how.get("base2"):
        lse = lse * LOG2E * SINGLE(LN2)
    return out, lse * LOG2E if base == "2" else lse


def at_once(outs, lses, base):
    one = SINGLE(1 if base == "e" else LN2)
    top = lses.max(0)
    safe = np.where(np.isneginf(top), SINGLE(0), top)
    weights = np.exp((lses - safe) * one)
    total = weights.sum(0)
    shares = weights / np.where(total > 0, total, SINGLE(1))
    return (shares[..., None] * outs).sum(0), safe + logs(total) / one


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_right_kernels_return_the_lse_of_every_case(mask, dtype):
    arguments = SHAPE | {"dtype": dtype} | MASKS[mask]
    found = [] if mask == "none" else list(problems(Spec(**arguments)))
    for problem in found or battery(**arguments):
        for base in ("e", "2"):
            for more in ({}, {"splits": 3}, {"base2": True}):
                out, lse = kernel(problem, base=base, **more)
                check(problem, out, lse=lse, base=base)
        with pytest.raises(KernelError, match="log-sum-exps are wrong"):
            check(problem, out, lse=lse + 4.0, base="2")


def test_one_winner_is_bit_for_bit():
    problem = Problem.build(Spec(**SHAPE | {"scale": 0.25}), "low")  # whose root is one of two
    wanted = problem.lse
    assert (wanted.slack < 2.0**-50).all()
    assert set(np.unique(wanted.expected)) == {-256.0, -1024.0, -131072.0}
    check(problem, lse=wanted.expected)
    with pytest.raises(KernelError):
        check(problem, lse=np.nextafter(wanted.expected.astype(SINGLE), SINGLE(0)))


def off_by(part):
    return lambda scores, top: SINGLE(1.0 - part) * np.exp(scores - top)


def test_exp_of_zero_need_not_be_one_in_16_bits():
    """Theorem 20 (e): aten's flash kernel on CPUs has exp(0) = 1 - 2^-14.2."""
    for dtype in ("bfloat16", "float32"):
        problem = Problem.build(Spec(**SHAPE | {"dtype": dtype}), "levels")
        out, lse = kernel(problem, exp=off_by(2.0**-14.2))
        if dtype == "bfloat16":
            check(problem, out, lse=lse)
        else:
            with pytest.raises(KernelError, match="log-sum-exps are wrong"):
                check(problem, out, lse=lse)
        with pytest.raises(KernelError, match="log-sum-exps are wrong"):
            check(problem, lse=kernel(problem, exp=off_by(2.0**-12))[1])


@pytest.mark.parametrize("part", [-1.0, 1.0])
@pytest.mark.parametrize(("case", "soft_cap"), [("scale", None), ("soft cap ties", 50.0)])
def test_logits_may_be_off_by_a_part_where_they_are_no_level(case, soft_cap, part):
    problem = Problem.build(Spec(**SHAPE, soft_cap=soft_cap), case)
    factor = problem.spec.factor * (1.0 + part / 17.0)
    logits = problem.q @ np.repeat(problem.k, problem.spec.group, 1).swapaxes(-1, -2) * factor
    if soft_cap is not None:
        logits = soft_cap * np.tanh(logits / soft_cap)
    lse = np.log(np.exp(logits).sum(-1))
    assert not np.allclose(lse, problem.lse.expected, rtol=1e-3)
    check(problem, lse=lse)
    with pytest.raises(KernelError):
        check(problem, lse=problem.lse.expected + 6.0 * (lse - problem.lse.expected))


def test_logits_that_are_stored_are_the_model_of_the_kernel():
    problem = Problem.build(Spec(**SHAPE | {"dtype": "bfloat16", "scale": 0.3}), "levels")
    lse = problem.lse.expected + 2.0**-9 * problem.lse.level
    check(problem, lse=lse, model="eager bfloat16")
    for model in (None, "flash bfloat16"):
        with pytest.raises(KernelError):
            check(problem, lse=lse, model=model)


def test_layouts_and_conventions():
    spec = Spec(**SHAPE | MASKS["lengths"])
    problem = Problem.build(spec, "levels")
    whole = problem.lse.expected
    packed = whole.transpose(0, 2, 1)[spec.rows()]
    for lse in (whole, whole.transpose(0, 2, 1), packed, packed.T):
        check(problem, lse=lse)
    with pytest.raises(ParameterError, match=r"the lse has shape .* \(B, H, T_q\)") as caught:
        check(problem, lse=whole[0])
    assert caught.value.witness == whole[0].shape
    square = Problem.build(
        Spec(batch=4, heads=(4, 2), queries=1, keys=40, masks=(RightPadding((40, 9, 3, 40)),))
    )
    with pytest.raises(ParameterError, match="heads, tokens"):  # as many of one as of the other
        check(square, lse=square.lse.expected[..., 0])
    empty = Problem.build(Spec(**SHAPE | MASKS["rows without keys"]), "levels")
    out, lse = kernel(empty)
    for value in (0.0, np.inf, np.nan):
        other = np.where(np.isneginf(lse), value, lse)
        check(empty, out, lse=other, fully_masked_lse=value)
        with pytest.raises(KernelError, match="see no key"):
            check(empty, out, lse=other)
    sink = Problem.build(Spec(**SHAPE, sink=True), "ties")
    without = np.log(sink.answer.weights.sum(-1))
    check(sink, lse=without, sink_in_lse=False)
    with pytest.raises(KernelError, match="sink_in_lse= says"):
        check(sink, lse=without)
    with pytest.raises(KernelError):
        check(sink, lse=sink.lse.expected, sink_in_lse=False)
    for given in ({"lse": without}, {"out": sink.expected}):
        with pytest.raises(ParameterError, match="base"):
            check(sink, **given, base="10")


def test_factors_are_said_only_where_they_lead_to_more_than_they_are():
    problem = Problem.build(Spec(**SHAPE, masks=(Causal("top-left"),)), "ties")
    total, log = problem.lse.total, np.log(problem.lse.total)
    counts = np.unique(total)
    assert len(counts) > 3
    assert "1.4 log n + 2" in examine(problem, lse=1.4 * log + 2.0).how[0]
    noise = 2.0**-14 * np.random.default_rng(0).standard_normal(log.shape)
    few = np.where(total == counts[0], 7.0, np.where(total == counts[1], 3.0, log))
    for lse in (1.4 * log + 2.0 + noise, few):
        (said,) = examine(problem, lse=lse).how
        assert "log n" not in said


def finite(change):
    return lambda problem, lse: np.where(np.isfinite(lse), change(problem, lse), lse)


def parts(of_level, of_log):
    """What has other factors of its two parts."""

    def change(problem, _):
        log = np.log(np.maximum(problem.lse.total, 1.0))
        return of_level(problem.spec.factor) * problem.lse.level + of_log * log

    return finite(change)  # fmt: skip


def rounded(name):
    return lambda _, lse: nearest(lse.astype(float), FORMATS[name])


BUGS = {
    "far off": (finite(lambda _, lse: lse + 1e5), r"log n \+ 1e\+05"),
    "log 2 more": (finite(lambda _, lse: lse + LN2), r"L \+ log n \+ 0.6931 \(log 2\)"),
    "base 2": (finite(lambda _, lse: lse / LN2), r"are 1.443 L \+ 1.443 log n"),
    "log2 of the sum": (parts(lambda _: 1, 1 / LN2), r"are L \+ 1.443 log n"),
    "log2 of the maximum": (parts(lambda _: 1 / LN2, 1), r"are 1.443 L \+ log n"),
    "no maximum": (parts(lambda _: 0, 1), "are log n "),
    "scaled twice": (parts(lambda s: s, 1), r"are 0.\d+ L \+ log n "),
    "bfloat16": (rounded("bfloat16"), "but for a rounding to bfloat16"),
    "race": (
        finite(lambda _, lse: lse + LN2 * (np.arange(lse.shape[2]) % 8 == 3)),
        r"query mod 8 = 3(.|\n)*\(log 2\)",
    ),
    "clamped": (finite(lambda _, lse: np.maximum(lse, -80)), "are -80, and should be"),
    "overflow": (
        lambda p, lse: np.where(p.lse.level > 80, np.inf, lse), "winner >= 128(.|\n)*NaN or inf",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BUGS)
def test_bugs_are_caught_and_their_parts_are_said(name):
    change, words = BUGS[name]
    problem = Problem.build(Spec(**SHAPE), "levels")
    out, lse = kernel(problem)
    report = examine(problem, out, lse=change(problem, lse))
    assert not report.passed
    assert not report.wrong.any()
    with pytest.raises(KernelError, match=words) as caught:
        check(problem, out, lse=change(problem, lse))
    assert len(str(caught.value).splitlines()) <= 12
    assert report.lines[-1].startswith("again: Problem.build(")
    assert diagnose([report])[0].startswith("WHERE")


def test_a_wrong_output_comes_first_and_its_lse_is_counted():
    problem = Problem.build(Spec(**SHAPE), "ties")
    out, lse = kernel(problem)
    report = examine(problem, 2.0 * out, lse=lse + 1.0)
    assert "168 of 168 rows are wrong" in report.lines[0]
    assert any("168 of 168 log-sum-exps are wrong" in line for line in report.lines)
    assert len(report.lines) <= 12


# Merging.


def sigmoid(a, b, base):
    """As ring attention has it, with what it needs for empty states."""
    (o1, l1), (o2, l2) = a, b
    one = SINGLE(1 if base == "e" else LN2)
    away = (l2 - l1) * one
    share = 1 / (1 + np.exp(-away))
    lse = l1 + (np.maximum(away, 0) + np.log1p(np.exp(-np.abs(away)))) / one
    out = o1 - share[..., None] * (o1 - o2)
    first, second = np.isneginf(l1), np.isneginf(l2)
    lse = np.where(second, l1, np.where(first, l2, lse))
    return np.where(second[..., None], o1, np.where(first[..., None], o2, out)), lse


def logaddexp(a, b, base):
    """The new log-sum-exp first, then weights exp(lse_i - lse)."""
    one = SINGLE(1 if base == "e" else LN2)
    high, low = np.maximum(a[1], b[1]), np.minimum(a[1], b[1])
    lse = np.where(np.isneginf(low), high, high + np.log1p(np.exp((low - high) * one)) / one)
    safe = np.where(np.isneginf(lse), SINGLE(0), lse)
    return sum(np.exp((x - safe) * one)[..., None] * o for o, x in (a, b)), lse


def two_by_two(pair, states, base, *, is_tree):
    while len(states) > 1:
        last = states[2:] if not is_tree else []
        pairs = [states[i : i + 2] for i in range(0, len(states) if is_tree else 2, 2)]
        states = [pair(*two, base) if len(two) > 1 else two[0] for two in pairs] + last
    return states[0]


@pytest.mark.parametrize("base", ["e", "2"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_right_merges_pass_in_any_order(dtype, base):
    for merge in merges(6, dtype=dtype, base=base):
        outs, lses = merge.outs.astype(SINGLE), merge.lses.astype(SINGLE)
        states = list(zip(outs, lses, strict=True))
        with np.errstate(all="ignore"):
            found = [at_once(outs, lses, base)]
            found += [
                two_by_two(pair, states, base, is_tree=is_tree)
                for pair in (sigmoid, logaddexp) for is_tree in (True, False)
            ]  # fmt: skip
        for out, lse in found:
            merge.check(nearest(out, FORMATS[dtype]), lse)
            merge.check(out)  # in as many bits as it was computed in
        wrong = merge.out * (1.0 + 2.0 * FORMATS[dtype].unit) + merge.out_slack
        with pytest.raises(KernelError, match="rows are wrong"):
            merge.check(wrong)


def test_a_merge_that_converts_its_sum_to_base_e_passes():
    """At 4096 its weights of two equal states are off by more than half a spacing of float16."""
    to_2, to_e = SINGLE(1 / LN2), SINGLE(LN2)
    for seed in range(7):
        merge = next(merges(dtype="float16", seed=seed))
        equal = np.isfinite(merge.lses).all(0) & (np.ptp(np.nan_to_num(merge.lses), axis=0) == 0)
        lses = np.where(equal, merge.lses, 0.0).astype(SINGLE) * to_2
        whole = (lses[0] + SINGLE(1)) * to_e * to_2
        out = (np.exp2(lses - whole)[..., None] * merge.outs.astype(SINGLE)).sum(0)
        out = np.where(equal[..., None], nearest(out, FORMATS["float16"]), merge.out)
        merge.check(out)


def naive(change):
    """A merge whose states are changed first."""
    return lambda outs, lses, base: at_once(*change(outs, lses), base)


def unguarded(outs, lses, _):
    weights = np.exp(lses - lses.max(0))
    return (weights[..., None] * outs).sum(0) / weights.sum(0)[..., None], lses.max(0) + np.log(
        weights.sum(0)
    )


def without_maximum(outs, lses, _):
    weights = np.exp(lses)
    total = np.maximum(weights.sum(0), 1e-30)
    return (weights[..., None] * outs).sum(0) / total[..., None], logs(weights.sum(0))


MERGES = {
    "empty": (unguarded, "all 10 rows in which all states are empty: out is NaN or infinite"),
    "no maximum": (without_maximum, "one state wins"),
    "other base": (
        lambda outs, lses, _: at_once(outs, lses, "2"), "two states share the weight: out is off",
    ),
    "plain": (
        lambda outs, lses, _: (outs.mean(0), at_once(outs, lses, "e")[1]),
        "one state wins: out is off",
    ),
    "exchanged": (naive(lambda outs, lses: (outs, lses[::-1])), "one state wins: out is off"),
    "dropped": (naive(lambda outs, lses: (outs[:-1], lses[:-1])), "one state wins: out is off"),
    "0 is empty": (
        naive(lambda outs, lses: (outs, np.where(lses == 0, -np.inf, lses))),
        "out is",
    ),
    "empty is 0": (
        naive(lambda outs, lses: (outs, np.where(np.isneginf(lses), 0, lses))),
        "out is",
    ),
    "the larger lse": (
        lambda outs, lses, base: (at_once(outs, lses, base)[0], lses.max(0)),
        "two states share the weight: lse is",
    ),
    "bfloat16": (
        naive(lambda outs, lses: (outs, nearest(lses, FORMATS["bfloat16"]))), "share the weight",
    ),
    "clamped": (naive(lambda outs, lses: (outs, np.maximum(lses, -100))), "lse is -99.3069"),
}  # fmt: skip


@pytest.mark.parametrize("name", MERGES)
def test_bugs_of_merges_are_caught(name):
    bug, words = MERGES[name]
    merge = next(merges())
    with np.errstate(all="ignore"):
        out, lse = bug(merge.outs, merge.lses, "e")
    with pytest.raises(KernelError, match=words) as caught:
        merge.check(out, lse)
    assert len(str(caught.value).splitlines()) <= 12


def test_merges_of_other_shapes_and_numbers_are_refused():
    merge = next(merges(tokens=3))
    with pytest.raises(ParameterError, match="shape"):
        merge.check(merge.out[0], merge.lse)
    for arguments in ({"states": 1}, {"value_dim": 1}, {"base": "10"}, {"dtype": "int8"}):
        with pytest.raises(ParameterError):
            next(merges(**arguments))
