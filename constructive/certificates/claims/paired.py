"""Claims about paired rank-one heads where no T x T matrix fits: *rank* and *error*.

The last section of proofs/12-paired-heads.md says what is computed here, and why it proves them:
pairs agree on most examples, so that entries of X = Z K are small, but for the blocks of the pairs'
own examples and a few entries that *couple*. `HeadPairs` (at size one) -> `Scan` (the one pass over
contexts) -> `residuals`, and `Coupling`, which is N of Lemma 12.2 -> the claims.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from constructive.certificates.claims.kind import Subject
from constructive.certificates.claims.layers import epsilon_of
from constructive.certificates.claims.rank import refute
from constructive.checker import STATEMENTS
from constructive.constructions.paired import right_inverses
from constructive.data.dataset import Dataset
from constructive.exact import verified
from constructive.exact.directed import at_least, at_most, lower, upper
from constructive.exact.upward import LONGEST, UNIT, exponent_of, gamma, lengths, up
from constructive.exact.verified import exponential
from constructive.layers.layer import AttentionLayer
from constructive.layers.memorizer import Memorizer
from constructive.support.arrays import Array, Integers, first_place, row_chunks
from constructive.support.errors import ParameterError
from constructive.support.verdict import Claim, Verdict, pack
from constructive.support.work import in_pieces, report

# Nats by which a pair has to agree on an example; built for 45, and a checker asks for 40.
MARGIN = 41.0
TAIL = 4.3e-18  # More than exp(-40)

_LARGEST_HEAD = 2.0**50
_WIDEST = 1024  # Entries of tokens up to which a checker has exact products


class UndecidedError(Exception):
    """Why the claims cannot be decided, and what to try."""


class HeadPairs:
    """Heads in pairs, and T examples in their order, in float64 and at size one.

    Contexts (and so what is read), queries and the key are divided by powers of two, so that their
    largest entries are below 1, and the heads are multiplied by all three, so that no logit
    changes. Targets count times 2^-c, readouts times 2^(a - c). Bounds hold at any scale; at this
    one, the 2^-1000 that they are raised by for underflow (`exact.upward`) is nothing. Dividing
    loses at most 2^-1075 of an entry. What it enters loses less than these 2^-1000 by that, as it
    is multiplied by entries below 1, or by heads below 2^50.
    """

    def __init__(self, memorizer: Memorizer, dataset: Dataset) -> None:
        layer, record = memorizer.layer.leading, memorizer.built
        pairs, total, width = layer.num_heads // 2, dataset.num_examples, dataset.width
        if max(total, 2 * pairs * width, dataset.context_size) > LONGEST or width > _WIDEST:
            raise UndecidedError(
                f"sums of more than {LONGEST} terms, or tokens of more than {_WIDEST} entries; "
                "fewer examples or heads"
            )
        self.dataset = dataset
        self.order: Integers = np.array(record.order, dtype=np.int64)  # the example at a position
        # (P,), the position after the last one of each pair
        self.stops: Integers = np.array([head.stop for head in record.heads[1 : 2 * pairs : 2]])
        # (T',), the pair of each position that belongs to one: of all, or all but the last
        self.owner = np.repeat(np.arange(pairs), np.diff(self.stops, prepend=0))
        queries = dataset.queries[self.order].astype(np.float64, copy=False)
        key = layer.key_weights[0, :, 0].astype(np.float64)
        heads = layer.query_weights[: 2 * pairs, :, 0].astype(np.float64)
        self.exponent = exponent_of(np.array([dataset.largest_token_entry]))  # a
        others = exponent_of(queries), exponent_of(key)
        with np.errstate(over="ignore"):
            heads = np.ldexp(heads, self.exponent + sum(others))
        if not np.abs(heads).max() < _LARGEST_HEAD:
            raise UndecidedError("logits are too large for float64; smaller gaps between tokens")
        self.queries: Array = np.ldexp(queries, -others[0])  # (T, d), by position
        self.key: Array = np.ldexp(key, -others[1])
        self.heads = np.stack([heads[::2], heads[1::2]])  # (2, P, d), the first and second ones
        readouts = _effective(layer)
        if readouts[2 * pairs :].any():
            raise UndecidedError("the last head belongs to no pair, and has a readout")
        targets = dataset.target_matrix[self.order].astype(np.float64)
        self.target_exponent = max(exponent_of(targets), exponent_of(readouts) + self.exponent)  # c
        self.targets: Array = np.ldexp(targets, -self.target_exponent)  # (T, d_out), by position
        readouts = np.ldexp(readouts, self.exponent - self.target_exponent)
        self.first = readouts[: 2 * pairs : 2]  # U_{2p} (P, d, d_out)
        self.both = self.first + readouts[1 : 2 * pairs : 2]  # V_p, rounded if it is not zero

    @property
    def has_extra(self) -> bool:
        """Whether the last position belongs to no pair."""
        return len(self.owner) < len(self.order)

    def read(
        self, positions: Integers, pairs: Integers, signs: tuple[float, float]
    ) -> tuple[Array, Array]:
        """Read contexts of any positions (k,) now, as they lie on disk, for `Tokens.read`."""
        size, width = self.dataset.context_size, len(self.key)
        values, errors = np.empty((len(positions), width)), np.empty(len(positions))
        by_example = np.argsort(self.order[positions], kind="stable")
        for rows in row_chunks(len(positions), 8 * size * width):
            part = by_example[rows]
            values[part], errors[part] = Tokens(self, positions[part]).read(pairs[part], signs)
        return values, errors


def _effective(layer: AttentionLayer) -> Array:
    """U_h (H, d, d_out), where W_O and W_D only copy columns of W_V, so exactly.

    A copy may have another sign, and be multiplied by a power of two (`layers.layer`).
    """
    heads, value_dim = layer.num_heads, layer.value_dim
    read, last = _copies(layer.readout_weights[np.newaxis].astype(np.float64))
    output = layer.output_weights.reshape(heads, value_dim, -1).astype(np.float64)
    rows, entries = _copies(output[:, :, read[0]])
    values = np.take_along_axis(layer.value_weights, rows[:, np.newaxis], axis=2).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # what is infinite is refused
        factors = (entries * last)[:, np.newaxis]
        readouts: Array = values * factors
        exact = _powers(factors) and np.array_equal(readouts / factors, values)
    if not exact:
        raise UndecidedError("W_V W_O W_D leaves the range of float64")
    return readouts


def _copies(matrices: Array) -> tuple[Integers, Array]:
    """The row of the one entry in each column of matrices (k, m, c), and the entry: (k, c)."""
    if not ((matrices != 0).sum(axis=1) == 1).all() or not _powers(matrices[matrices != 0]):
        raise UndecidedError("W_O or W_D do more than copy; fold them into W_V")
    return np.abs(matrices).argmax(axis=1), matrices.sum(axis=1)


def _powers(entries: Array) -> bool:
    """Return whether all are powers of two, with signs: neither zero nor infinite."""
    return bool((np.frexp(np.abs(entries))[0] == 0.5).all())  # noqa: PLR2004


# What heads read from contexts that are in memory, with bounds of the error of that.

# Relative error of exponentials, more than theirs: as a checker takes for its own.
_EXPONENTIAL_ERROR = 2.0**-46
_SMALL = 0.01  # Errors up to which first-order bounds of a softmax hold with a few percent to spare
_GOOD_ENOUGH = 1e-10  # Error of attention above which scores are evaluated anew, more precisely
DIFFERENCE = 1.0, -1.0  # Signs of the two heads in x_{t,p}
SECOND = 0.0, 1.0  # Signs for what the second head reads


class Tokens:
    """Contexts of k positions, read once and kept in memory, with their scores."""

    def __init__(self, layer: HeadPairs, positions: Integers) -> None:
        self.layer, self.positions = layer, positions
        contexts = layer.dataset.contexts_of(layer.order[positions])
        self.contexts: Array = np.ldexp(contexts, -layer.exponent)  # (k, n, d)
        self.scores = self.contexts @ layer.key  # (k, n)
        longest = lengths(self.contexts).max(axis=1)
        # (k,), bounds the errors of scores
        self.score_error = up(gamma(len(layer.key) + 2) * float(lengths(layer.key)) * longest)
        self.largest = up(np.abs(self.contexts).max(axis=(1, 2)))  # bounds `max |E_t|`

    def read(self, pairs: Integers, signs: tuple[float, float]) -> tuple[Array, Array]:
        """Return the sum of both heads' z times signs, and a bound on the error of its entries."""
        layer, count = self.layer, len(pairs)
        contexts, scores = self.contexts[:count], self.scores[:count]
        heads = layer.heads[:, pairs].transpose(1, 0, 2)
        reach = verified.products(heads, layer.queries[self.positions[:count]])
        attention, error = bounded_attention(
            reach, scores, np.zeros_like(scores), self.score_error[:count]
        )
        # Where s_{t,h} is large and gaps are small, differences of scores have to be better.
        worse = np.flatnonzero(~(error <= _GOOD_ENOUGH))
        if len(worse):
            keys = np.broadcast_to(layer.key, (len(worse), len(layer.key)))
            leading, rest, bounds = verified.products(contexts[worse], keys)
            attention[worse], error[worse] = bounded_attention(
                [each[worse] for each in reach], leading, rest, bounds.max(axis=1)
            )
        combined = signs[0] * attention[:, 0] + signs[1] * attention[:, 1]
        values = np.matmul(combined[:, np.newaxis], contexts)[:, 0]
        rounding = 3.0 * gamma(scores.shape[1] + 2)
        return values, up(up(error + rounding) * self.largest[:count])


