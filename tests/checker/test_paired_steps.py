"""What the checker bounds for paired heads, step by step, against many digits.

Rounding seldom comes near its bounds. So errors of what is given are made large, and the truth is
whatever they leave possible; what is within a bound for those is within it for small ones. Or the
unit of rounding is made large, and the bounds have to grow by as much as they have to cover.
"""

import copy
import dataclasses
import itertools

import mpmath
import numpy as np
import pytest
from checker_parts import refused, strongly_coupled

SIGNS = np.array(list(itertools.product((1.0, -1.0), repeat=4)))


FIELDS = (
    "raw owner own own_error at pairs coupled coupled_error extra largest tail first both second"
)
Steps = dataclasses.make_dataclass("Steps", FIELDS.split(), eq=False)
"""Entries of X, at size one, for T examples in the order of P pairs.

owner: (T',);  own (T', d), own_error (T',);  extra: tokens (n, d) of the last example
at, pairs: (m,), coupled (m, d), coupled_error (m,)
largest, tail: by example;  first, both: readouts (P, d)
second: what the second head of pair 0 adds, its size and what its errors add (3, T)
"""


def joined(blocks, direction, sizes):
    """R as (P + 1, d, T): the right inverse of each block, and where the extra token is read."""
    r = np.zeros((len(sizes) + 1, len(direction), sum(sizes) + 1))
    for pair, (stop, block) in enumerate(zip(np.cumsum(sizes), blocks, strict=True)):
        r[pair][:, stop - sizes[pair] : stop] = block
    r[-1, :, -1] = direction
    return r


class OfChecker:
    """Its blocks, residuals and attention."""

    def __init__(self, checker):
        self.paired = checker.paired
        self.gamma, self.margin = checker.bounds.gamma, checker.paired.NATS

    def attention(self, high, low, off, scores, low_scores, errors):
        numbers, parts = self.paired.Pairs(None), self.paired.Parts
        reach = parts(high[..., None], low[..., None], off)
        scores = parts(scores[:, None], low_scores[:, None], errors)
        return numbers.softmax(numbers.product(reach, scores), None)

    def alone(self, tokens):
        return 2 * (5 * tokens * self.paired.LEFT + self.gamma(tokens + 5))

    def examples(self, reaches, scores, lengths=(1.0,)):
        """Pairs of heads which reach so far at a query of length 1; T examples of these lengths."""
        total, pairs = len(lengths), len(reaches)
        contexts, queries = np.zeros((total, len(scores), 2)), np.zeros((total, 2))
        contexts[:, :, 0], queries[:, 1] = scores, lengths
        keys, heads = np.zeros((2, 2 * pairs, 2, 1))
        keys[:, 0] = 1.0
        heads[:, 1, 0] = np.reshape(reaches, -1)
        weights = {
            "W_Q": heads,
            "W_K": keys,
            "W_V": np.zeros((2 * pairs, 2, 1)),
            "W_O": np.ones((2 * pairs, 1)),
            "W_D": np.ones((1, 1)),
        }
        data = {"contexts": contexts, "queries": queries, "targets": np.zeros(total)}
        layer = self.paired.Layer(weights, data, np.arange(total), np.zeros(pairs, dtype=np.int64))
        return self.paired.Scan(layer)

    def unlike(self, scan, owner=(), score_error=None):
        scan = copy.copy(scan)
        scan.layer = copy.copy(scan.layer)
        scan.layer.owner = np.array(owner, dtype=np.int64)
        if score_error is not None:
            scan.score_error = np.array(score_error)
        with np.errstate(all="ignore"):
            return scan.unlike()

    def steps(self, memorizer, data):
        layer = self.paired.Layer(
            memorizer.layer.tensors,
            {"contexts": data.contexts, "queries": data.queries, "targets": data.targets},
            np.array(memorizer.record.order),
            np.array([head.stop for head in memorizer.record.heads[1::2]]),
        )
        with np.errstate(all="ignore"):
            scan = self.paired.Scan(layer)
            at, pairs = scan.unlike()
        tokens = self.paired.Tokens(layer, np.arange(len(layer.order)))
        return Steps(
            scan, layer.owner, *scan.own,
            at, pairs, *layer.read(at, pairs, (1.0, -1.0)),
            tokens.x[-1], scan.largest, scan.tail,
            layer.first[:, :, 0], layer.both[:, :, 0], scan.second[0, 0],
        )  # fmt: skip

    def read(self, steps, at, pairs, signs):
        return steps.raw.layer.read(at, pairs, signs)

    def parts(self, steps):
        scan = copy.copy(steps.raw)
        scan.own, scan.tail = (steps.own, steps.own_error), steps.tail
        scan.second = steps.second[None, None]
        return scan, (steps.at, steps.pairs, steps.coupled, steps.coupled_error)

    def bound(self, steps):
        return self.paired.Blocks(*self.parts(steps))

    def right_inverse(self, steps):
        bound, sizes = self.bound(steps), np.bincount(steps.owner).tolist()
        blocks = [None] * len(sizes)
        for rows, _, inverses, *_ in bound.parts:
            for columns, block in zip(rows, inverses, strict=True):
                blocks[steps.owner[columns[0]]] = block
        return joined(blocks, bound.token, sizes)

    def solve(self, matrix):
        return next(self.paired.Blocks.solutions(matrix), None)

    def distances(self, steps):
        found = self.paired.residuals(*self.parts(steps))
        return self.paired.InFloats(*found, None, None).sides()[0][:, 0]

    def farther(self, steps, distance):
        scan = copy.copy(steps.raw)
        scan.layer = copy.copy(scan.layer)
        scan.layer.targets = scan.layer.targets + distance
        return dataclasses.replace(steps, raw=scan)


