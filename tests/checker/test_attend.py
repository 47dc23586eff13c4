"""Attention in the checker: every arithmetic, on every view, against one definition."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from real_parts import FREE

SIZE, WIDTH, HEADS, INNER = 6, 3, 2, 2
VIEWS = "own", "shared", "causal", "window", "lengths"
LENGTHS = np.array([3, 6, 1, 2, 6])
PRIME = 4194287


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
    "shares": lambda checker, _: checker.executed.Shares(),
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
        if name != "shares":  # which are bounds from above
            hidden = np.ones(attention.shape[2], dtype=bool)
            hidden[shown] = False
            assert not attention[row][:, hidden].any()
        else:
            assert (mine >= true * (1 - 1e-15)).all()
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