def bounded_attention(
    reach: Sequence[Array], scores: Array, rest: Array, score_error: Array
) -> tuple[Array, Array]:
    """Return attention of both heads (k, 2, n), and a bound (k,) of the sum of all errors."""
    high, low, reach_error = (each[:, :, np.newaxis] for each in reach)
    ends = np.stack([scores.argmin(axis=1), scores.argmax(axis=1)], axis=1)
    top = np.take_along_axis(ends, (reach[0] > 0).astype(np.int64), axis=1)
    difference = scores[:, np.newaxis] - np.take_along_axis(scores, top, axis=1)[:, :, np.newaxis]
    difference += rest[:, np.newaxis] - np.take_along_axis(rest, top, axis=1)[:, :, np.newaxis]
    below = high * difference + low * difference
    # Differences of scores are rounded twice, the second time by small parts; logits three times.
    size = np.abs(difference)
    off = up(2.0 * score_error[:, np.newaxis, np.newaxis] + 4.0 * UNIT * size)
    spread = up(reach_error * up(size + off) + np.abs(high) * up(2.0 * off + 4.0 * UNIT * size))
    exponentials = exponential(below)
    attention = exponentials / exponentials.sum(axis=2, keepdims=True)
    # If exponentials w_i are off by e_i w_i, shares are off by 2 delta / (1 - delta) in all, for
    # delta = sum_i alpha_i e_i. Those that are taken for 0 are below exp(-700) of the largest one:
    # far less than gamma, below.
    each = up(1.01 * (_EXPONENTIAL_ERROR + spread))
    delta = up((attention * each).sum(axis=2))
    small = (each.max(axis=2) < _SMALL) & (delta < _SMALL)
    error = np.where(small, 2.1 * delta, np.inf)
    # If all others are certainly MARGIN below, both are within 2 (n - 1) exp(-MARGIN) of one-hot.
    others = scores.shape[1] - 1
    certain = below + spread
    np.put_along_axis(certain, top[:, :, np.newaxis], -np.inf, axis=2)
    alone = certain.max(axis=2) <= -MARGIN
    error = np.where(alone, 4.1 * others * TAIL, error) + gamma(others + 5)
    return attention, up(error.sum(axis=1))


