"""What every arithmetic and every view must do: one line of test for a new kind of either.

Attention is compared with its definition, one query, head and token at a time, in the numbers of
the arithmetic: reals of sixty digits, rational numbers, or residues. Data are multiples of 1/4, so
that all logits are exact.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import mpmath
import numpy as np

from constructive.data.padded import Padded
from constructive.layers.attend import Causal, OfLengths, Own, Shared, attend

HEADS, WIDTH, HEAD_DIM = 2, 6, 2
DIGITS = 60


def real(x):
    """A Fraction with sixty digits."""
    return mpmath.mpf(x.numerator) / x.denominator


class ArithmeticKind(NamedTuple):
    """An arithmetic, and what its numbers stand for.

    Attributes:
        make: the arithmetic, of the unit of logits
        entries: matrices of a block as a list for each query of lists for each head
        agrees: whether an entry is what the definition says
        number: a Fraction in the numbers of the definition
        exponential: a logit and its unit, Fractions, to what the softmax takes shares of
        is_zero: whether an entry is exactly zero
        scales: of weights, as some arithmetics ask for integer logits
    """

    make: Callable[[Fraction], Any]
    entries: Callable[[Any], list]
    agrees: Callable[[Any, Any], bool]
    number: Callable[[Fraction], Any] = real
    exponential: Callable[[Fraction, Fraction], Any] = lambda x, _: mpmath.exp(real(x))
    is_zero: Callable[[Any], bool] = lambda x: x == 0
    scales: tuple[float, ...] = (4.0, 0.5)


def tokens(rng, *shape):
    """Multiples of 1/4 below one, where the largest entry of each group is 3/4."""
    drawn = rng.integers(-3, 4, shape) / 4.0
    drawn[..., 0, 0] = 0.75
    return drawn


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
        Causal(tokens(rng, 2, 6, WIDTH)),
        lambda sequence, row: (sequence, range(row + 1)),
    ),
    "window": lambda rng: (
        Causal(tokens(rng, 2, 6, WIDTH), window=3),
        lambda sequence, row: (sequence, range(max(0, row - 2), row + 1)),
    ),
}  # fmt: skip
"""Views, and which tokens of which group a query sees, by their definition."""


def check_view(view, visible):
    """Each query is in one block, which hides what it does not see; and memory is bounded.

    Args:
        view: queries, tokens, and who sees whom
        visible: the group of a query, given by its index, and the tokens that it sees
    """
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
    """Attention and averages of an arithmetic are what the definition says, in every view.

    Args:
        kind: an arithmetic, and what its numbers stand for
    """
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
                assert key in wanted or kind.is_zero(share), ("hidden", query, head, key)
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
