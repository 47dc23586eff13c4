"""The arithmetic of the checker, against python-flint, mpmath and Python's integers."""

import math
from fractions import Fraction

import flint
import mpmath
import numpy as np
import pytest
from checker_parts import FREE, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

PRIME = 4194287


def object_array(x):
    """Python's integers of an array of integers."""
    return np.asarray(x).astype(np.int64).astype(object)


# Modulo m.


@pytest.mark.parametrize("m", [PRIME, PRIME - 1, 2097169])
@pytest.mark.parametrize("shape", [(1,), (5, 3), (1 << 14,), ((1 << 14) + 1,), (3, 1 << 14)])
def test_reduction_is_congruent_and_small(checker, m, shape):
    rng = np.random.default_rng(0)
    x = rng.integers(-(2**52), 2**52, size=shape)
    x.flat[0] = 2**53 - 2 * m
    for given_, order in ((x, "C"), (x, "F"), (np.concatenate([x, x], axis=-1), "half")):
        taken = np.asarray(given_.astype(float), order="F" if order == "F" else "C")
        taken = taken[..., ::2] if order == "half" else taken
        truth = object_array(taken)
        found = checker.modular.reduce(taken, m)
        assert found is taken
        assert np.abs(found).max() <= m / 2 + 2
        assert not ((object_array(found) - truth) % m).any()