@pytest.fixture(scope="module")
def who(checker):
    return OfChecker(checker)


@pytest.fixture(scope="module")
def steps(who):
    return who.steps(*strongly_coupled())


def matrix_of(bound, total):
    """N column by column."""
    return np.stack([bound(row) for row in np.eye(total)], axis=1)


# Attention.


def softmax(logits):
    powers = [mpmath.exp(x - max(logits)) for x in logits]
    return [x / sum(powers) for x in powers]


def possible(high, low, off, scores, low_scores, score_error):
    """Logits (n,) which one head may have: the ends of its reach and of its scores."""
    exactly = mpmath.mpf
    both = [exactly(a) + exactly(b) for a, b in zip(scores, low_scores, strict=True)]
    for sign, signs in itertools.product((1, 0, -1), SIGNS[:, : len(both)]):
        reach = exactly(high) + exactly(low) + sign * exactly(off)
        yield [reach * (s + x * exactly(score_error)) for s, x in zip(both, signs, strict=True)]


def distance(truth, found):
    return sum(abs(a - mpmath.mpf(float(b))) for a, b in zip(truth, found, strict=True))


@pytest.mark.parametrize("off", [0.0, 1e-15, 1e-4])
@pytest.mark.parametrize("score_error", [0.0, 1e-16, 1e-4])
@pytest.mark.parametrize("low", [0.0, 1e-5])
def test_attention_covers_all_that_is_possible(who, off, score_error, low):
    """And not much more than logits can be off by, of gaps of at most 2."""
    rng = np.random.default_rng(0)
    high, scores = rng.uniform(-9, 9, (3, 2)), rng.uniform(-1, 1, (3, 4))
    lows = low * rng.uniform(-1, 1, (3, 2)), low * rng.uniform(-1, 1, (3, 4))
    found, bound = who.attention(high, lows[0], off, scores, lows[1], np.full(3, score_error))
    with mpmath.workdps(60):
        for k in range(3):
            worst = 0
            for head in range(2):
                given = (high[k, head], lows[0][k, head], off, scores[k], lows[1][k], score_error)
                shares = found[k, head]
                worst += max(distance(softmax(x), shares) for x in possible(*given))
            assert worst <= bound[k]
            most = np.abs(high[k]).sum() * 4 * score_error + 2 * 2 * off * (1 + score_error)
            assert bound[k] <= 2.2 * most + 1e-12


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("lead", "off", "score_error", "alone"),
    [
        (0.1, 0.0, 0.0, True),
        (0.1, 0.0, 0.1, False),
        (0.1, 0.1, 0.0, False),
        (-0.1, 0.0, 0.0, False),
        (40.0, 1.0, 1.0, True),
        (1e6, 0.0, 1e3, True),
    ],
)
def test_a_token_which_leads_is_alone(who, sign, lead, off, score_error, alone):
    """Then the bound does not grow by what logits may be off, beyond what they lead by."""
    scores = np.array([[0.0, -sign, 0.0, -sign * 3.0]]) + sign * np.array([[1.0, 0, 0, 0]])
    lead += who.margin
    high = np.full((1, 2), sign * lead)
    errors = np.array([score_error / lead])
    _, bound = who.attention(high, 0 * high, off, scores, 0 * scores, errors)
    if alone:
        assert who.alone(4) <= bound[0] <= 1.01 * who.alone(4)
    else:
        assert bound[0] > 1.5 * who.alone(4)