_MOST_COUPLED = 4  # Coupled entries for each example, on average, beyond which nothing is tried


class Scan:
    """What is found of T examples, of which T' belong to a pair: entries of X with bounds.

    One pass over all contexts, in the order in which they lie on disk, finds all that is asked of
    every example while its tokens are in memory. The contexts of the m entries that couple are read
    once more. Nothing of the size of the contexts is kept, nor all scores.
    """

    def __init__(self, layer: HeadPairs, *, bounded: bool) -> None:
        """Read contexts; `bounded` says whether residuals will be, so that `second` is needed."""
        self.layer = layer
        unlike = np.flatnonzero(layer.both.any(axis=(1, 2))) if bounded else ()
        if len(unlike) > 1:
            raise UndecidedError("the readouts of more than one pair do not cancel")
        total, owned, width = len(layer.order), len(layer.owner), len(layer.key)
        # (2, T), from the largest score of an example to the next one, and from the least one
        self.gaps = np.empty((2, total))
        self.score_error = np.empty(total)  # bounds the errors of scores
        self.largest = np.empty(total)  # bounds `max |E_t|`, and so whatever a head reads
        # x_{t,p} of each position and its own pair (T', d), with bounds on errors of entries (T',)
        self.own, self.own_error = np.empty((owned, width)), np.empty(owned)
        # `products` of z_{t,2p+1} and V_p for the pair whose readouts do not cancel, if there is
        # one: what its second head reads counts by itself
        self.second = np.zeros((3, *layer.targets.shape))
        # The extra example, which has no pair, comes last.
        positions = np.concatenate([np.argsort(layer.order[:owned]), np.arange(owned, total)])
        with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
            for part in row_chunks(total, 8 * layer.dataset.context_size * width):
                report("read contexts", part.start, total)
                rows = positions[part]
                mine = rows[: max(owned - part.start, 0)]
                tokens = Tokens(layer, rows)
                ordered = np.sort(tokens.scores, axis=1)
                self.gaps[0, rows] = ordered[:, -1] - ordered[:, -2]
                self.gaps[1, rows] = ordered[:, 1] - ordered[:, 0]
                self.score_error[rows], self.largest[rows] = tokens.score_error, tokens.largest
                self.own[mine], self.own_error[mine] = tokens.read(layer.owner[mine], DIFFERENCE)
                for pair in unlike:
                    pairs = np.full(len(rows), pair)
                    terms = products(*tokens.read(pairs, SECOND), layer.both, pairs)
                    self.second[:, rows] = terms
            # (T,), bounds all entries that agree
            self.tail = up(2.0 * (layer.dataset.context_size - 1) * TAIL * self.largest)
            # Positions and pairs (m,) that are not certified to agree, and x_{t,p} of these
            self.positions, self.pairs = self._coupled()
            report("evaluate what is coupled", 0, 1)
            coupled = layer.read(self.positions, self.pairs, DIFFERENCE)
            self.coupled, self.coupled_error = coupled  # (m, d), (m,)
            if layer.has_extra:
                # x*, on which pair 0 agrees; where it is not certain to, `Coupling` refuses it
                tokens = Tokens(layer, np.array([total - 1]))
                upwards = float(layer.queries[-1] @ layer.heads[1, 0]) > 0
                scores = tokens.scores[0]
                self.token = tokens.contexts[0, scores.argmax() if upwards else scores.argmin()]

    def _coupled(self) -> tuple[Integers, Integers]:
        """Return positions and pairs that are not certified to agree, but for the own pairs.

        Raises UndecidedError where there are too many.
        """
        layer, owner = self.layer, self.layer.owner
        total, pairs = len(layer.order), len(layer.stops)
        heads = np.ascontiguousarray(np.concatenate(list(layer.heads)).T)
        longest = float(lengths(layer.heads).max())
        reach_error = up(gamma(len(heads) + 2) * longest * lengths(layer.queries))
        least = np.maximum(self.gaps - up(2.0 * self.score_error + 2.0 * UNIT * self.gaps), 0.0)
        at_top, at_bottom = up(up(MARGIN / least) + reach_error)[:, :, np.newaxis]

        def disagreeing(rows: slice) -> tuple[Integers, Integers]:
            with np.errstate(all="ignore"):  # of this thread
                reach = layer.queries[rows] @ heads
            first, second = reach[:, :pairs], reach[:, pairs:]
            # Of one sign, and beyond what is needed there (infinity, where scores may be equal).
            agree = np.minimum(first, second) >= at_top[rows]
            agree |= np.maximum(first, second) <= -at_bottom[rows]
            inside = np.arange(rows.start, min(rows.stop, len(owner)))
            agree[inside - rows.start, owner[inside]] = True
            where, which = np.nonzero(~agree)
            return where + rows.start, which

        found: list[tuple[Integers, Integers]] = []
        coupled = 0
        parts = list(row_chunks(total, 8 * 2 * pairs))
        for part in in_pieces(disagreeing, parts, float(total) * heads.size):
            found.append(part)
            coupled += len(part[0])
            report("certify which pairs agree", len(found), len(parts))
            if coupled > _MOST_COUPLED * total:
                raise UndecidedError(
                    f"pairs do not agree on more than {_MOST_COUPLED} entries an example; "
                    "another seed=, or fewer examples"
                )
        positions, others = (np.concatenate(each) for each in zip(*found, strict=True))
        return positions, others


