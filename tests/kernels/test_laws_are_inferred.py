"""Laws: sizes, places and numbers that no list has are inferred, and wrong ones are not said."""

import numpy as np
import pytest
from kernels_of_tests import flash, logits_of, plain, softmax_average, values_of, with_mask

from constructive.kernels import Paged, Problem, Spec, diagnose, examine
from constructive.kernels.laws import TIERS
from constructive.kernels.laws.sizes import block_sizes
from constructive.kernels.laws.words import exchanged, listed
from constructive.kernels.masks import Causal, RightPadding, Window

FULL = Spec(batch=2, heads=(4, 2), queries=30, keys=44, head_dim=32, value_dim=40)
CAUSAL = Spec(
    batch=2, heads=(4, 2), queries=30, keys=44, head_dim=32, masks=(Causal("bottom-right"),)
)
SMALL = Spec(
    batch=2, heads=(4, 2), queries=14, keys=20, head_dim=16, masks=(Causal("bottom-right"),)
)
PADDED = Spec(
    batch=3, heads=(4, 2), queries=20, keys=66, head_dim=32, masks=(RightPadding((66, 30, 47)),)
)
WINDOW = Spec(
    batch=1, heads=(4, 2), queries=60, keys=60, head_dim=32, masks=(Causal(), Window(17, None))
)
SINK = Spec(batch=1, heads=(4, 2), queries=30, keys=40, head_dim=32, sink=True)

QUERY, J = np.arange(30)[:, None], np.arange(44)
GROUP = np.arange(4)[:, None, None] % 2
SHIFT = 44 - 30


def values_at(problem, places):
    """The plain kernel with the values of other places."""
    weights, values = shares(problem), values_of(problem)
    return weights @ values[:, :, places]


def shares(problem):
    logits = logits_of(problem)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def with_heads(problem, heads):
    """The plain kernel whose heads read other KV heads."""
    k, v = problem.k[:, heads], problem.v[:, heads]
    return softmax_average(problem.q, k, v, problem.visible, problem.spec.factor)