# Who is alike.


def reaches_about(least):
    """Pairs of heads, and whether they surely read one token where `least` is needed upwards.

    Twice that is needed downwards.
    """
    return [
        ((least + 1e-3, 300), True), ((least - 1e-3, 300), False),
        ((300, least - 1e-3), False), ((300, least + 1e-3), True),
        ((-2 * least - 0.01, -300), True), ((-2 * least + 0.01, -300), False),
        ((-300, -2 * least + 0.01), False), ((300, -300), False),
        ((-300, 300), False), ((0, 300), False), ((1e9, 1e9), True),
    ]  # fmt: skip


def test_pairs_are_alike_where_both_heads_surely_read_one_token(who):
    """The largest score leads by 1/2, and the smallest one by 1/4."""
    for reaches, alike in reaches_about(2 * who.margin):
        example = who.examples([reaches], [0.0, 0.5, -0.25, 1.0, 0.25])
        assert len(who.unlike(example)[0]) == (not alike)
        assert len(who.unlike(example, [0])[0]) == 0  # its own pair
        # Errors of scores count where it is close, and nothing is sure if they exceed the lead.
        assert len(who.unlike(example, score_error=[1e-4])[0]) == (reaches[0] < 1e9)
        assert len(who.unlike(example, score_error=[0.3])[0]) == 1


def test_rounding_counts_where_it_is_close(who, as_if):
    """As if a rounding were 1e-4: two of a gap of 1/2, and (d + 2) |q| |e| of the longest head."""
    unit, least = 1e-4, 2 * who.margin
    for part, alike in ((1.003, True), (0.997, False)):
        reach = least / (1 - 2 * unit) + part * 4 * unit / (1 - 4 * unit) * (least + 1)
        as_if(UNIT=2.0**-53)
        example = who.examples([(reach, least + 1)], [0.0, 0.5, 1.0])
        as_if(UNIT=unit)
        assert len(who.unlike(example)[0]) == (not alike)


def test_errors_of_scores_count_twice(who):
    """A lead of 1/2, an eighth at size one, is that of two scores, each off by 1/1000 there."""
    least = who.margin / (0.5 - 4 * 0.002)
    for reach, alike in ((1.0001 * least, True), (0.9999 * least, False)):
        example = who.examples([(reach, reach)], [0.0, 0.5, 1.0])
        assert len(who.unlike(example, score_error=[1e-3])[0]) == (not alike)