def products(x: Array, radius: Array, readouts: Array, pairs: Integers) -> Array:
    """Multiply k entries of X or Z by readouts: parts of f, and of bounds on its error.

    These are x.u, `|x|.|u|` for its rounding, and what errors of x put it off by: (3, k, d_out).
    """
    terms = np.empty((3, len(x), readouts.shape[2]))
    for part in row_chunks(len(x), 8 * readouts[0].size):
        chosen = readouts[pairs[part]]
        for column in range(readouts.shape[2]):
            read, u = x[part], chosen[:, :, column]
            terms[0, part, column] = np.einsum("kd,kd->k", read, u)
            terms[1, part, column] = np.einsum("kd,kd->k", np.abs(read), np.abs(u))
            terms[2, part, column] = up(radius[part] * up(np.abs(u).sum(axis=1)))
    return terms


def residuals(scan: Scan) -> tuple[Array, Array]:
    """Return `|f - y| 2^-c` (T, d_out) by position in float64, and bounds of its errors."""
    layer = scan.layer
    sums = np.zeros((3, *layer.targets.shape))
    first, both, owner = layer.first, layer.both, layer.owner
    with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
        for positions, pairs, x, radius in (
            (np.arange(len(owner)), owner, scan.own, scan.own_error),
            (scan.positions, scan.pairs, scan.coupled, scan.coupled_error),
        ):
            for total, part in zip(sums, products(x, radius, first, pairs), strict=True):
                for column in range(total.shape[1]):
                    total[:, column] += np.bincount(positions, part[:, column], len(total))
        sums += scan.second
        result, size, slack = sums
        slack += scan.tail[:, np.newaxis] * up(np.abs(first).sum(axis=(0, 1)))
        rounded = up(2.0 * UNIT * np.abs(both).sum(axis=(0, 1)))
        slack += scan.largest[:, np.newaxis] * rounded
        terms = len(layer.key) + 8 + int(np.bincount(scan.positions, minlength=1).max(initial=0))
        residual = np.abs(result - layer.targets)
        return residual, up(slack + up(gamma(terms) * up(size + residual)))


