"""Every arithmetic passes `check_arithmetic`, every view `check_view`; and wrong ones do not."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import flint
import mpmath
import numpy as np
import pytest

from constructive.data.padded import Padded
from constructive.exact import modular, softmax
from constructive.exact.balls import Balls
from constructive.exact.softmax import (
    FactoredFloats,
    Floats,
    PerQuery,
    Point,
    Rationals,
    Residues,
    UnfitLogitsError,
    VanishingDenominatorError,
)
from constructive.layers.attention import CausalView, OfLengths, Own, Shared, attend

# What every arithmetic and every view must do: one line of test for a new kind of either.
#
# Attention is compared with its definition, one query, head and token at a time, in the numbers of
# the arithmetic: reals of sixty digits, rational numbers, or residues. Data are multiples of 1/4,
# so that all logits are exact.


HEADS, WIDTH, HEAD_DIM = 2, 6, 2
DIGITS = 60


def real(x):
    """A Fraction with sixty digits."""
    return mpmath.mpf(x.numerator) / x.denominator


class ArithmeticKind(NamedTuple):
    """An arithmetic, and what its numbers stand for."""

    make: Callable[[Fraction], Any]  # the arithmetic, of the unit of logits
    # matrices of a block as a list for each query of lists for each head
    entries: Callable[[Any], list]
    agrees: Callable[[Any, Any], bool]  # whether an entry is what the definition says
    number: Callable[[Fraction], Any] = real  # a Fraction in the numbers of the definition
    # a logit and its unit, Fractions, to what the softmax takes shares of
    exponential: Callable[[Fraction, Fraction], Any] = lambda x, _: mpmath.exp(real(x))
    scales: tuple[float, ...] = (4.0, 0.5)  # of weights, as some ask for integer logits


def tokens(rng, *shape):
    """Multiples of 1/4 below one, where the largest entry of each group is 3/4."""
    drawn = rng.integers(-3, 4, shape) / 4.0
    drawn[..., 0, 0] = 0.75
    return drawn


# Views, and by definition the group of a query, given by its index, and the tokens that it sees.
VIEWS = {
    "own": lambda rng: (
        Own(tokens(rng, 5, 4, WIDTH), tokens(rng, 5, WIDTH)),
        lambda query: (query, range(4)),
    ),
    "lengths": lambda rng: (
        OfLengths(
            Padded(tokens(rng, 5, 4, WIDTH), np.array([4, 1, 3, 2, 4])), tokens(rng, 5, WIDTH)
        ),
        lambda query: (query, range((4, 1, 3, 2, 4)[query])),
    ),
    "shared": lambda rng: (
        Shared(tokens(rng, 4, WIDTH), tokens(rng, 5, WIDTH)),
        lambda _: (0, range(4)),
    ),
    "causal": lambda rng: (
        CausalView(tokens(rng, 2, 6, WIDTH)),
        lambda sequence, row: (sequence, range(row + 1)),
    ),
    "window": lambda rng: (
        CausalView(tokens(rng, 2, 6, WIDTH), window=3),
        lambda sequence, row: (sequence, range(max(0, row - 2), row + 1)),
    ),
}  # fmt: skip


def check_view(view, visible):
    """Each query is in one block, which hides what it does not see; and memory is bounded."""
    assert view.shape == view.queries.shape[:-1]
    unseen = np.zeros((1, 1), bool) if view.hidden is None else view.hidden
    unseen = np.broadcast_to(unseen, (*view.shape, view.tokens.shape[1]))
    for query in np.ndindex(*view.shape):
        assert set(np.flatnonzero(~unseen[query])) == set(visible(*query)[1]), query
    for heads in (1, 3):
        for chunk_bytes in (1, 200, 1000, 1 << 22):
            seen = np.zeros((*view.shape, *view.tokens.shape[:2]), int)
            left = []
            for block in view.blocks(heads, chunk_bytes):
                seen += _seen(view, block, chunk_bytes)
                assert block.groups not in left[:-1], "groups come back"
                left += [block.groups] * (left[-1:] != [block.groups])
            for query in np.ndindex(*view.shape):
                wanted = np.zeros(view.tokens.shape[:2], int)
                group, keys = visible(*query)
                wanted[group, list(keys)] = 1
                assert (seen[query] == wanted).all(), query


def _seen(view, block, chunk_bytes):
    """How often each query of a block sees each token of each group."""
    found = np.zeros((*view.shape, *view.tokens.shape[:2]), int)
    queries = np.indices(view.shape)[(slice(None), *np.index_exp[block.rows])]
    queries = queries.reshape(len(view.shape), -1).T
    groups = np.arange(len(view.tokens))[block.groups]
    keys = np.arange(view.tokens.shape[1])[block.keys]
    hidden = np.zeros((1, len(keys)), bool) if block.hidden is None else block.hidden
    assert block.counts.tolist() == (~hidden).sum(axis=1).tolist()
    assert (block.counts > 0).all()
    assert chunk_bytes > 1 or len(queries) == 1
    for number, query in enumerate(queries):
        group = groups[number * len(groups) // len(queries)]
        found[(*query, group, keys[~hidden[number % len(hidden)]])] += 1
    return found


def check_arithmetic(kind):
    """Attention and averages of an arithmetic are what the definition says, in every view."""
    for seed, (name, scale) in enumerate((v, s) for v in VIEWS for s in kind.scales):
        rng = np.random.default_rng(seed)
        view, visible = VIEWS[name](rng)
        weights = scale * rng.integers(-1, 2, (2, HEADS, WIDTH, HEAD_DIM)).astype(float)
        unit = Fraction(scale) ** 2 / 16
        with mpmath.workdps(DIGITS):
            for chunk_bytes in (1, None):
                chunks = attend(kind.make(unit), tuple(weights), view, chunk_bytes=chunk_bytes)
                for chunk in chunks:
                    _check_chunk(kind, unit, weights, view, visible, chunk)


def _check_chunk(kind, unit, weights, view, visible, chunk):
    rows = np.indices(view.shape)[(slice(None), *np.index_exp[chunk.rows])]
    rows = rows.reshape(len(view.shape), -1).T.tolist()
    attention, z = kind.entries(chunk.attention), kind.entries(chunk.representation)
    assert len(attention) == len(z) == len(rows)
    for query, shares, averages in zip(rows, attention, z, strict=True):
        group, keys = visible(*query)
        for head in range(HEADS):
            wanted = _shares(kind, unit, weights[:, head], view, tuple(query), group, keys)
            seen = range(chunk.block.keys.start, chunk.block.keys.stop)
            zero = kind.number(Fraction(0))
            for key, share in zip(seen, shares[head], strict=True):
                assert kind.agrees(share, wanted.get(key, zero)), ("attention", query, head, key)
                assert key in wanted or share == 0, ("hidden", query, head, key)
            for column, average in enumerate(averages[head]):
                values = (kind.number(Fraction(view.tokens[group, j, column])) for j in wanted)
                pairs = zip(wanted.values(), values, strict=True)
                total = sum((share * value for share, value in pairs), zero)
                assert kind.agrees(average, total), ("average", query, head, column)


def _shares(kind, unit, weights, view, query, group, keys):
    """Attention of one head on one query, by its definition: token to share."""
    w_q, w_k = ([[Fraction(x) for x in row] for row in w.tolist()] for w in weights)
    asked = [Fraction(x) for x in view.queries[query].tolist()]
    read = [sum(e * row[k] for e, row in zip(asked, w_q, strict=True)) for k in range(HEAD_DIM)]
    powers = {}
    for key in keys:
        token = [Fraction(x) for x in view.tokens[group, key].tolist()]
        turned = [
            sum(x * row[k] for x, row in zip(token, w_k, strict=True)) for k in range(HEAD_DIM)
        ]
        logit = sum(a * b for a, b in zip(read, turned, strict=True))
        powers[key] = kind.exponential(logit, unit)
    total = sum(powers.values(), kind.number(Fraction(0)))
    return {key: power / total for key, power in powers.items()}


# The kinds there are, and wrong ones.


POINT = Point(next(modular.safe_primes()), 123456)


def lists(matrices):
    return matrices.reshape(-1, *matrices.shape[-2:]).tolist()


def near(off):
    return lambda found, exact: abs(mpmath.mpf(found) - exact) <= off


def residues(found):
    """Entries of quotients as elements of the field."""
    whole = found.numerators * found.inverses[..., np.newaxis]
    matrices = lists(modular.reduce(whole, POINT.prime))
    return [[[flint.nmod(int(x), POINT.prime) for x in row] for row in m] for m in matrices]


def ball_holds(found, exact):
    with flint.ctx.workprec(300):
        return bool(found.overlaps(flint.arb(mpmath.nstr(exact, DIGITS)) + flint.arb(0, 1e-55)))


def residue(x):
    """A Fraction modulo p, in the units of tokens."""
    return flint.nmod(int(x * 2**54), POINT.prime)


def power(logit, unit):
    """a^k, as each of the four factors of a logit is 2^52 units."""
    k = int(logit / unit) << 208
    return flint.nmod(pow(POINT.value, k % (POINT.prime - 1), POINT.prime), POINT.prime)


def rows_of(found):
    return [matrix.tolist() for matrix in found]


def same(found, exact):
    return found == exact


def rational(x):
    return flint.fmpq(x.numerator, x.denominator)


KINDS = {
    "float64": ArithmeticKind(lambda _: Floats(np.float64), lists, near(1e-13)),
    "float32": ArithmeticKind(lambda _: Floats(np.float32), lists, near(1e-4)),
    "factored": ArithmeticKind(lambda _: FactoredFloats(np.float64), lists, near(1e-13)),
    "balls": ArithmeticKind(lambda _: Balls(80), rows_of, ball_holds),
    "residues": ArithmeticKind(
        lambda _: Residues(POINT, -54, -54), residues, same, residue, power
    ),
    "rationals": ArithmeticKind(
        lambda _: Rationals(), rows_of, same, rational,
        lambda logit, _: flint.fmpq(2) ** int(logit), scales=(4.0,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_arithmetics_follow_the_definition(name):
    check_arithmetic(KINDS[name])


@pytest.mark.parametrize("name", VIEWS)
def test_views_follow_the_definition(name):
    check_view(*VIEWS[name](np.random.default_rng(0)))


# --- wrong ones are seen


class SeesAll(Floats):
    def softmax(self, logits, hidden):
        del hidden
        return super().softmax(logits, None)


class Unnormalised(Floats):
    def softmax(self, logits, hidden):
        return super().softmax(logits, hidden) * 1.001


class TooSure(Balls):
    def averages(self, attention, values):
        found = super().averages(attention, values)
        return PerQuery(len(found), lambda query: found[query].mid())


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("float64", SeesAll(np.float64)),
        ("float64", Unnormalised(np.float64)),
        ("balls", TooSure(80)),
    ],
)
def test_a_wrong_arithmetic_is_seen(name, wrong):
    with pytest.raises(AssertionError, match=r"attention|hidden|average"):
        check_arithmetic(KINDS[name]._replace(make=lambda _: wrong))


class Twice(Own):
    def blocks(self, num_heads, chunk_bytes, itemsize=8):
        yield from super().blocks(num_heads, chunk_bytes, itemsize)
        yield from super().blocks(num_heads, chunk_bytes, itemsize)


class Blind(CausalView):
    def hides(self, rows, keys):
        return super().hides(rows, keys) | (keys == 1)


@pytest.mark.parametrize(("wrong", "of"), [(Twice, "own"), (Blind, "causal")])
def test_a_wrong_view_is_seen(wrong, of):
    view, visible = VIEWS[of](np.random.default_rng(0))
    with pytest.raises(AssertionError):
        check_view(wrong(view.tokens, *[view.queries] * (wrong is Twice)), visible)


# --- what single arithmetics do beyond that


def chunks_of(arithmetic, contexts, queries, weight):
    weights = np.full((1, 1, 1), weight)
    view = Own(np.reshape(contexts, (len(contexts), -1, 1)), np.reshape(queries, (-1, 1)))
    return list(attend(arithmetic, (weights, weights), view))


def test_a_vanishing_denominator_is_seen():
    odd = 1 + 2**-52  # an odd number of units, so that (-1)^logit = -1 and 1 + (-1)^logit = 0
    unit = modular.least_exponent(np.array(odd))
    arithmetic = Residues(Point(POINT.prime, POINT.prime - 1), unit, unit)
    with pytest.raises(VanishingDenominatorError):
        chunks_of(arithmetic, [[0.0, odd]], [odd], odd)


@pytest.mark.parametrize(
    ("query", "fraction", "spread"),
    [(Fraction(1, 3), True, 0), (Fraction(softmax.LARGEST_LOGIT + 1), False, 4097)],
)
def test_logits_without_short_powers_of_two_are_refused(query, fraction, spread):
    contexts = np.array([[[Fraction(0)], [Fraction(1)]]])
    one = np.full((1, 1, 1), Fraction(1))
    (chunk,) = attend(Rationals(), (one, one), Own(contexts, np.array([[query]])))
    with pytest.raises(UnfitLogitsError) as caught:
        list(chunk.representation)
    assert (caught.value.fraction is not None, caught.value.spread) == (fraction, spread)


def test_hidden_tokens_with_huge_logits_weigh_nothing():
    sequence = np.array([[[1.0], [1e150]]])
    ones = np.ones((1, 1, 1))
    for kind in (KINDS["float64"], KINDS["balls"]):
        (chunk,) = attend(kind.make(Fraction(1)), (ones, ones), CausalView(sequence))
        assert kind.entries(chunk.attention)[0] == [[1.0, 0.0]]