@pytest.mark.parametrize("longest", [0, 1])
def test_the_longest_head_and_query_count(who, longest):
    """Four roundings of a head of 2^55, wherever it is. Only the longer query's reach suffices."""
    least, large = 2 * who.margin, 2.0**55
    lengths = [0.25, 1.0] if longest else [1.0, 0.25]
    for part, alike in ((1.003, True), (0.997, False)):
        near = least + 4 * large * 2.0**-53 * part
        reaches = [(near, near), (large, large)]
        examples = who.examples(reaches if longest else reaches[::-1], [0.0, 0.5, 1.0], lengths)
        coupled = list(zip(*who.unlike(examples), strict=True))
        shorter, pair = 1 - longest, 1 - longest
        expected = [(shorter, pair)] if alike else sorted([(shorter, pair), (longest, pair)])
        assert coupled == expected


@pytest.mark.parametrize("errors", [[1e-15, 1e-4], [1e-4, 1e-15]])
def test_every_example_has_an_error_of_its_scores(who, errors):
    reach = 2 * who.margin * (1 + 1e-6)
    examples = who.examples([(reach, reach)], [0.0, 0.5, 1.0], [1.0, 1.0])
    assert who.unlike(examples, score_error=errors)[0].tolist() == [int(np.argmax(errors))]


def test_no_more_pairs_may_couple_than_the_limit(who):
    assert len(who.unlike(who.examples([(1, 1)] * 5, [0.0, 1.0]))[0]) == 5
    with pytest.raises(ValueError, match="too many couple"):
        who.unlike(who.examples([(1, 1)] * (5 + 1), [0.0, 1.0]))


# What is read.


def test_coupling_is_strong(steps):
    """Else what follows would not see it: tests of these have passed, and could not fail."""
    assert np.bincount(steps.at).max() > 2
    assert len(set(steps.pairs.tolist())) > 2
    assert (np.abs(steps.coupled).max(axis=1) > 1e-3 * np.abs(steps.own).max()).sum() > 4
    assert steps.both.any()


@pytest.mark.parametrize("chunk", [1, 40, 100])
def test_pieces_are_put_together(who, steps, as_if, chunk):
    bound = matrix_of(who.bound(steps), len(steps.largest))
    distances = who.distances(steps)
    as_if(CHUNK=chunk)
    other = who.steps(*strongly_coupled())
    near = {"rtol": 1e-9, "atol": 1e-14}
    for name in FIELDS.split()[1:]:
        assert np.allclose(getattr(other, name), getattr(steps, name), **near)
    assert np.allclose(matrix_of(who.bound(other), len(steps.largest)), bound, **near)
    assert np.allclose(who.distances(other), distances, rtol=1e-9, atol=0)


def test_rounding_of_what_is_read_counts(who, steps, as_if):
    """As if a rounding were 1e-3: of sums over tokens, by their largest entry."""
    as_if(gamma=lambda terms: 1e-3 * terms)
    _, errors = who.read(steps, np.arange(12), steps.owner, (1.0, -1.0))
    # Three times n + 2 roundings at the end, and those of a softmax in each of two heads.
    grown = (errors - steps.own_error) / steps.largest[:12]
    assert np.allclose(grown, 1e-3 * (3 * 5 + 2 * (3 + 5)), rtol=1e-6, atol=0)


# Blocks.


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("spoilt", [0.0, 1e-4])
def test_blocks_bound_what_is_left_of_the_identity(who, steps, spoilt, turned):
    """With values spoilt by what their errors allow, in the worst direction for each entry."""
    steps = who.steps(*strongly_coupled(turned=True)) if turned else steps
    steps = dataclasses.replace(
        steps, own_error=steps.own_error + spoilt, coupled_error=steps.coupled_error + spoilt
    )
    total, r = len(steps.largest), who.right_inverse(steps)
    x, off = np.zeros((total, *r.shape[:2])), np.zeros((total, len(r)))
    off[:, :-1] = steps.tail[:, None]
    mine = np.arange(len(steps.owner)), steps.owner
    x[mine], off[mine] = steps.own, steps.own_error
    x[steps.at, steps.pairs], off[steps.at, steps.pairs] = steps.coupled, steps.coupled_error
    # What the second head of pair 0 reads: one token of the extra example, anything of others.
    z = who.read(steps, np.arange(total), np.zeros(total, dtype=np.int64), (0.0, 1.0))[0]
    (token,) = (t for t in steps.extra if np.abs(t - z[-1]).max() < 1e-9)
    x[:, -1], x[-1, -1], off[-1, -1] = z, token, steps.tail[-1]
    r, off = r.reshape(-1, total), np.repeat(off, r.shape[1], axis=1)
    middle = np.abs(np.eye(total) - x.reshape(total, -1) @ r)
    shown = matrix_of(who.bound(steps), total)
    assert (shown >= middle + off @ np.abs(r) - 1e-15).all()
    most = middle + 2 * off @ np.abs(r) + 1e-10
    # The others may read anything of their size along the token of the extra example.
    most[:-1, -1] = (steps.largest * np.abs(r[:, -1]).sum())[:-1]
    assert (shown <= most * (1 + 1e-6)).all()


