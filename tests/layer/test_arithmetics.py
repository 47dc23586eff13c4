"""Every arithmetic passes `check_arithmetic`, every view `check_view`; and wrong ones do not."""

from decimal import Decimal, localcontext
from fractions import Fraction

import flint
import mpmath
import numpy as np
import pytest
from attention_conformance import (
    DIGITS,
    HEADS,
    VIEWS,
    WIDTH,
    ArithmeticKind,
    check_arithmetic,
    check_view,
    tokens,
)

from constructive.exact import arithmetics, modular
from constructive.exact.arithmetics import (
    Arrays,
    FactoredFloats,
    Floats,
    Point,
    Rationals,
    Residues,
    UnfitLogitsError,
    VanishingDenominatorError,
    averaged,
)
from constructive.exact.balls import Balls
from constructive.exact.float_enclosure import Bounded, Tabulated
from constructive.layers.attend import Causal, Own, attend

POINT = Point(next(modular.safe_primes()), 123456)


def lists(matrices):
    return matrices.reshape(-1, *matrices.shape[-2:]).tolist()


def near(off):
    return lambda found, exact: abs(mpmath.mpf(found) - exact) <= off


def with_errors(found):
    """Pairs of an entry and its bound."""
    errors = found.errors.reshape(-1, HEADS).tolist()
    return [
        [[(x, error) for x in row] for row, error in zip(matrix, bounds, strict=True)]
        for matrix, bounds in zip(lists(found.numbers), errors, strict=True)
    ]


def residues(found):
    """Entries of quotients as elements of the field."""
    whole = found.numerators * found.inverses[..., np.newaxis]
    matrices = lists(modular.reduce(whole, POINT.prime))
    return [[[flint.nmod(int(x), POINT.prime) for x in row] for row in m] for m in matrices]


def encloses(found, exact):
    value, error = found
    return abs(mpmath.mpf(value) - exact) <= error


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
    "bounds": ArithmeticKind(
        lambda _: Bounded(), with_errors, encloses, is_zero=lambda pair: pair[0] == 0
    ),
    "table": ArithmeticKind(lambda unit: Tabulated(float(unit), 800.0), lists, near(1e-14)),
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


# --- sketches: a kind that is written here passes, and one that is wrong does not


class Decimals(Arrays):
    """Numbers of forty decimal digits, one object for each."""

    def read(self, array):
        return np.vectorize(Decimal, otypes=[object])(array)

    queries = keys = values = read

    def product(self, left, right):
        with localcontext(prec=40):
            return np.matmul(left, right)

    def softmax(self, logits, hidden):
        with localcontext(prec=40):
            powers = np.vectorize(Decimal.exp, otypes=[object])(logits)
            if hidden is not None:
                np.copyto(powers, Decimal(0), where=hidden[:, np.newaxis])
            return powers / powers.sum(axis=-1, keepdims=True)

    def averages(self, attention, values):
        return averaged(self.product, attention, values)


class SeesAll(Decimals):
    def softmax(self, logits, hidden):
        del hidden
        return super().softmax(logits, None)


class Unnormalised(Decimals):
    def softmax(self, logits, hidden):
        return super().softmax(logits, hidden) * Decimal("1.001")


class TooSure(Bounded):
    def averages(self, attention, values):
        found = super().averages(attention, values)
        return found._replace(errors=0.0 * found.errors)


def close(found, exact):
    return abs(mpmath.mpf(str(found)) - exact) < 1e-30


def test_a_new_arithmetic_is_a_class_and_a_line():
    check_arithmetic(ArithmeticKind(lambda _: Decimals(), lists, close))


@pytest.mark.parametrize("wrong", [SeesAll, Unnormalised])
def test_a_wrong_arithmetic_is_seen(wrong):
    with pytest.raises(AssertionError, match=r"attention|hidden"):
        check_arithmetic(ArithmeticKind(lambda _: wrong(), lists, close))


def test_bounds_that_are_too_small_are_seen():
    with pytest.raises(AssertionError, match="average"):
        check_arithmetic(KINDS["bounds"]._replace(make=lambda _: TooSure()))


class Later(Causal):
    """A position sees itself and what follows."""

    def hides(self, rows, keys):
        return keys < rows[:, np.newaxis]

    def blocks(self, num_heads, chunk_bytes, itemsize=8):
        length = self.tokens.shape[1]
        for block in super().blocks(num_heads, chunk_bytes, itemsize):
            yield block._replace(keys=slice(0, length), hidden=self.hidden[block.rows[1]])


def later(rng):
    return Later(tokens(rng, 2, 6, WIDTH)), lambda sequence, row: (sequence, range(row, 6))


def test_a_new_view_is_a_class_and_a_line():
    check_view(*later(np.random.default_rng(0)))


class Twice(Own):
    def blocks(self, num_heads, chunk_bytes, itemsize=8):
        yield from super().blocks(num_heads, chunk_bytes, itemsize)
        yield from super().blocks(num_heads, chunk_bytes, itemsize)


class Blind(Causal):
    def hides(self, rows, keys):
        return super().hides(rows, keys) | (keys == 1)


class Unsaid(Causal):
    hidden = None


@pytest.mark.parametrize(("wrong", "of"), [(Twice, "own"), (Blind, "causal"), (Unsaid, "causal")])
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
    [(Fraction(1, 3), True, 0), (Fraction(arithmetics.LARGEST_LOGIT + 1), False, 4097)],
)
def test_logits_without_short_powers_of_two_are_refused(query, fraction, spread):
    contexts = np.array([[[Fraction(0)], [Fraction(1)]]])
    one = np.full((1, 1, 1), Fraction(1))
    (chunk,) = attend(Rationals(), (one, one), Own(contexts, np.array([[query]])))
    with pytest.raises(UnfitLogitsError) as caught:
        list(chunk.representation)
    assert (caught.value.fraction is not None, caught.value.spread) == (fraction, spread)


@pytest.mark.parametrize("error", [np.inf, np.nan])
def test_what_overflows_bounds_nothing(error):
    (chunk,) = chunks_of(Bounded(), [[1.0, 2.0]], [1.0], 1e200)
    assert not chunk.representation.errors < error


def test_hidden_tokens_with_huge_logits_weigh_nothing():
    sequence = np.array([[[1.0], [1e150]]])
    ones = np.ones((1, 1, 1))
    for arithmetic in (Floats(np.float64), Bounded()):
        (chunk,) = attend(arithmetic, (ones, ones), Causal(sequence))
        numbers = getattr(chunk.attention, "numbers", chunk.attention)
        assert numbers[0, 0].tolist() == [[1.0, 0.0]]
