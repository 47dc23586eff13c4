"""What certify bounds for paired heads, step by step: as the checker's steps are tested."""

import dataclasses
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from paired_cases import Matrix, distance, possible, softmax

from constructive import Dataset, Memorizer, Verdict, build_memorizer, generators
from constructive.claims import readout
from constructive.claims.paired import entries, examples, inverse, judge, residuals
from constructive.exact import compensated, directed
from constructive.record import TrainedRecord
from constructive.verdict import pack

QUIET = {"progress": lambda *_: None}


@pytest.fixture(scope="module")
def built():
    """13 examples of 4 pairs, the last one of its own."""
    data = generators.gaussian(num_examples=13, context_size=3, width=5, seed=3)
    return build_memorizer(data, num_heads=8, construction="paired", seed=1), data


def steps_of(memorizer, data):
    read = examples.Examples.of(memorizer, data)
    return read, entries.evaluate(read, lambda *_: None)


@pytest.fixture(scope="module")
def steps(built):
    return steps_of(*built)


# Attention.


@pytest.mark.parametrize("off", [0.0, 1e-15, 1e-6, 1e-4])
@pytest.mark.parametrize("score_error", [0.0, 1e-16, 1e-7, 1e-4])
@pytest.mark.parametrize("low", [0.0, 1e-5])
def test_attention_covers_all_that_is_possible(off, score_error, low):
    rng = np.random.default_rng(0)
    high, scores = rng.uniform(-9, 9, (5, 2)), rng.uniform(-1, 1, (5, 4))
    lows = low * rng.uniform(-1, 1, (5, 2)), low * rng.uniform(-1, 1, (5, 4))
    reach = high, lows[0], np.full((5, 2), off)
    errors = np.full(5, score_error)
    found, bound = entries._attention(reach, scores, lows[1], errors)
    with mpmath.workdps(60):
        for k in range(5):
            worst = 0
            for head in range(2):
                given = (high[k, head], lows[0][k, head], off, scores[k], lows[1][k], score_error)
                worst += max(distance(softmax(x), found[k, head]) for x in possible(*given))
            assert worst <= bound[k]
            most = np.abs(high[k]).sum() * 4 * score_error + 2 * 2 * off * (1 + score_error)
            assert bound[k] <= 2.2 * most + 1e-12


def test_large_errors_of_small_shares_are_not_taken_for_small_ones():
    """A token 14 nats behind, of which most of one is not known: its share may be twice as much.

    All that is taken of it is a millionth.
    """
    scores, high = np.array([[0.0, 1.0]]), np.full((1, 2), 14.0)
    reach = high, 0 * high, np.full((1, 2), 0.9)
    found, bound = entries._attention(reach, scores, 0 * scores, np.zeros(1))
    with mpmath.workdps(30):
        given = (14.0, 0.0, 0.9, scores[0], [0.0, 0.0], 0.0)
        worst = 2 * max(distance(softmax(x), found[0, 0]) for x in possible(*given))
    assert worst <= bound[0]


def test_rounding_of_logits_counts(monkeypatch):
    """As if a rounding were 1e-6: twelve of them of every logit's distance to the largest one."""
    monkeypatch.setattr(entries, "UNIT", 1e-6)
    rng = np.random.default_rng(0)
    high, scores = rng.uniform(-9, 9, (5, 2)), rng.uniform(-1, 1, (5, 4))
    reach = high, 0 * high, 0 * high
    shares, bound = entries._attention(reach, scores, 0 * scores, np.zeros(5))
    logits = high[:, :, None] * scores[:, None]
    behind = logits.max(axis=2, keepdims=True) - logits
    expected = 2.1 * 1.01 * 12e-6 * (shares * behind).sum(axis=(1, 2))
    assert np.allclose(bound, expected, rtol=1e-4)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("lead", "off", "score_error", "alone"),
    [
        (41.1, 0.0, 0.0, True),
        (41.1, 0.0, 0.1, False),
        (41.1, 0.1, 0.0, False),
        (40.9, 0.0, 0.0, False),
        (80.0, 1.0, 1.0, True),
        (1e6, 0.0, 1e3, True),
    ],
)
def test_a_token_which_leads_is_alone(sign, lead, off, score_error, alone):
    scores = np.array([[0.0, -sign, 0.0, -sign * 3.0]]) + sign * np.array([[1.0, 0, 0, 0]])
    reach = np.full((1, 2), sign * lead), np.zeros((1, 2)), np.full((1, 2), off)
    _, bound = entries._attention(reach, scores, np.zeros((1, 4)), np.array([score_error / lead]))
    shown = 2 * (4.1 * 3 * examples.TAIL + directed.gamma(8))
    if alone:
        assert shown <= bound[0] <= 1.01 * shown
    else:
        assert bound[0] > 1.5 * shown