@pytest.mark.parametrize(("at", "pair", "sure"), [(12, 0, False), (12, 1, True), (11, 0, True)])
def test_pair_0_has_to_be_sure_of_the_extra_example(who, at, pair, sure):
    steps = who.steps(*strongly_coupled())
    keep = ~((steps.at == 12) | (steps.pairs == 0))
    other = dataclasses.replace(
        steps,
        at=np.append(steps.at[keep], at),
        pairs=np.append(steps.pairs[keep], pair),
        coupled=np.concatenate([steps.coupled[keep], steps.coupled[:1]]),
        coupled_error=np.append(steps.coupled_error[keep], 0.0),
    )
    if sure:
        who.bound(other)
        return
    with pytest.raises(ValueError, match="pair 0"):
        who.bound(other)


class Matrix:
    """N as a matrix, to be searched for w."""

    def __init__(self, matrix):
        self.matrix, self.sums = matrix, np.zeros(len(matrix))

    def __call__(self, w):
        return self.matrix @ w


@pytest.mark.parametrize("radius", [0.0, 0.3, 0.8, 0.95])
def test_where_coupling_contracts_a_vector_shows_it(who, radius):
    for seed in range(5):
        n = np.random.default_rng(seed).random((6, 6)) ** 8
        n *= radius / np.abs(np.linalg.eigvals(n)).max()
        w, q = who.solve(Matrix(n))
        assert (w > 0).all()
        assert (n @ w <= q * w).all()
        assert q < 1
        assert q <= max(radius * 1.1, (1 + radius) / 2)


@pytest.mark.parametrize("radius", [1.0, 1.0001, 3.0, 1e200])
def test_where_coupling_does_not_contract_nothing_is_shown(who, radius):
    assert who.solve(Matrix(np.full((2, 2), radius / 2))) is None


# Distances.


def sums_by_example(steps, own, coupled):
    """Own and coupled terms (T',), (m,) summed by example."""
    sums = np.append(own, np.zeros(len(steps.largest) - len(own)))
    np.add.at(sums, steps.at, coupled)
    return sums


def test_distances_cover_rounding(who, steps, as_if):
    """As if a rounding were 1e-6: of all terms of a sum, and of the residual."""
    size = steps.second[1] + sums_by_example(
        steps,
        np.einsum("td,td->t", np.abs(steps.own), np.abs(steps.first[steps.owner])),
        np.einsum("td,td->t", np.abs(steps.coupled), np.abs(steps.first[steps.pairs])),
    )
    examples = steps, who.farther(steps, 0.25)
    exact = [who.distances(some) for some in examples]
    assert np.abs(exact[1] - exact[0]).max() > 0.1
    # An entry has d terms, its own and three coupled ones at most, and that of pair 0.
    least = 5 + np.bincount(steps.at).max() + 8
    as_if("paired", UNIT=1e-6)
    grown = who.distances(steps) - exact[0]
    rounded = steps.largest * 2e-6 * np.abs(steps.both).sum()
    assert (grown >= 0.999 * rounded - 1e-12).all()
    as_if("paired", UNIT=2.0**-53, gamma=lambda terms: 1e-6 * terms)
    for some, before in zip(examples, exact, strict=True):
        grown = who.distances(some) - before
        assert (grown >= 0.9999e-6 * least * (size + before)).all()
        assert (grown <= 1.2e-6 * least * (size + before)).all()