# N as a function, and positive vectors w with N w < w.

_ROUNDS = 500  # Steps of an iteration for w
_LARGEST_WEIGHT = 1e100
ROUNDINGS = 2.0  # How many times bounds of rounding count in N'

# q and w up to which N' needs no look: for c = 2, 0.81^500 times the second is below 1.
_SURELY = 0.2, 2.0**100

# c of the iterations w = 1 + c N w, which converge where c N has a spectral radius below 1.
FACTORS = 2.0, 1.2, 1.02

# An iteration is content with this part of 1 - 1/c, which 1 - q tends to; N' needs all of it.
_NEARLY = 0.98


class Coupling:
    """N w, rounded up, for positive w (T,); or N' w, if bounds of rounding count `margin` times."""

    def __init__(self, scan: Scan, margin: float = 1.0) -> None:
        layer = scan.layer
        width, total = len(layer.key), len(layer.order)
        self.tail, self.positions = margin * scan.tail, scan.positions
        self.more = 1.0 + 2.0**-16 * (margin - 1.0)
        self.column_sums = np.zeros(total)  # of |R_p|, for each position
        self.defects, self.inverses = [], []
        sizes = np.diff(layer.stops, prepend=0)
        widest = int(sizes.max())
        padded = np.zeros((len(sizes), width, widest))
        for pairs, rows, blocks, inverse, _ in right_inverses(layer.stops, scan.own):
            if np.isnan(inverse).any():
                raise UndecidedError("a block of a pair is singular in float64; another seed=")
            count, size, _ = blocks.shape
            error: Array = margin * scan.own_error[rows].reshape(count, size, 1)
            sums = up(np.abs(inverse).sum(axis=1))
            self.column_sums[rows] = sums.ravel()
            defect = np.abs(np.matmul(blocks, inverse) - np.eye(size))
            off = margin * gamma(width + 2) * (up(np.matmul(np.abs(blocks), np.abs(inverse))) + 1.0)
            self.defects.append((rows, up(defect + off + up(error * sums[:, np.newaxis]))))
            self.inverses.append((rows, inverse))
            padded[pairs, :, :size] = inverse
        # Row t of |X R| at the examples of a pair p that is coupled to t.
        self.rows = np.empty((len(scan.pairs), widest))
        for part in row_chunks(len(self.rows), 8 * width * max(widest, 1)):
            chosen, x = padded[scan.pairs[part]], scan.coupled[part, np.newaxis]
            sizes_of = np.abs(chosen)
            row = np.abs(np.matmul(x, chosen))
            row += margin * gamma(width + 2) * up(np.matmul(np.abs(x), sizes_of))
            error = margin * scan.coupled_error[part, np.newaxis, np.newaxis]
            row += up(error * up(sizes_of.sum(axis=1, keepdims=True)))
            self.rows[part] = up(row)[:, 0]
        first = (layer.stops - sizes)[scan.pairs]
        self.owners = np.minimum(first[:, np.newaxis] + np.arange(widest), total - 1)
        self.direction: Array = np.zeros(width)  # x* / |x*|^2
        self.correction: Array = np.zeros(total)  # the last column of |X R - I|
        if layer.has_extra:
            token = scan.token
            self.direction = token / (token @ token)
            if ((scan.positions == total - 1) & (scan.pairs == 0)).any():
                raise UndecidedError("pair 0 does not agree on the extra example; another seed=")
            length = float(up(np.abs(self.direction).sum()))
            # Attention adds up to one: a mean of tokens is read, with entries up to the largest.
            self.correction = scan.largest * length
            rounding = gamma(width + 2) * scan.largest[-1]
            off = margin * up(up(rounding + scan.tail[-1]) * length)
            self.correction[-1] = abs(float(token @ self.direction) - 1.0) + off
            self.correction = up(self.correction)

    def __call__(self, weights: Array) -> Array:
        """Return N w, rounded up."""
        result = up(self.tail * float(up(self.column_sums @ weights)))
        for rows, defect in self.defects:
            part = weights[rows].reshape(*defect.shape[:2], 1)
            result[rows] += np.matmul(defect, part).ravel()
        coupled = np.einsum("kj,kj->k", self.rows, weights[self.owners])
        result += np.bincount(self.positions, coupled, len(result))
        return up(self.more * (result + self.correction * weights[-1]))