def packed_rows(out):
    """Rows of a group that are unpacked in the wrong order."""
    batch, heads, queries, width = out.shape
    rows = out.reshape(batch, heads // 2, 2 * queries, width)
    order = np.arange(2 * queries)
    return rows[:, :, order % queries * 2 + order // queries].reshape(out.shape)


def sums_of_first(problem, size):
    """Rows divided by the sum of the first row of their block."""
    logits = logits_of(problem)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    first = np.arange(problem.spec.queries) // size * size
    return weights @ values_of(problem) / weights.sum(-1, keepdims=True)[:, :, first]


def left_out(problem, edge, size):
    """A causal kernel that forgets the last block of keys of each block of queries."""
    last = np.minimum((QUERY // size + 1) * size, 30) + SHIFT
    return with_mask(problem, (J <= QUERY + SHIFT) & (last // edge * edge > J))


def long_lengths(problem, ends):
    return with_mask(problem, np.arange(66) < np.array(ends)[:, None, None, None])


def with_sinks(problem, order):
    logits, sinks = logits_of(problem), problem.sinks[order][:, None, None]
    top = np.maximum(logits.max(-1, keepdims=True), sinks)
    weights = np.exp(logits - top)
    return weights @ values_of(problem) / (weights.sum(-1, keepdims=True) + np.exp(sinks - top))


def scaled(problem, factor):
    scores = problem.q @ np.repeat(problem.k, 2, 1).swapaxes(-1, -2) * problem.spec.factor
    scores = np.where(problem.visible, scores * factor, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ values_of(problem) / weights.sum(-1, keepdims=True)


def phantoms(problem, count):
    """Keys behind the end count, with a logit and a value of 0."""
    logits = logits_of(problem)
    top = np.maximum(logits.max(-1, keepdims=True), 0)
    weights = np.exp(logits - top)
    total = weights.sum(-1, keepdims=True) + count * np.exp(-top)
    return weights @ values_of(problem) / total


def unwritten(problem, rows, number=0.0):
    out = plain(problem).copy()
    out[:, :, rows] = number
    return out


def features(problem, kept):
    q = problem.q * (np.arange(32) < kept)
    k = np.repeat(problem.k, 2, 1)
    return softmax_average(q, k, values_of(problem), problem.visible, problem.spec.factor)


def second_blocks(size):
    return np.where(J // size % 2 == 1, J - size, J)


NAMED = {
    "rows of the output are those of the row (query, head)": (
        CAUSAL, lambda p: packed_rows(plain(p))
    ),
    "divided by the sum of weights of the first query of its block (blocks of 19": (
        CAUSAL, lambda p: sums_of_first(p, 19)
    ),
    "the causal mask follows i * group + the head's number in its group": (
        CAUSAL, lambda p: with_mask(p, QUERY * 2 + GROUP + SHIFT >= J)
    ),
    "the causal mask ends 5 keys too early": (
        CAUSAL, lambda p: with_mask(p, QUERY + SHIFT - 5 >= J)
    ),
    "rounded up to blocks of 11 keys": (
        CAUSAL, lambda p: with_mask(p, -(-(QUERY + SHIFT + 1) // 11) * 11 > J)
    ),
    "in which its block of rows ends (blocks of 12 queries, and of 15": (
        CAUSAL, lambda p: left_out(p, 15, 12)
    ),
    "rounded down to blocks of 7": (
        WINDOW,
        lambda p: with_mask(
            p,
            (np.arange(60)[:, None] >= np.arange(60))
            & (np.arange(60) >= (np.arange(60)[:, None] - 17) // 7 * 7),
        ),
    ),
    "ends at key 41, 36": (PADDED, lambda p: long_lengths(p, (66, 41, 36))),
    "head 1 reads KV head 1, head 2 reads KV head 0": (
        FULL, lambda p: with_heads(p, [0, 1, 0, 1])
    ),
    "values at place j of every second block are those of the block before (blocks of 11": (
        FULL, lambda p: values_at(p, second_blocks(11))
    ),
    "values at place j are those of place j + 9": (
        FULL, lambda p: values_at(p, np.minimum(J + 9, 43))
    ),
    "keys at place 12 of each block (blocks of 13": (
        FULL, lambda p: with_mask(p, (J % 13 != 12)[None, None, None] & p.visible)
    ),
    "columns 32 to 39 of the output are zero": (
        FULL, lambda p: plain(p) * (np.arange(40) < 32)
    ),
    "column c of the output is column (c + 5) % 40": (FULL, lambda p: np.roll(plain(p), -5, -1)),
    "features from 27 on of q and k are left out": (FULL, lambda p: features(p, 27)),
    "logits are 1.3 times": (FULL, lambda p: scaled(p, 1.3)),
    "3 is added to the sum of weights": (FULL, lambda p: phantoms(p, 3)),
    "rows of queries in the last block (blocks of 24 or 12": (
        FULL, lambda p: unwritten(p, slice(24, None))
    ),
    "sums are not rescaled when the largest logit rises (blocks of 20": (
        FULL, lambda p: flash(p, block=20, forgets=("sums",))
    ),
}  # fmt: skip


CASES = "ties", "scale"


def reports_of(kernel, spec):
    with np.errstate(all="ignore"):
        built = [Problem.build(spec, case) for case in CASES]
        return [examine(problem, kernel(problem)) for problem in built]


@pytest.mark.parametrize("words", NAMED)
def test_laws_are_said(words):
    spec, kernel = NAMED[words]
    reports = reports_of(kernel, spec)
    said = [report.laws for report in reports if not report.passed]
    assert any(words in sentence for laws in said for sentence in laws), said
    for report in reports:
        rows = report.problem.answer.checked & ~report.problem.answer.empty
        for made in report.laws.values() if not report.passed else ():
            with np.errstate(all="ignore"):
                near = np.abs(made() - report.out) <= 1e-4 * np.abs(report.out)
            assert (near | np.isnan(report.out)).all(-1)[rows].all()


def test_diagnose_says_a_law_that_all_outputs_agree_on():
    spec, kernel = NAMED[
        "divided by the sum of weights of the first query of its block (blocks of 19"
    ]
    assert (
        "of the first query of its block (blocks of 19 queries)"
        in diagnose(reports_of(kernel, spec))[0]
    )


@pytest.mark.parametrize("spec", [FULL, CAUSAL, PADDED, WINDOW])
def test_right_kernels_have_no_law(spec):
    assert all(not report.wrong.any() and not report.laws for report in reports_of(plain, spec))


NOISE = {
    "codes in random order": lambda out, draw: draw.permutation(out.reshape(-1, out.shape[-1])),
    "one wrong row": lambda out, _: np.where(np.arange(14)[:, None] == 9, out[:, :, :1], out),
    "random factors of rows": lambda out, draw: out * draw.choice([1.0, 2.0], (2, 4, 14, 1)),
    "random factors": lambda out, draw: out * draw.random(out.shape),
}


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("case", ["random", "ties"])
def test_what_follows_no_law_has_none(name, case):
    problem = Problem.build(SMALL, case)
    draw = np.random.default_rng(3)
    out = NOISE[name](plain(problem), draw)
    report = examine(problem, out.reshape(problem.expected.shape))
    assert report.wrong.any()
    if name == "one wrong row":  # a place is said, and nothing else
        assert all("query 9" in sentence or "first query" in sentence for sentence in report.laws)
    else:
        assert not report.laws


LENGTHS = (70, 33, 48)
CACHE = Spec(batch=3, heads=(4, 2), queries=3, keys=70, head_dim=32, masks=(RightPadding(LENGTHS),))
SEQUENCE, KEY = np.arange(3)[:, None], np.arange(70)[None]


def paged(problem, paged, address):
    table = np.maximum(paged.table, 0)
    rows, entries, places = address(KEY // 16, KEY % 16)
    index = np.clip(rows * table.shape[1] + entries, 0, table.size - 1)
    found = table.ravel()[index] * 16 + places
    k, v = (
        np.repeat(pages.reshape(-1, *pages.shape[2:])[found].swapaxes(1, 2), 2, 1)
        for pages in (paged.k, paged.v)
    )
    with np.errstate(all="ignore"):
        return softmax_average(problem.q, k, v, problem.visible, problem.spec.factor)


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ("(j + 3) % 16", lambda entry, place: (SEQUENCE, entry, (place + 3) % 16)),
        ("j // 12, not j // 16", lambda _, place: (SEQUENCE, KEY // 12, place)),
        (
            "entries with an odd number of the table are read as those of the next sequence",
            lambda entry, place: (np.where(entry % 2, (SEQUENCE + 1) % 3, SEQUENCE), entry, place),
        ),
        (
            "entry 2 of sequence 0 is read as entry 0 of sequence 2",
            lambda entry, place: (
                np.where((SEQUENCE == 0) & (entry == 2), 2, SEQUENCE),
                np.where((SEQUENCE == 0) & (entry == 2), 0, entry),
                place,
            ),
        ),
    ],
)
def test_pages(words, address):
    reports = []
    for problem in (Problem.build(CACHE, case) for case in CASES):
        memory = Paged.of(problem, stale=True)
        right = paged(problem, memory, lambda entry, place: (SEQUENCE, entry, place))
        assert examine(problem, right, memory=memory).passed
        reports.append(examine(problem, paged(problem, memory, address), memory=memory))
    assert any(words in sentence for report in reports for sentence in report.laws)


def test_sinks_of_heads():
    reports = reports_of(lambda p: with_sinks(p, [0, 0, 2, 1]), SINK)
    said = [sentence for report in reports for sentence in report.laws if "sink" in sentence]
    assert any("in head 1" in sentence and "in head 0" not in sentence for sentence in said), said


def test_too_few_wrong_rows_say_nothing():
    problem = Problem.build(FULL, "random")
    out = plain(problem)
    out[0, 0, :2] = out[0, 0, 5]
    assert not examine(problem, out).laws


def test_tiers_are_functions_of_evidence():
    assert len({law for tier in TIERS for law in tier}) == sum(map(len, TIERS))


def test_words_and_sizes():
    assert listed([3]) == "3"
    assert listed([1, 2]) == "1 and 2"
    assert listed(range(9)) == "0 to 8"
    assert listed([0, 2, 4, 6, 8, 10, 12]).endswith("..")
    assert exchanged("head", [(0, 1), (1, 0)]) == "heads 0 and 1 are exchanged"
    assert 24 in block_sizes(70)
    assert block_sizes(1) == []