@pytest.mark.parametrize("name", ["tail", "own_error", "coupled_error", "second"])
def test_distances_cover_what_is_not_known(who, steps, name):
    """Each error counts as often as readouts of what it is of say, and no more."""
    ramp = 1e-3 * np.arange(1, 14)
    sizes = np.abs(steps.first).sum(axis=1)
    added, grown = {
        "tail": (ramp, ramp * sizes.sum()),
        "own_error": (ramp[:12], sums_by_example(steps, ramp[:12] * sizes[steps.owner], 0.0)),
        "coupled_error": (1e-3, sums_by_example(steps, 0.0 * ramp[:12], 1e-3 * sizes[steps.pairs])),
        "second": (np.outer([0, 0, 1], ramp), ramp),
    }[name]
    other = dataclasses.replace(steps, **{name: getattr(steps, name) + added})
    found = who.distances(other) - who.distances(steps)
    np.testing.assert_allclose(found, grown, rtol=1e-6, atol=1e-12)


# Numbers.


def test_constants(checker):
    with mpmath.workprec(200):
        first, rest = map(mpmath.mpf, checker.bounds.LN2)
        assert int(first * 2**32) == first * 2**32
        assert abs(first + rest - mpmath.log(2)) < mpmath.mpf(2) ** -85
        assert mpmath.exp(-checker.paired.NATS) < checker.paired.LEFT < 1e-17


def test_exponentials_of_what_is_too_large_are_no_numbers(checker):
    found = checker.bounds.exponentials(np.array([700.0, 1e300, np.inf, np.nan, -np.inf]))
    assert np.isnan(found[:4]).all()
    assert found[4] == 0


@pytest.mark.parametrize("spread", [0, 60, 110, 400])
@pytest.mark.parametrize("width", [1, 2, 40])
def test_products_of_mixed_scales(checker, spread, width):
    """Within the bound, which is about 2^-90 |x| |y| for each entry."""
    rng = np.random.default_rng(spread)
    x, y = rng.uniform(-1, 1, (2, 20, width)) * 2.0 ** -rng.integers(0, spread + 1, (2, 20, width))
    high, low, bound = checker.paired.precisely(x, y)
    with mpmath.workprec(2000):
        for k in range(20):
            truth = mpmath.fdot(map(mpmath.mpf, x[k].tolist()), map(mpmath.mpf, y[k].tolist()))
            assert abs(truth - float(high[k]) - mpmath.mpf(float(low[k]))) <= bound
    size = float(np.abs(x).max() * np.abs(y).max())
    assert bound <= width * size * 2.0**-70
    several = checker.paired.precisely(x.reshape(4, 5, width), y.reshape(4, 5, width))
    assert several[2] == bound
    assert (several[0].ravel() == high).all()
    assert checker.paired.precisely(x[:, None], np.stack([y, y], axis=1))[2] == bound


# Layers which these proofs are about.


def small_layer(**changes):
    """Five heads of d_h = 2 on three examples, where nothing is wrong."""
    rng = np.random.default_rng(0)
    w_q = np.zeros((5, 4, 2))
    w_q[:, :, 0] = rng.standard_normal((5, 4))
    weights = {
        "W_Q": w_q,
        "W_K": np.broadcast_to(rng.standard_normal((1, 4, 2)), (5, 4, 2)).copy(),
        "W_V": np.concatenate([rng.standard_normal((4, 4, 1)), np.zeros((1, 4, 1))]),
        "W_O": np.ones((5, 1)),
        "W_D": np.ones((1, 1)),
    }
    data = {
        "contexts": rng.standard_normal((3, 2, 4)),
        "queries": rng.standard_normal((3, 4)),
        "targets": rng.standard_normal(3),
    }
    for name, (place, value) in changes.items():
        (weights if name in weights else data)[name][place] = value
    return weights, data