def test_constants():
    with mpmath.workprec(200):
        assert mpmath.exp(-(examples.MARGIN - 1)) < examples.TAIL < 1e-17
    assert 0 < compensated.EXPONENTIAL_ERROR < 1e-10


# Who agrees.


def one_example(reaches, scores):
    """Pairs of heads which reach so far, on one example with these scores: read as Examples."""
    reaches, count = np.array(reaches, dtype=float), len(scores)
    contexts = np.zeros((1, count, 2))
    contexts[0, :, 0] = scores
    pairs = len(reaches)
    heads = np.zeros((2, pairs, 2))
    heads[:, :, 1] = 4 * reaches.T  # of a query of length 1/4
    return examples.Examples(
        dataset=Dataset(contexts, np.array([[0.0, 1.0]]), np.zeros(1)),
        exponent=0,
        order=np.arange(1),
        stops=np.zeros(pairs, dtype=np.int64),
        queries=np.array([[0.0, 0.25]]),
        query_weights=heads,
        key=np.array([1.0, 0.0]),
        scores=np.array([scores], dtype=float),
        score_error=np.full(1, 1e-15),
        largest=np.ones(1),
    )


def coupled_of(read, owner=()):
    with np.errstate(all="ignore"):
        return entries._coupled(read, np.array(owner, dtype=np.int64), lambda *_: None)


REACHES = [
    (82.001, 300), (81.999, 300), (300, 81.999), (300, 82.001), (-164.01, -300),
    (-163.99, -300), (-300, -163.99), (300, -300), (-300, 300), (0, 300), (1e9, 1e9),
]  # fmt: skip