def contraction_of(scan: Scan) -> float:
    """Bound all (N w)_i / w_i for some w (Lemma 12.2). UndecidedError unless they are below one."""
    total = len(scan.layer.order)
    with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
        bound, problem = Coupling(scan), "coupling does not contract"
        found = contracting(bound, total)
        if found and not (found[1] <= _SURELY[0] and found[0].max() <= _SURELY[1]):
            problem = "coupling hardly contracts"
            found = contracting(Coupling(scan, ROUNDINGS), total, 1.0)
        if found is None:
            raise UndecidedError(
                f"{problem} ({len(scan.pairs)} entries beside the blocks of "
                f"{len(scan.layer.stops)} pairs); another seed=, or fewer examples"
            )
        return found[1]


def contracting(bound: Coupling, total: int, nearly: float = _NEARLY) -> tuple[Array, float] | None:
    """Find some w with N w <= q w for some q < 1, and that q; None where there is none.

    w = 1 + c N w converges from below, to N w = (w - 1) / c. So the largest c that converges is
    taken: it leaves most room. An iteration is content with the part `nearly` of 1 - 1/c.
    """
    for factor in FACTORS:
        content = 1.0 - nearly * (1.0 - 1.0 / factor)
        weights: Array = np.ones(total)
        for _ in range(_ROUNDS):
            bounded = bound(weights)
            if (bounded <= content * weights).all():
                contraction = float(up(bounded / weights).max())
                return (weights, contraction) if contraction < 1.0 else None
            weights = 1.0 + factor * bounded
            if not weights.max() < _LARGEST_WEIGHT:
                break
    return None