@pytest.mark.parametrize("inner", [1, 1023, 1024, 1025, 2048, 3000])
def test_products_are_exact_for_the_largest_residues(checker, inner):
    m = 4194301  # the largest prime below 2^22
    left, right = np.full((2, inner), m // 2 + 1.0), np.full((inner, 3), m // 2 + 1.0)
    left[1], right[:, 1] = -left[1], np.arange(inner)
    truth = object_array(left) @ object_array(right)
    found = checker.modular.times(left, right, m)
    assert not ((object_array(found) - truth) % m).any()
    assert np.abs(found).max() <= m / 2 + 2


ANY_FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**53), 2**53).flatmap(
        lambda m: st.integers(-1074, 970).map(lambda e: math.ldexp(m, e))
    ),
)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 20, 63, 64, 65, 130])
def test_its_elimination_agrees_with_flint(checker, size):
    rng = np.random.default_rng(size)
    for inner in {size, size - 1, size // 2, 0}:
        left = rng.integers(PRIME, size=(size, inner))
        right = rng.integers(PRIME, size=(inner, size))
        product = flint.nmod_mat(size, inner, left.ravel().tolist(), PRIME)
        product *= flint.nmod_mat(inner, size, right.ravel().tolist(), PRIME)
        exact = np.array([int(v) for v in product.entries()], dtype=np.int64).reshape(size, size)
        if inner == size and size > 1:
            exact = exact[rng.permutation(size)] * (rng.random((size, size)) < 0.9)
        truth = flint.nmod_mat(size, size, exact.ravel().tolist(), PRIME).rank() == size
        assert truth == (inner == size)
        require_elimination(checker, exact, truth)


def require_elimination(checker, exact, truth):
    matrix = checker.modular.reduce(exact.astype(float), PRIME)
    with refused(None if truth else "singular modulo p"):
        checker.modular.require_nonsingular(matrix, PRIME)


def test_full_rank_where_random_matrices_often_lack_pivots(checker):
    """Modulo 7, where one in seven is 0, all ranks of 3 x 4 matrices are those of flint."""
    rng = np.random.default_rng(2)
    said = []
    for _ in range(300):
        batch = rng.integers(7, size=(1, 3, 4)) * rng.integers(2, size=(1, 3, 4))
        truth = flint.nmod_mat(3, 4, batch.ravel().tolist(), 7).rank() == 3
        said.append(said_full(checker, batch, 7))
        assert said[-1] == truth
    assert 50 < sum(said) < 250


def said_full(checker, batch, p=PRIME):
    return checker.modular.full_rank(checker.modular.reduce(batch.astype(float), p), p)


NOT_PRIME = {
    "is not prime": [2039**2, 2039 * 2053, 2 * 1500007],
    "not between": [7, 2097143, 2097152, 4194303, 4194302, 4194319, 4194287.0, True, "4194287"],
}


def test_primes_of_22_bits_are_accepted_and_nothing_else(checker):
    for p in (PRIME, 2097169, 4194301):
        assert checker.modular.require_prime(p) == p
    for words, numbers in NOT_PRIME.items():
        for p in numbers:
            with refused(words if p not in (2097152, 4194303, 4194302) else "prime|between"):
                checker.modular.require_prime(p)


# In fixed point.


def exactly(x):
    """A fixed-point array as Fractions, and the bound of its error."""
    unit = Fraction(2) ** x.last
    return whole(x.digits) * unit, x.error * unit


def whole(digits):
    return sum(object_array(d) * 2 ** (20 * k) for k, d in enumerate(digits[::-1]))


AS_FRACTIONS = np.vectorize(Fraction, otypes=[object])


@settings(max_examples=60)
@given(
    arrays.arrays(float, (3, 4), elements=ANY_FLOATS),
    arrays.arrays(float, (4, 2), elements=ANY_FLOATS),
    st.integers(2, 130),
)
def test_fixed_point_products_stay_within_their_bounds(checker, left, right, count):
    """At all scales, subnormal and mixed ones included; and what is exact stays so."""
    x, y = checker.bounds.fixed([left], count), checker.bounds.fixed([right], count)
    product = checker.bounds.multiply(x, y, count)
    for found, truth in (
        (x, AS_FRACTIONS(left)),
        (y, AS_FRACTIONS(right)),
        (product, AS_FRACTIONS(left) @ AS_FRACTIONS(right)),
    ):
        assert np.abs(found.digits).max() <= 2**20
        assert len(found.digits) <= count
        values, error = exactly(found)
        assert (np.abs(values - truth) <= error).all()
        assert (np.abs(values) <= checker.bounds.size(found) * Fraction(2) ** found.last).all()
        top = found.last + 20 * len(found.digits)
        rough, distance = checker.bounds.floats(found, top)
        scaled = AS_FRACTIONS(rough) * Fraction(2) ** top
        assert (np.abs(scaled - truth) <= Fraction(distance) * Fraction(2) ** top).all()
    if count > 120:  # 2,400 bits hold every float, and its products with others
        assert x.error == y.error == 0


@pytest.mark.parametrize("count", [2, 3, 5, 28])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_so_many_digits_leave_no_more_than_their_error(checker, count, parts):
    rng = np.random.default_rng(count)
    numbers = [rng.uniform(-1, 1, (3, 4)) * 2.0 ** (-53 * k) for k in range(parts)]
    found = checker.bounds.fixed(numbers, count)
    values, error = exactly(found)
    truth = sum(map(AS_FRACTIONS, numbers))
    assert (np.abs(values - truth) <= error).all()
    assert found.error <= parts
    assert error <= parts * Fraction(2) ** (20 - 20 * count + parts.bit_length())
    if 20 * (count - 1) > 53 * parts + 20:
        assert error == 0
        assert (values == truth).all()
        assert len(found.digits) <= (53 * parts + 10) // 20 + 2  # zeros at the end are left out
    product = checker.bounds.multiply(found, checker.bounds.fixed([np.eye(4)], count), count)
    values, error = exactly(product)
    assert (np.abs(values - truth) <= error).all()
    assert error <= (4 * (parts + 2) + 1) * Fraction(2) ** (20 * (3 - count))


@pytest.mark.parametrize("inner", [1, 600, 2048, 5000])
@pytest.mark.parametrize("count", [2, 5, 28])
@pytest.mark.parametrize("fewer", [0, 1])
@pytest.mark.parametrize("first", [1, 2**20])
def test_products_of_the_largest_digits_are_exact_sums(checker, inner, count, fewer, first):
    """Every digit at its limit, so that sums of products come as near to 2^53 as they can.

    Or all but the first one, so that what is left out is as large beside the product as it can be.
    """
    digits = np.full((count - fewer, 1, inner), 2.0**19)
    digits[0] = first
    for signs in (1, (-1.0) ** np.arange(inner)):
        x = checker.bounds.Fixed(digits * signs, -7, 0)
        y = checker.bounds.Fixed(np.swapaxes(digits, 1, 2) * 1.0, 11, 0)
        product = checker.bounds.multiply(x, y, count)
        truth = (whole(x.digits) @ whole(y.digits)) * Fraction(2) ** 4
        values, error = exactly(product)
        assert abs(values[0, 0] - truth[0, 0]) <= error
        biggest = inner * Fraction(2) ** (2 * (21 + 20 * (count - fewer - 1)) + 4)
        more = 20 * (inner > 256)  # sums of so many take another digit
        assert error <= biggest * count * Fraction(2) ** (more - 20 * (count - 1))
        assert np.abs(product.digits[1:]).max(initial=0) <= 2**19


@settings(max_examples=50)
@given(
    arrays.arrays(float, (2, 2, 4), elements=st.floats(-30, 30)),
    st.sampled_from([0.0, 1e3, 1e14, -1e25]),
    st.integers(7, 12),
)
def test_softmax_stays_within_its_bound(checker, small, offset, count):
    """Also where logits are so large that floats cannot tell them apart."""
    logits = checker.bounds.fixed([small, np.full(small.shape, offset)], count)
    found = checker.floating.softmax(logits, count, checker.error.Work(1e18))
    shares, error = exactly(found)
    with mpmath.workdps(80):
        for place in np.ndindex(2, 2):
            terms = [mpmath.exp(mpmath.mpf(float(x))) for x in small[place]]
            for k, term in enumerate(terms):
                share = mpmath.mpf(shares[(*place, k)].numerator) / shares[(*place, k)].denominator
                assert abs(share - term / mpmath.fsum(terms)) <= float(error)
    assert error < 1e-9


@settings(max_examples=60)
@given(
    arrays.arrays(float, (3, 2), elements=ANY_FLOATS),
    arrays.arrays(float, (3, 2), elements=st.floats(-4, 4)),
    st.lists(st.integers(-1100, 1100), min_size=3, max_size=3),
    st.integers(2, 9),
    st.integers(0, 2**70),
)
def test_the_farthest_output_is_found_exactly(checker, targets, outputs, scales, count, error):
    out = checker.bounds.fixed([outputs], count)._replace(error=error)
    values, off = exactly(out)
    powers = [Fraction(2) ** scale for scale in scales]
    worst, places, total = 0, [], 0
    for row, goals, power in zip(values, targets.tolist(), powers, strict=True):
        each = [abs(x - Fraction(y) / power) for x, y in zip(row, goals, strict=True)]
        worst = max(worst, (max(each) + off) * power)
        places.append([(far - off) * power for far in each])
        total += sum(((far + off) * power) ** 2 for far in each)
    most, least, place, squares = checker.error.farthest(out, targets, np.array(scales))
    assert most == worst
    assert squares == total
    assert least == max(0, places[place[0]][place[1]])
    assert error or least == most


# The constants of bounds in float64 are what proofs about rounding ask for.

UNIT = Fraction(1, 2**53)


@pytest.fixture
def bounds(checker):
    return checker.bounds


def test_no_longer_sums_are_taken(checker):
    assert checker.bounds.LONGEST == 2**22


def test_sums_of_so_many_products_are_covered_and_not_by_much_more(bounds):
    """(1 - u)^k of a sum of k terms is left at worst, and two more roundings are in `up` itself."""
    factor = Fraction(float(bounds.up(np.float64(1.0)))) - Fraction(2) ** -1000
    left = 1 - (2**22 + 4) * UNIT  # at most (1 - u)^(k + 4)
    assert factor * left > 1
    assert factor < 1 + Fraction(1, 2**29)


def test_products_which_underflow_are_covered_and_by_little(bounds):
    lost = 2**44 * Fraction(1, 2**1075)  # of a row of sums
    least = Fraction(float(bounds.up(np.float64(0.0))))
    assert lost < least <= Fraction(1, 2**999)


@pytest.mark.parametrize("terms", [1, 2, 7, 1000, 2**22, 2**39])
def test_gamma_is_rounded_up_and_by_little(bounds, terms):
    exact = terms * UNIT / (1 - terms * UNIT)
    found = Fraction(bounds.gamma(terms))
    assert exact < found < exact * (1 + Fraction(1, 2**29))


def test_lengths_are_rounded_up_at_every_scale(checker):
    bounds = checker.bounds
    for vector in ([3.0, 4.0], [1e-170, 1e-170], [5e-324, 0.0], [1e-300, 1e150], [1.0] * 1000):
        squares = sum(Fraction(x) ** 2 for x in vector)
        found = Fraction(float(bounds.lengths(np.array(vector))))
        assert found > 0
        assert found**2 > squares
        assert found < Fraction(math.isqrt(int(squares * 4**700)) + 1, 2**700) * (
            1 + Fraction(1, 2**29)
        ) + Fraction(1, 2**499)
    with np.errstate(over="ignore"):
        assert bounds.lengths(np.array([1e200, 1.0])) == math.inf


def test_lengths_of_so_many_entries_are_covered(checker):
    """Squares lose a part of k + 2 roundings at worst, and what is taken of them two more."""
    factor = Fraction(float(checker.bounds.lengths(np.array([1.0])))) - Fraction(2) ** -500
    assert factor**2 * (1 - (2**22 + 8) * UNIT) > 1
    assert factor < 1 + Fraction(1, 2**29)


def test_underflowing_squares_are_covered(checker):
    """2^22 squares just below the least number that is not rounded to zero."""
    entry = Fraction(math.sqrt(2.0**-1075))
    true = 2**22 * entry**2
    found = Fraction(float(checker.bounds.lengths(np.array([0.0]))))
    assert found > 0
    assert found**2 > true


@pytest.mark.parametrize(
    ("values", "found"),
    [([0.0], 0), ([1.0], 1), ([-1.0, 0.75], 1), ([0.5], 0), ([3.0, -4.0], 3), ([5e-324], -1073)],
)
def test_exponents(checker, values, found):
    assert checker.bounds.exponent(np.array(values)) == found


@pytest.mark.parametrize(
    ("total", "entries", "most"), [(7, 2, 6), (7, 9, 6), (3, 1, 100), (4, 2, 4)]
)
def test_chunks_cover_all_rows_once_and_are_as_large_as_allowed(checker, total, entries, most):
    slices = checker.bounds.chunks(total, entries, most)
    assert [i for s in slices for i in range(total)[s]] == list(range(total))
    size = max(1, most // entries)
    assert [s.stop - s.start for s in slices[:-1]] == [size] * (len(slices) - 1)
    assert slices[-1].stop == total


def test_what_is_printed_is_rounded_away_from_what_it_bounds(checker):
    above, below = checker.bounds.above, checker.bounds.below
    for x in (0.9999, 1.00001, 123456.789, 3e-9, 0.5, 1000.0, np.float64(2 / 3)):
        for digits in (1, 2, 3, 6):
            assert Fraction(below(x, digits)) <= Fraction(float(x)) <= Fraction(above(x, digits))
            apart = Fraction(above(x, digits)) - Fraction(below(x, digits))
            assert apart <= Fraction(10) ** (1 - digits) * Fraction(float(x))
    shown = above(0.99951), below(0.99951), above(1000, 1), above(2.0, 2)
    assert shown == ("1", "0.999", "1e+03", "2")
    assert (above(np.inf), above(np.nan)) == ("inf", "nan")


# Attention in the checker: every arithmetic, on every view, against one definition.

SIZE, WIDTH, HEADS, INNER = 6, 3, 2, 2
VIEWS = "own", "shared", "causal", "window", "lengths"
LENGTHS = np.array([3, 6, 1, 2, 6])


def problem(checker, kind, entries=4):
    """Weights, a view, and for each row its query and the tokens that it sees: short integers.

    entries: logits of heads that a causal view computes at a time
    """
    rng = np.random.default_rng(VIEWS.index(kind))
    draw = lambda *shape: rng.integers(-3, 4, shape) / 2.0  # noqa: E731
    weights = {name: draw(HEADS, WIDTH, INNER) for name in ("W_Q", "W_K")}
    views = checker.attend
    if kind in ("own", "shared", "lengths"):
        contexts = draw(SIZE, WIDTH) if kind == "shared" else draw(5, SIZE, WIDTH)
        data = {"contexts": contexts, "queries": draw(5, WIDTH)}
        seen = [contexts if kind == "shared" else contexts[t] for t in range(5)]
        if kind == "lengths":
            data |= {"contexts": contexts * 99.0, "lengths": LENGTHS}  # what is beyond is not read
            seen = [tokens[:length] for tokens, length in zip(seen, LENGTHS, strict=True)]
            for tokens, own in zip(data["contexts"], seen, strict=True):
                tokens[: len(own)] = own
            data = views.of_lengths(data)
        view = views.Examples(data, [slice(0, 2), slice(2, 5)])
        return weights, view, list(zip(data["queries"], seen, strict=True))
    codes, window = (draw(4, WIDTH), draw(SIZE, WIDTH)), 3 if kind == "window" else None
    texts = [rng.integers(4, size=SIZE), rng.integers(4, size=4)]
    view, rows = views.Causal(codes, texts, HEADS, window, entries), []
    for ids in texts:
        x = codes[0][ids] + codes[1][: len(ids)]
        begin = [max(0, i + 1 - window) if window else 0 for i in range(len(ids))]
        rows += [(x[i], x[begin[i] : i + 1]) for i in range(len(ids))]
    return weights, view, rows


def logits_of(weights, query, tokens):
    """Logits (H, n), which floats hold."""
    return np.einsum("nd,hdi,hei,e->hn", tokens, weights["W_K"], weights["W_Q"], query)


def softmax(logits):
    with mpmath.workdps(40):
        powers = [[mpmath.exp(x) for x in row] for row in logits.tolist()]
        return np.array([[float(x / sum(row)) for x in row] for row in powers])


def attended(checker, numbers, weights, view):
    """For each row what its block has: attention of all heads, places of what it sees."""
    heads = checker.attend.Heads(numbers, weights)
    for group, block, tokens, found in checker.attend.attend(numbers, heads, view):
        count = len(range(99)[block.rows]) if block.rows != slice(None) else len(group.queries)
        for row in range(count):
            shown = slice(None) if block.hidden is None else ~block.hidden[row, 0]
            yield row, shown, tokens, found


ARITHMETICS = {
    "digits": lambda checker, _: checker.floating.Digits(7, FREE),
    "bounded": lambda checker, weights: checker.floating.Bounded(weights),
    "table": lambda checker, _: checker.floating.Table(2.0**-4, 600.0),
}


def attention_of(checker, name, found):
    """As floats, and bounds of what each head's attention is off by."""
    if name == "digits":
        return checker.bounds.floats(found)
    if name == "table":
        return found, 1e-14
    return found[0], found[1][..., None] if name == "bounded" else 1e-4


@pytest.mark.parametrize("name", ARITHMETICS)
@pytest.mark.parametrize("kind", VIEWS)
def test_attention_is_that_of_its_definition(checker, kind, name):
    weights, view, rows = problem(checker, kind)
    numbers, seen = ARITHMETICS[name](checker, weights), 0
    for row, shown, _, found in attended(checker, numbers, weights, view):
        attention, off = attention_of(checker, name, found)
        true = softmax(logits_of(weights, *rows[seen]))
        mine = attention[row][:, shown]
        error = np.abs(mine - true).sum(axis=1)
        assert (error <= np.max(np.broadcast_to(off, attention.shape)[row], axis=1) + 1e-13).all()
        hidden = np.ones(attention.shape[2], dtype=bool)
        hidden[shown] = False
        assert not attention[row][:, hidden].any()
        seen += 1
    assert seen == len(rows)


@pytest.mark.parametrize("entries", [4, 60, 1000])
@pytest.mark.parametrize("kind", ["causal", "window"])
def test_rows_of_a_text_see_the_same_however_many_are_taken_at_a_time(checker, kind, entries):
    """Few, so that a row is a block of its own; some; or all rows of a text."""
    _, view, rows = problem(checker, kind, entries)
    embedding, positions = view.codes
    tokens = np.concatenate([embedding[ids] + positions[: len(ids)] for ids in view.texts])
    places = []
    for group in view.groups():
        first = group.rows.start
        places += range(first, group.rows.stop)
        for rows_of, seen, hidden in group.blocks:
            for row in range(len(tokens))[rows_of]:
                visible = np.arange(len(tokens))[seen][~hidden[row - rows_of.start, 0]]
                assert tokens[first + visible].tolist() == rows[first + row][1].tolist()
    assert places == list(range(len(rows)))
    at_once = checker.attend.rows_at_once(SIZE, HEADS, view.window or SIZE, entries)
    assert at_once == {4: 1, 60: 5 if kind == "causal" else 3, 1000: SIZE}[entries]


@pytest.mark.parametrize(
    ("one", "other"),
    [(2.0**99, 2.0**-99), (2.0**-99, 2.0**99), (1.0, 2.0**-24), (2.0**127, 2.0**127)],
)
def test_a_token_and_its_position_that_do_not_add_exactly(checker, one, other):
    with pytest.raises(ValueError, match="exactly"):
        checker.attend.exact_sum([np.array([one]), np.array([other])])
    assert checker.attend.exact_sum([np.array([one]), np.array([one / 2])]) == one * 1.5


@pytest.mark.parametrize("kind", VIEWS)
def test_averages_modulo_a_prime_are_those_of_integers(checker, kind):
    """exp(x) stands for a^(x times a power of two), which is found from the smallest entries."""
    weights, view, rows = problem(checker, kind)
    a, own = 12345, view.queries is view.tokens
    total = HEADS * WIDTH + own * WIDTH
    columns = np.random.default_rng(0).permutation(total)[: total - 2]
    every = np.arange(len(rows)), (PRIME, a), columns
    z = checker.modular.representation(weights, view, *every)
    units = [unit_of(x) for x in (view.tokens, view.queries, weights["W_Q"], weights["W_K"])]
    for found, (query, tokens) in zip(z, rows, strict=True):
        expected = [Fraction(x) / units[0] for x in query] if own else []
        for logits in logits_of(weights, query, tokens):
            exponents = [Fraction(x) / (units[0] * units[1] * units[2] * units[3]) for x in logits]
            powers = [pow(a, int(x) % (PRIME - 1), PRIME) for x in exponents]
            inverse = pow(sum(powers), -1, PRIME)
            for column in tokens.T:
                whole = [int(Fraction(x) / units[0]) for x in column]
                expected.append(sum(map(int.__mul__, powers, whole)) * inverse)
        wanted = [int(expected[k]) % PRIME for k in columns]
        assert [int(x) % PRIME for x in found] == wanted


def unit_of(x):
    """2^e, for which the smallest entry is between 2^52 and 2^53 in size."""
    return Fraction(2) ** (int(np.frexp(np.abs(x[x != 0]).min())[1]) - 53)