def test_pairs_agree_where_both_heads_surely_read_one_token(monkeypatch):
    """The largest score leads by 1/2, and the smallest one by 1/4: 41 nats are needed."""
    monkeypatch.setattr(entries, "_MOST_COUPLED", len(REACHES))
    read = one_example(REACHES, [0.0, 0.5, -0.25, 1.0, 0.25])
    where, pairs = coupled_of(read)
    assert pairs.tolist() == [1, 2, 5, 6, 7, 8, 9]
    assert not where.any()
    assert coupled_of(read, [7])[1].tolist() == [1, 2, 5, 6, 8, 9]
    for name, value, expected in (
        ("score_error", 1e-4, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("score_error", 0.3, list(range(11))),
    ):
        other = dataclasses.replace(read, **{name: np.full(1, value)})
        assert coupled_of(other)[1].tolist() == expected


def test_rounding_counts_where_it_is_close(monkeypatch):
    """As if a rounding were 1e-6: (d + 2) |q| |e| of it is what a reach may be off."""
    monkeypatch.setattr(entries, "gamma", lambda terms: 1e-6 * terms)
    for reach, agrees in ((82 + 82.1 * 4.01e-6, True), (82 + 82.1 * 3.99e-6, False)):
        read = one_example([(reach, 82.1)], [0.0, 0.5, 1.0])
        assert len(coupled_of(read)[0]) == (not agrees)


def test_rounding_of_gaps_counts_where_it_is_close(monkeypatch):
    """As if a rounding were 1e-4: two of a gap of 1/2."""
    monkeypatch.setattr(entries, "UNIT", 1e-4)
    for part, agrees in ((2.01e-4, True), (1.99e-4, False)):
        read = one_example([(82 / (1 - part), 300)], [0.0, 0.5, 1.0])
        assert len(coupled_of(read)[0]) == (not agrees)


def test_no_more_may_couple_than_is_worth_it():
    assert len(coupled_of(one_example([(1, 1)] * 4, [0.0, 1.0]))[0]) == 4
    with pytest.raises(examples.UndecidedError, match="do not agree on more than 4 entries"):
        coupled_of(one_example([(1, 1)] * 5, [0.0, 1.0]))


# Examples.


def test_rounding_of_scores_and_tails(built, monkeypatch):
    monkeypatch.setattr(examples, "gamma", lambda terms: 1e-3 * terms)
    memorizer, data = built
    longer = changed(memorizer, key_weights=memorizer.layer.key_weights * 0.7)
    read = examples.Examples.of(longer, data)
    assert not 0.9 < np.linalg.norm(read.key) < 1.1
    contexts = read.contexts(np.arange(13))
    expected = 7e-3 * np.linalg.norm(read.key) * np.linalg.norm(contexts, axis=2).max(axis=1)
    assert np.allclose(read.score_error, expected, rtol=1e-8)
    assert (read.score_error >= expected).all()
    largest = np.abs(contexts).max(axis=(1, 2))
    assert (read.largest >= largest).all()
    assert np.allclose(read.tail, 2 * 2 * examples.TAIL * largest, rtol=1e-8, atol=0)


@pytest.mark.parametrize("scale", [-300, -5, 7, 300])
def test_layers_are_brought_to_size_one_exactly(built, scale):
    memorizer, data = built
    power = 2.0**scale
    layer = memorizer.layer
    moved = dataclasses.replace(layer, query_weights=layer.query_weights * power)
    moved = Memorizer(moved, memorizer.record)
    plain = examples.Examples.of(*built)
    read = examples.Examples.of(moved, Dataset(data.contexts / power, data.queries, data.targets))
    assert read.exponent == plain.exponent - scale
    for name in ("query_weights", "scores", "queries", "key", "largest"):
        assert (getattr(read, name) == getattr(plain, name)).all()
    assert np.abs(read.queries).max() < 1
    assert np.abs(read.key).max() < 1
    assert 0.5 <= np.abs(read.contexts(np.arange(13))).max() < 1
    reach = np.einsum("td,spd->tsp", read.queries, read.query_weights)
    rows = memorizer.layer.query_weights[:, :, 0].reshape(4, 2, 5)
    logits = np.einsum("td,psd->tsp", data.queries[read.order], rows) * (data.contexts @ layer_key(
        layer))[read.order, 0, None, None]  # fmt: skip
    assert np.allclose(reach * read.scores[:, 0, None, None], logits)


def layer_key(layer):
    return layer.key_weights[0, :, 0]


@pytest.mark.parametrize(("size", "words"), [(1e30, "too large for float64"), (1e300, "too large")])
def test_heads_which_are_too_large(built, size, words):
    memorizer, data = built
    layer = dataclasses.replace(memorizer.layer, query_weights=memorizer.layer.query_weights * size)
    with pytest.raises(examples.UndecidedError, match=words):
        examples.Examples.of(Memorizer(layer, memorizer.record), data)


def test_more_terms_than_bounds_cover(built, monkeypatch):
    """13 examples of 3 tokens of 5 entries, and 8 heads: 40 terms are the most."""
    for longest, widest, fits in ((40, 5, True), (39, 5, False), (40, 4, False)):
        monkeypatch.setattr(examples, "LONGEST", longest)
        monkeypatch.setattr(examples, "_WIDEST", widest)
        if fits:
            assert examples.Examples.of(*built).has_extra
            continue
        with pytest.raises(examples.UndecidedError, match=f"more than {longest} terms"):
            examples.Examples.of(*built)


def test_where_no_example_is_left_over_none_is_extra(built):
    memorizer, data = built
    stops = [head.stop for head in memorizer.record.heads[1::2]]
    full = changed(memorizer, with_stops(memorizer.record, [*stops[:3], 13]))
    assert not examples.Examples.of(full, data).has_extra


# Blocks.


def matrix_of(bound):
    """N column by column."""
    total = len(bound.column_sums)
    return np.stack([bound(row) for row in np.eye(total)], axis=1)


@pytest.mark.parametrize("spoilt", [0.0, 1e-4])
def test_blocks_bound_what_is_left_of_the_identity(steps, spoilt):
    """With values spoilt by what their errors allow, in the worst direction for each entry."""
    read, found = steps
    found = found._replace(
        own_error=found.own_error + spoilt, coupled_error=found.coupled_error + spoilt
    )
    bound = inverse._Bound(read, found)
    total, width, pairs = len(read.order), read.queries.shape[1], len(read.stops)
    owner = read.owner
    x, off = np.zeros((total, pairs + 1, width)), np.zeros((total, pairs + 1))
    off[:, :-1] = read.tail[:, None]
    x[np.arange(len(owner)), owner], off[np.arange(len(owner)), owner] = found[:2]
    x[found.positions, found.pairs], off[found.positions, found.pairs] = found[4:]
    z = entries.read(read, np.arange(total), np.zeros(total, dtype=np.int64), (0.0, 1.0))[0]
    token, direction = inverse._extra_token(read)
    assert np.abs(token - z[-1]).max() < 1e-9
    x[:, -1], x[-1, -1], off[-1, -1] = z, token, read.tail[-1]
    r = np.zeros((pairs + 1, width, total))
    for chosen, rows, block in bound.runs:
        size = block.shape[2]
        for k, pair in enumerate(range(chosen.start, chosen.stop)):
            start = rows.start + k * size
            r[pair][:, start : start + size] = block[k]
    r[pairs, :, -1] = direction
    r = r.reshape(-1, total)
    own = np.abs(np.eye(total) - x.reshape(total, -1) @ r)
    worst = own + np.repeat(off, width, axis=1) @ np.abs(r)
    shown = matrix_of(bound)
    assert (shown >= worst * (1 - 1e-12) - 1e-15).all()
    loose = own + 3 * np.repeat(off, width, axis=1) @ np.abs(r) + 1e-12
    assert (shown[:, :-1] <= loose[:, :-1]).all()
    assert (shown[:-1, -1] <= (read.largest * np.abs(direction).sum())[:-1] * 1.01 + 1e-12).all()
    found = inverse.bound_inverse(read, found)
    assert (shown @ found.weights <= found.contraction * found.weights).all()
    reach = (np.abs(r) @ found.weights).max()
    assert reach <= found.spread <= 2 * reach


def test_rounding_of_blocks_counts(steps, monkeypatch):
    """As if a rounding were 1e-6: of |D| |R| + 1 for a block, and of |x| |R| beside it."""
    read, found = steps
    plain = matrix_of(inverse._Bound(read, found))
    monkeypatch.setattr(inverse, "gamma", lambda terms: 1e-6 * terms)
    bound = inverse._Bound(read, found)
    grown = matrix_of(bound) - plain
    for _, rows, block in bound.runs:
        for k in range(len(block)):
            size = block.shape[2]
            mine = slice(rows.start + k * size, rows.start + (k + 1) * size)
            least = 7e-6 * (np.abs(found.own[mine]) @ np.abs(block[k]) + 1)
            assert np.allclose(grown[mine, mine], least, rtol=1e-6)
    for t, pair, x in zip(found.positions, found.pairs, found.coupled, strict=True):
        columns = np.flatnonzero(read.owner == pair)
        for _, rows, block in bound.runs:
            if len(columns) and rows.start <= columns[0] < rows.stop:
                r = block[(columns[0] - rows.start) // block.shape[2]]
                least = 7e-6 * (np.abs(x) @ np.abs(r))
                assert np.allclose(grown[t, columns], least, rtol=1e-6)
    assert grown[-1, -1] >= 0.99 * 7e-6 * read.largest[-1]


def test_signs_of_heads_and_keys_cancel(built, steps):
    """Where all scores change their signs, the token which is read has the least one."""
    memorizer, data = built
    layer = memorizer.layer
    turned = dataclasses.replace(
        layer, query_weights=-layer.query_weights, key_weights=-layer.key_weights
    )
    read, found = steps_of(Memorizer(turned, memorizer.record), data)
    assert (read.scores == -steps[0].scores).all()
    matrices = [matrix_of(inverse._Bound(*each)) for each in ((read, found), steps)]
    assert np.allclose(*matrices, rtol=1e-9)


@pytest.mark.parametrize("chunk", [8, 8 * 15 * 3])
def test_pieces_are_put_together(built, steps, monkeypatch, chunk):
    for part in (examples, entries, inverse):
        monkeypatch.setattr(part, "CHUNK_BYTES", chunk)
    read, found = steps_of(*built)
    near = {"rtol": 1e-9, "atol": 1e-14}
    for name in ("scores", "score_error", "largest"):
        assert np.allclose(getattr(read, name), getattr(steps[0], name), **near)
    for one, other in zip(found, steps[1], strict=True):
        assert np.allclose(one, other, **near)
    assert np.allclose(
        matrix_of(inverse._Bound(read, found)), matrix_of(inverse._Bound(*steps)), **near
    )


def test_rounding_of_what_is_read_counts(steps, monkeypatch):
    """As if a rounding were 1e-3: of sums over tokens, by their largest entry."""
    read, found = steps
    monkeypatch.setattr(entries, "gamma", lambda terms: 1e-3 * terms)
    _, errors = entries.read(read, np.arange(12), read.owner, entries.DIFFERENCE)
    # Three times n + 2 roundings at the end, and n + 4 in each of two heads.
    grown = (errors - found.own_error) / read.largest[:12]
    assert np.allclose(grown, 1e-3 * (3 * 5 + 2 * 7), rtol=1e-6)


@pytest.mark.parametrize("radius", [0.0, 0.3, 0.8, 0.95])
def test_where_coupling_contracts_a_vector_shows_it(radius):
    for seed in range(5):
        n = np.random.default_rng(seed).random((6, 6)) ** 8
        n *= radius / np.abs(np.linalg.eigvals(n)).max()
        w, q = inverse._contracting(Matrix(n), 6)
        assert (w > 0).all()
        assert (n @ w <= q * w).all()
        assert q < 1
        assert q <= max(radius * 1.1, (1 + radius) / 2)


@pytest.mark.parametrize("radius", [1.0, 1.0001, 3.0, 1e200])
def test_where_coupling_does_not_contract_nothing_is_shown(radius):
    assert inverse._contracting(Matrix(np.full((2, 2), radius / 2)), 2) is None


def test_blocks_which_are_singular(steps):
    read, found = steps
    own = found.own.copy()
    own[1] = own[0]
    for value in (own[0] * 0, np.full(5, np.nan)):
        own[0] = own[1] = value
        with pytest.raises(examples.UndecidedError, match="singular in float64"):
            inverse.bound_inverse(read, found._replace(own=own))


def test_the_extra_example_has_to_be_read_by_pair_0(steps):
    read, found = steps
    other = found._replace(
        positions=np.append(found.positions, 12),
        pairs=np.append(found.pairs, 0),
        coupled=np.concatenate([found.coupled, found.coupled[:1]]),
        coupled_error=np.append(found.coupled_error, 0.0),
    )
    with pytest.raises(examples.UndecidedError, match="pair 0 does not agree"):
        inverse.bound_inverse(read, other)


# Distances.


def test_distances_cover_errors_of_what_is_read(built, steps):
    read, found = steps
    layer = built[0].layer
    exact = residuals.residuals_of(read, found, built[0])
    values = layer.value_weights[:, :, 0] * 2.0 ** (read.exponent - exact.exponent)
    first = np.abs(values[::2]).sum(axis=1)
    for name, grown in (
        ("own_error", 1e-3 * np.append(first[read.owner], 0.0)),
        ("coupled_error", 1e-3 * np.bincount(found.positions, first[found.pairs], 13)),
    ):
        more = found._replace(**{name: getattr(found, name) + 1e-3})
        other = residuals.residuals_of(read, more, built[0])
        assert (other.evaluated == exact.evaluated).all()
        assert np.allclose((other.slack - exact.slack)[:, 0], grown, rtol=1e-6, atol=1e-18)
        assert (other.bounds >= other.evaluated + other.slack).all()


def test_distances_cover_rounding_and_heads_which_agree(built, steps, monkeypatch):
    read, found = steps
    exact = residuals.residuals_of(read, found, built[0])
    power = 2.0 ** (read.exponent - exact.exponent)
    values = built[0].layer.value_weights[:, :, 0] * power
    first, both = values[::2], values[::2] + values[1::2]
    monkeypatch.setattr(residuals, "gamma", lambda terms: 1e-6 * terms)
    other = residuals.residuals_of(read, found, built[0])
    size = np.append(np.einsum("td,td->t", np.abs(found.own), np.abs(first[read.owner])), 0.0)
    np.add.at(size, found.positions,
              np.einsum("td,td->t", np.abs(found.coupled), np.abs(first[found.pairs])))  # fmt: skip
    size += np.abs(exact.evaluated[:, 0])
    grown = (other.slack - exact.slack)[:, 0]
    assert (grown >= 13e-6 * size).all()
    assert both.any()
    assert (grown <= 40e-6 * (size + np.abs(both).sum())).all()
    monkeypatch.setattr(residuals, "gamma", lambda _: 0.0)
    monkeypatch.setattr(residuals, "UNIT", 1e-3)
    other = residuals.residuals_of(read, found, built[0])
    least = read.largest * 2e-3 * np.abs(both).sum()
    tail = read.tail * np.abs(first).sum()
    assert (other.slack[:, 0] >= least + tail).all()
    assert (other.slack[:, 0] <= 1.01 * least + 1e-9).all()


def test_distances_cover_tails_and_what_is_far(built, steps, monkeypatch):
    """As if 1e-6 of a token were read of the others; and rounding of a residual of its size."""
    read, found = steps
    memorizer, data = built
    exact = residuals.residuals_of(read, found, memorizer)
    first = np.abs(memorizer.layer.value_weights[::2, :, 0]).sum() * 2.0 ** (
        read.exponent - exact.exponent
    )
    monkeypatch.setattr(examples, "TAIL", 1e-6)
    other = residuals.residuals_of(read, found, memorizer)
    grown = (other.slack - exact.slack)[:, 0]
    assert np.allclose(grown, read.tail * first, rtol=1e-6, atol=0)
    monkeypatch.undo()
    far = Dataset(data.contexts, data.queries, data.targets + 2.0**exact.exponent / 4)
    far = dataclasses.replace(read, dataset=far)
    slacks = []
    for unit in (1e-6, 0.0):
        monkeypatch.setattr(residuals, "gamma", lambda terms, unit=unit: unit * terms)
        slacks.append(residuals.residuals_of(far, found, memorizer).slack[:, 0])
    distances = residuals.residuals_of(far, found, memorizer).evaluated[:, 0]
    assert (distances > 0.1).all()
    assert (slacks[0] - slacks[1] >= 13e-6 * distances).all()


def test_layers_which_do_more_than_copy(built, steps):
    memorizer, _ = built
    for name in ("output_weights", "readout_weights"):
        layer = dataclasses.replace(memorizer.layer, **{name: 2 * getattr(memorizer.layer, name)})
        with pytest.raises(examples.UndecidedError, match="do more than copy"):
            residuals.residuals_of(*steps, Memorizer(layer, memorizer.record))
    values = memorizer.layer.value_weights.copy()
    values[2:4] += 1
    layer = dataclasses.replace(memorizer.layer, value_weights=values)
    with pytest.raises(examples.UndecidedError, match="more than one pair do not cancel"):
        residuals.residuals_of(*steps, Memorizer(layer, memorizer.record))


# What is said.


def residual_claims(steps, evaluated, slack, epsilon, exponent=0):
    evaluated = np.array(evaluated, dtype=float).reshape(13, -1)
    found = residuals.Residuals(evaluated, np.full(evaluated.shape, slack), exponent)
    return judge._error(steps[0], found, epsilon)


@pytest.mark.parametrize("exponent", [-1060, -40, 0, 900])
@pytest.mark.parametrize(
    ("worst", "slack", "verdict"),
    [
        (0.5, 0.1, Verdict.PROVED),
        (0.59, 0.1, Verdict.PROVED),
        (0.61, 0.1, Verdict.UNDECIDED),  # four slacks are asked for
        (1.05, 0.1, Verdict.UNDECIDED),
        (1.11, 0.1, Verdict.REFUTED),
        (1.0, 0.0, Verdict.UNDECIDED),
        (1.0 - 2.0**-52, 0.0, Verdict.UNDECIDED),
        (1.0 - 2.0**-28, 0.0, Verdict.PROVED),
        (1.0 + 2.0**-52, 0.0, Verdict.UNDECIDED),
        (1.0 + 2.0**-48, 0.0, Verdict.REFUTED),
        (np.nan, 0.0, Verdict.UNDECIDED),
        (2.0, np.inf, Verdict.UNDECIDED),
    ],
)
def test_errors_are_compared_with_room(steps, worst, slack, verdict, exponent):
    values = np.zeros(13)
    values[4] = worst
    claim = residual_claims(steps, values, slack, 2.0**exponent, exponent)
    assert claim.verdict is verdict
    example = int(steps[0].order[4])
    power = Fraction(2) ** exponent
    if verdict is Verdict.REFUTED:
        assert claim.witness == example
        shown = Fraction(claim.detail.split(" is ")[1].split()[0])
        assert power < shown <= Fraction(worst - slack) * power
    if verdict is Verdict.UNDECIDED and slack < 1 and not math.isnan(worst):
        shown = Fraction(claim.detail.split(f"at example {example} the bound ")[1].split()[0])
        assert Fraction(worst + 4 * slack) * power <= shown
        assert shown <= Fraction(worst + 4 * slack) * power * Fraction(12, 10)
    if verdict is Verdict.PROVED:
        assert claim.evidence == {"bound": (2.0**exponent).hex()}
        shown = Fraction(claim.detail.split("<= ")[1].split()[0])
        assert Fraction(worst) * power <= shown <= power


def test_one_output_of_several_is_named(steps):
    values = np.zeros((13, 3))
    values[5, 2] = 2.0
    claim = residual_claims(steps, values, 0.0, 1.0)
    assert claim.witness == (int(steps[0].order[5]), 2)
    claim = residual_claims(steps, values[:, 1:], 0.0, 1.0)
    assert claim.witness == (int(steps[0].order[5]), 1)
    infinite = residual_claims(steps, values, np.inf, 1.0)
    assert "the bound inf in float64" in infinite.detail


def readout_claim(steps, delta, *, spread=3.0, contraction=0.25, worst=0.5, weight=2.0, **more):
    found = inverse.Inverse(np.full(13, weight), contraction, spread)
    values = np.zeros((13, 1))
    values[7] = worst
    near = residuals.Residuals(values, np.zeros((13, 1)), more.get("exponent", 5))
    read = dataclasses.replace(steps[0], exponent=more.get("of_contexts", 3))
    return judge._readout(read, found, near, delta)


@pytest.mark.parametrize("shift", [-1000, 0, 1000])
def test_distances_are_claimed_with_room(steps, shift):
    """6 (1/2) / 2 / (1 - 1/4) = 2, times 2^(c - a), and twice that may be claimed."""
    exponents = {"exponent": 5 + shift, "of_contexts": 3, "spread": 6.0}
    power = 8 * 2.0**shift
    claim = readout_claim(steps, None, **exponents)
    assert claim.verdict is Verdict.PROVED
    shown = float.fromhex(claim.evidence["bound"])
    assert 2 * power <= shown <= 2.2 * power
    for delta, verdict in (
        (2.0001 * power, Verdict.PROVED),
        (1.9999 * power, Verdict.UNDECIDED),
        (0.0, Verdict.UNDECIDED),
    ):
        claim = readout_claim(steps, delta, **exponents)
        assert claim.verdict is verdict
        if verdict is Verdict.PROVED:
            assert claim.evidence == {"bound": delta.hex()}


@pytest.mark.parametrize(
    "broken", [{"spread": math.inf}, {"worst": math.nan}, {"weight": 0.0}, {"spread": math.nan}]
)
def test_distances_which_are_none(steps, broken):
    assert readout_claim(steps, None, **broken).verdict is Verdict.UNDECIDED
    assert readout_claim(steps, 1e300, **broken).verdict is Verdict.UNDECIDED


def test_distances_beyond_all_floats(steps):
    claim = readout_claim(steps, None, exponent=1030)
    assert claim.verdict is Verdict.UNDECIDED
    claim = readout_claim(steps, math.inf, exponent=1030)
    assert (claim.verdict, claim.statement) == (Verdict.UNDECIDED, readout.UNKNOWN)


def test_ranks_are_those_of_the_order(steps):
    claim = judge._rank("s", *steps, inverse.Inverse(np.ones(13), 0.5, 1.0))
    assert claim.verdict is Verdict.PROVED
    assert claim.evidence == {"order": pack(steps[0].order), "stops": pack(steps[0].stops)}
    shown = Fraction(claim.detail.split("others below ")[1].split(";")[0])
    tail = Fraction(float(steps[0].tail.max())) * Fraction(2) ** steps[0].exponent
    assert tail <= shown <= tail * Fraction(11, 10)


def test_tails_count(steps, monkeypatch):
    """As if 1e-6 of a token were read of the others: of all columns, and of the extra one."""
    bound = inverse._Bound(*steps)
    plain = matrix_of(bound)
    monkeypatch.setattr(examples, "TAIL", 1e-6)
    tail = steps[0].tail
    assert (tail >= 4e-6 * steps[0].largest).all()
    grown = matrix_of(inverse._Bound(*steps)) - plain
    near = {"rtol": 1e-6, "atol": 1e-12}
    assert np.allclose(grown[:, :12], tail[:, None] * bound.column_sums[:12], **near)
    length = np.abs(inverse._extra_token(steps[0])[1]).sum()
    assert np.allclose(grown[:, 12], np.append(np.zeros(12), tail[-1] * length), **near)


@pytest.mark.parametrize("last", [1e-6, 1.0, 1e6])
def test_what_is_read_of_the_extra_example_counts(steps, monkeypatch, last):
    weights = np.append(np.ones(12), last)
    monkeypatch.setattr(inverse, "_contracting", lambda *_: (weights, 0.5))
    found = inverse.bound_inverse(*steps)
    direction = np.abs(inverse._extra_token(steps[0])[1]).max()
    runs = inverse._right_inverses(steps[0], steps[1].own)
    own = max(np.abs(block).sum(axis=2).max() for _, _, block in runs)
    assert max(own, direction * last) <= found.spread <= (own + direction * last) * (1 + 1e-8)


def changed(memorizer, record=None, **weights):
    return Memorizer(
        dataclasses.replace(memorizer.layer, **weights),
        dataclasses.replace(memorizer.record, **record or {}),
    )


def with_stops(record, stops):
    heads = list(record.heads)
    for pair, stop in enumerate(stops):
        heads[2 * pair + 1] = dataclasses.replace(heads[2 * pair + 1], stop=stop)
    return {"heads": tuple(heads)}


def test_who_these_proofs_apply_to(built):
    memorizer, data = built
    record, layer = memorizer.record, memorizer.layer
    assert judge.applies(memorizer, data)
    order = list(record.order)
    stops = [head.stop for head in record.heads[1::2]]
    assert stops[-1] == 12
    assert judge.applies(changed(memorizer, with_stops(record, [*stops[:3], 13])), data)
    wide = np.concatenate([layer.query_weights, 0 * layer.query_weights], axis=2)
    keys = np.concatenate([layer.key_weights, 0 * layer.key_weights], axis=2)
    assert judge.applies(changed(memorizer, query_weights=wide, key_weights=keys), data)
    other_key = layer.key_weights.copy()
    other_key[7] += 1
    for other in (
        changed(memorizer, {"construction": "rank_one"}),
        changed(memorizer, {"order": tuple(order[:-1])}),
        changed(memorizer, {"order": (*order[:-1], order[0])}),
        changed(memorizer, with_stops(record, [*stops[:3], 11])),
        changed(memorizer, with_stops(record, [*stops[:3], 14])),
        changed(memorizer, with_stops(record, [stops[1], stops[0], *stops[2:]])),
        changed(memorizer, with_stops(record, [6, 7, 8, 12])),
        changed(memorizer, with_stops(record, [-1, *stops[1:]])),
        changed(memorizer, {"heads": record.heads[:-2]}),
        changed(memorizer, query_weights=np.concatenate([wide[:, :, :1]] * 2, 2), key_weights=keys),
        changed(memorizer, key_weights=other_key),
    ):
        assert not judge.applies(other, data)
    assert not judge.applies(
        Memorizer(layer, TrainedRecord("L", scalar_targets=True, constant=False)), data
    )
    exact = build_memorizer(data.take(range(5)), num_heads=4, precision=150)
    assert not judge.applies(Memorizer(exact.layer, record), data)
    assert not judge.applies(memorizer, data.take(range(12)))
    assert not judge.applies(memorizer, Dataset(data.contexts[0], data.queries, data.targets))
    one = Dataset(data.contexts[:, :1], data.queries, data.targets)
    assert not judge.applies(memorizer, one)


def test_the_least_and_the_largest_pairs_which_these_proofs_apply_to():
    data = generators.gaussian(num_examples=2, context_size=2, width=5, seed=3)
    two = build_memorizer(data, num_heads=2, construction="paired")
    assert judge.applies(two, data)
    heads = list(two.record.heads)
    one = dataclasses.replace(
        two.layer,
        **{
            name: getattr(two.layer, name)[:1]
            for name in ("query_weights", "key_weights", "value_weights", "output_weights")
        },
    )
    record = dataclasses.replace(two.record, heads=tuple(heads[:1]))
    assert not judge.applies(Memorizer(one, record), data)
    wide = generators.gaussian(num_examples=10, context_size=2, width=5, seed=3)
    built = build_memorizer(wide, num_heads=8, construction="paired")
    for stops, fits in (
        ([5, 5, 10, 10], True),  # none, and as many as dimensions
        ([0, 5, 5, 9], True),
        ([0, 6, 6, 10], False),
        ([2, 4, 6, 8], False),
    ):
        assert judge.applies(changed(built, with_stops(built.record, stops)), wide) == fits
    odd = build_memorizer(wide, num_heads=7, construction="paired")
    keys = odd.layer.key_weights.copy()
    keys[6] += 1  # of a head without a partner
    assert judge.applies(changed(odd, key_weights=keys), wide)


@pytest.mark.parametrize("asked", [["rank"], ["error"], ["readout"], ["readout", "error"]])
def test_what_is_asked_is_answered_in_its_order(built, asked):
    claims = judge.prove(*built, asked, 1e-6, None, **QUIET)
    assert [claim.name for claim in claims] == asked
    assert {claim.verdict for claim in claims} == {Verdict.PROVED}