def layer_of(checker, weights, data):
    checker.paired.PairedLayer(weights, data)
    return checker.paired.Layer(weights, data, np.arange(3), np.array([2, 3]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"W_V": ((4, 1, 0), 1e-9)}, "a head without a partner reads"),
        ({"W_O": ((4, 0), 0.0)}, "does not copy"),
        ({"W_D": ((0, 0), 3.0)}, "do not copy"),
        ({"W_D": ((0, 0), 2.0**-1074)}, "do not copy"),
        ({"W_D": ((0, 0), 2.0**1023), "W_O": ((4, 0), 2.0)}, "do not copy"),
        ({"W_Q": ((3, 2, 1), 1e-9)}, "not of rank one"),
        ({"W_Q": ((0, 0, 1), 1e-9)}, "not of rank one"),
        ({"W_K": ((3, 2, 0), 1e-9)}, "one key direction"),
        ({"W_K": ((0, 2, 0), 1e-9)}, "one key direction"),
        ({"W_Q": ((1, 1, 0), 1e30)}, "too large for float64"),
        ({"W_Q": ((1, 1, 0), 1e308)}, "too large for float64"),
    ],
)
def test_layers_which_are_others(checker, changes, words):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=words):
        layer_of(checker, *small_layer(**changes))


COPIED = np.array([[0.0, 0.0, 2.0], [4.0, 0.0, 0.0], [0.0, -0.5, 0.0]])
"""W_O of a head: each column copies one entry of a value, times a power of two."""
CHOSEN = np.array([[0.0, 4.0], [0.0, 0.0], [0.5, 0.0]])
"""W_D: the same of outputs."""


@pytest.mark.parametrize("chosen", [CHOSEN, CHOSEN[:, [0, 0]], np.roll(CHOSEN, 1, axis=0)])
def test_what_copies_is_read_as_the_product(checker, chosen):
    w_v = np.random.default_rng(0).standard_normal((2, 4, 3))
    w_o = np.concatenate([COPIED, COPIED[::-1]])
    found = checker.paired.readouts_of({"W_V": w_v, "W_O": w_o, "W_D": chosen})
    assert (found == w_v @ (w_o.reshape(2, 3, 3) @ chosen)).all()


@pytest.mark.parametrize(
    ("name", "entry", "words"),
    [
        ("W_D", ([2, 1], [0, 0]), "W_D does not copy"),
        ("W_O", ([3, 4], [0, 0]), "W_O does not copy"),
    ],
)
def test_a_sum_of_two_entries_does_not_copy(checker, name, entry, words):
    """Where each row, or each column of all heads together, still has one entry or more."""
    weights = {
        "W_V": np.ones((2, 4, 3)),
        "W_O": np.concatenate([COPIED, COPIED[::-1]]),
        "W_D": CHOSEN.copy(),
    }
    weights[name][entry] = 1.0
    with pytest.raises(ValueError, match=words):
        checker.paired.readouts_of(weights)


@pytest.mark.parametrize("also", [0, 1])
def test_one_pair_at_most_reads_what_does_not_cancel(checker, also):
    """What the second heads of two add is not counted."""
    memorizer, data = strongly_coupled()
    weights = {name: np.array(array) for name, array in memorizer.layer.tensors.items()}
    weights["W_V"][2 * also + 1] *= 1.5
    arrays = {"contexts": data.contexts, "queries": data.queries, "targets": data.targets}
    stops = np.array([head.stop for head in memorizer.record.heads[1::2]])
    layer = checker.paired.Layer(weights, arrays, np.array(memorizer.record.order), stops)
    assert np.count_nonzero(layer.both.any(axis=(1, 2))) == 1 + also
    with np.errstate(all="ignore"):
        scan = checker.paired.Scan(layer)
        at, which = scan.unlike()
        coupled = at, which, *layer.read(at, which, (1.0, -1.0))
        assert len(scan.second) == 1 - also
        with refused("more than one pair" if also else None):
            checker.paired.residuals(scan, coupled)