# The claims themselves: *rank* and *error* without a T x T matrix.

CLAIMS = "rank", "error"  # Those that are proved here, in the order of certificates
# An error has to be within epsilon by so many times the bound of its rounding, for others round in
# another order.
_SLACKS = 4.0
# Examples up to which paired heads are judged as any others, where this proof fails, or is asked
# for together with other claims: its certificates have no place for those.
_LARGEST_DENSE = 2000


def attempt(subject: Subject[Memorizer, Dataset]) -> tuple[Claim, ...] | None:
    """Return the claims, or None where they are to be judged as those of any other heads.

    That is where these are not paired, or other claims are asked for, too, or some are undecided
    and the examples are few. Raises ParameterError where other claims are asked for, and a large
    matrix would be needed.
    """
    memorizer, dataset = subject.weights, subject.data
    total, asked = dataset.num_examples, [kind.name for kind in subject.asked]
    if not applies(memorizer, dataset):
        return None
    others = [name for name in asked if name not in CLAIMS]
    if not others:
        named = [name for name in CLAIMS if name in asked]
        claims = prove(memorizer, dataset, named, epsilon_of(subject))
        decided = all(claim.verdict is not Verdict.UNDECIDED for claim in claims)
        return claims if decided or total > _LARGEST_DENSE else None
    if "rank" in asked and total > _LARGEST_DENSE:
        raise ParameterError(
            f"rank beside {', '.join(others)} would take a T x T matrix for "
            f"T={total} examples; alone, the proof of paired heads takes none",
            witness=total,
            suggestion=f"two certificates: one of {','.join(x for x in asked if x in CLAIMS)}, and "
            f"one of {','.join(others)}",
        )
    return None


def applies(memorizer: Memorizer, dataset: Dataset) -> bool:
    """Return whether these are paired heads of rank one, along one key, for these examples.

    The record is not trusted: its order and its groups have to fit the data, and that the readout
    has no more bits than a float is seen by the layer.
    """
    layer, record = memorizer.layer, memorizer.record
    pairs, total = layer.num_heads // 2, dataset.num_examples
    if layer.leading is not layer or len(record.order) != total:
        return False
    keys = layer.key_weights[: 2 * pairs]
    stops = [0, *(head.stop for head in record.heads[1 : 2 * pairs : 2])]
    sizes = np.diff(stops)
    return bool(
        pairs > 0
        and set(record.order) == set(range(total))
        and not layer.query_weights[:, :, 1:].any()
        and (keys == keys[:1]).all()
        and not dataset.shared_context
        and dataset.lengths is None
        and dataset.context_size > 1
        and len(sizes) == pairs
        and 0 <= sizes.min() <= sizes.max() <= dataset.width
        and total - 1 <= stops[-1] <= total
    )


def prove(
    memorizer: Memorizer,
    dataset: Dataset,
    asked: Sequence[str],
    epsilon: float,
) -> tuple[Claim, ...]:
    """Decide the claims that are asked for, among rank and error."""
    bounded = "error" in asked
    done: dict[str, Claim] = {}
    try:
        scan = Scan(HeadPairs(memorizer, dataset), bounded=bounded)
        if bounded:
            done["error"] = _error(scan.layer, *residuals(scan), epsilon)
        if "rank" in asked:
            report("bound the inverse", 0, 1)
            done["rank"] = _rank(scan, contraction_of(scan))
    except UndecidedError as reason:
        statements = {
            "rank": STATEMENTS["rank"].format(dataset.num_examples),
            "error": STATEMENTS["error"].format(epsilon),
        }
        for name in set(asked) - set(done):
            done[name] = Claim(name, statements[name], Verdict.UNDECIDED, str(reason))
        leading = memorizer.layer.leading
        refuted = refute(leading, dataset) if "rank" in asked else None
        if refuted is not None:
            done["rank"] = Claim("rank", statements["rank"], Verdict.REFUTED, *refuted)
    return tuple(done[name] for name in asked)


def _rank(scan: Scan, contraction: float) -> Claim:
    layer = scan.layer
    tail = Fraction(float(scan.tail.max())) * Fraction(2) ** layer.exponent
    detail = (
        f"{len(layer.stops)} blocks, {len(scan.pairs)} coupled entries beside them, all "
        f"others below {at_most(tail)}; contraction {at_most(contraction)}"
    )
    statement = STATEMENTS["rank"].format(len(layer.order))
    evidence = {"order": pack(layer.order), "stops": pack(layer.stops)}
    return Claim("rank", statement, Verdict.PROVED, detail, evidence=evidence)


def _error(layer: HeadPairs, evaluated: Array, slack: Array, epsilon: float) -> Claim:
    statement = STATEMENTS["error"].format(epsilon)
    unit = Fraction(2) ** layer.target_exponent
    allowed = Fraction(epsilon) / unit
    # A difference of floats is rounded by a part of itself, which `lower` and 1 - 2^-50 make good.
    least = (evaluated - slack) * (1.0 - 2.0**-50)
    surely = least > upper(allowed)
    if surely.any():
        position, entry = first_place(surely)
        example = int(layer.order[position])
        shown = at_least(Fraction(float(least[position, entry])) * unit, epsilon)
        detail = f"at example {example}, |f - y| is {shown} or more"
        witness = (example, entry) if surely.shape[1] > 1 else example
        return Claim("error", statement, Verdict.REFUTED, detail, witness)
    bounds = up(evaluated + _SLACKS * slack)
    within = bounds <= lower(allowed)
    if not within.all():
        position = int(np.flatnonzero(~within.all(axis=1))[0])
        worst = float(bounds[position].max())
        shown = at_most(Fraction(worst) * unit) if math.isfinite(worst) else "inf"
        detail = (
            f"at example {layer.order[position]} the bound {shown} in float64 straddles "
            "epsilon; a larger epsilon="
        )
        return Claim("error", statement, Verdict.UNDECIDED, detail)
    bound = at_most(Fraction(float(up(evaluated + slack).max())) * unit, epsilon)
    detail = f"max |f - y| <= {bound} (float64 with bounds, {len(bounds)} examples)"
    return Claim("error", statement, Verdict.PROVED, detail, evidence={"bound": epsilon.hex()})
