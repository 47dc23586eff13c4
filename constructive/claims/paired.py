"""Claims about paired rank-one heads where no T x T matrix fits: *rank*, *error*, *readout*.

All heads score tokens along one key direction k, so head h has logits s_{t,h} (E_t k) with
s_{t,h} = q_h.e_t. Pair p is *certified to agree* on example t where s_{t,2p} and s_{t,2p+1} have
one sign, and the smaller of them times the gap between the extreme scores is at least `MARGIN`
nats: both heads then give all but (n - 1) exp(-MARGIN) of their attention to the same token, and

    x_{t,p} = E_t^T (alpha_{2p,t} - alpha_{2p+1,t})    has entries of at most
    tail_t = 2 (n - 1) exp(-MARGIN) max |E_t|.

One T x H matrix product decides that for all t and p. The other entries, the blocks D_p of the
pairs' own examples and a few beside them, are evaluated with bounds (`exact.compensated`).

*Lemma* (proofs/12-paired-heads.md). Let X = Z K for some matrix K, and R be any matrix with T
columns. If I - X R is at most N entry by entry, and N w < w for some positive vector w, then
rank Z >= T.
*Proof.* If X R g = 0 for g != 0, let i maximize |g_i| / w_i. Then |g_i| = |((I - X R) g)_i| <=
sum_j N_ij w_j |g_j| / w_j <= (N w)_i |g_i| / w_i < |g_i|. So X R is nonsingular. QED

Here K takes the difference of the two heads of each pair (and one more column, below), and R holds
approximate right inverses R_p of the blocks. N has the defects of D_p R_p, rows |x_{t,p} R_p| where
a pair does not agree on an example of another, and tails. If no example couples to a pair whose
examples couple back to its own, directly or through others, the first and the last can be made as
small as one likes against the second by iterating w = max(1, 2 N w): in the order of pairs from
which the coupling leads, X R is block triangular up to defects and tails, and the iteration ends
after as many steps as coupling is deep. Where there are cycles it does, too, if they contract.
Nothing of size T x T is formed.

*The extra example* t* belongs to no pair. The last column of K is x* / |x*|^2 for the token x* on
which pair 0 agrees at t*, read by its second head; the last unknown solves t*'s equation.

*Error.* f(t) = sum_p (x_{t,p}.U_{2p} + z_{t,2p+1}.V_p) with V_p = U_{2p} + U_{2p+1}, which is zero
but for pair 0 (if there is an extra example). Entries which agree contribute tail_t |U_{2p}|_1.

*Readout.* X R g = r has a solution with |g_i| <= w_i max_j (|r_j| / w_j) / (1 - q), by the lemma's
argument, for q = max (N w)_i / w_i; the readout U + K R g is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from constructive.attention import AttentionLayer
from constructive.claims import rank
from constructive.claims.error import downwards, upwards
from constructive.dataset import CHUNK_BYTES, Array, Dataset
from constructive.exact.compensated import (
    EXPONENTIAL_ERROR,
    SLACK,
    TINY,
    UNIT,
    dot,
    exponential,
    gamma,
)
from constructive.memorizer import Memorizer
from constructive.progress import Progress
from constructive.verdict import Claim, Verdict, pack

Integers = npt.NDArray[np.int64]

MARGIN = 40.0
"""Nats by which a pair has to agree on an example (it is built for 45)."""

_TAIL = 4.3e-18
"""exp(-MARGIN), rounded up."""

_MOST_COUPLED = 4
"""Coupled entries for each example, on average, beyond which nothing is tried."""

_ROUNDS = 500
"""Steps of the iteration for w."""

_LARGEST_WEIGHT = 1e100
_CONTRACTION = 0.51
"""q at which the iteration is content; it tends to 1/2 where coupling is triangular."""
_LARGEST, _FLOOR = 1e140, 1e-150
"""No entry may be larger, so that squares and products stay in range. Squares below 1e-308 are
lost, so what they add to a length, far below the floor, is not."""

_SMALL = 0.01
"""Errors up to which first-order bounds of a softmax hold with a few percent to spare."""

_SMALLEST = 1e-100
"""No smaller distance is claimed unasked: a checker may have to round up."""

_GOOD_ENOUGH = 1e-10
"""Error of attention above which scores are evaluated anew, in twice the precision."""

_DIFFERENCE = 1.0, -1.0
"""Signs of the two heads in x_{t,p}."""


def applies(memorizer: Memorizer, dataset: Dataset) -> bool:
    """Whether these are paired heads of rank one, along one key direction, for these examples.

    The record is not trusted: its order and its groups have to fit the data.
    """
    layer, record = memorizer.layer, memorizer.record
    if record.construction != "paired" or not isinstance(layer, AttentionLayer):
        return False
    pairs, total = layer.num_heads // 2, dataset.num_examples
    keys = layer.key_weights[: 2 * pairs]
    stops = [0, *(head.stop for head in record.heads[1 : 2 * pairs : 2])]
    sizes = np.diff(stops)
    return bool(
        pairs > 0
        and not layer.query_weights[:, :, 1:].any()
        and (keys == keys[:1]).all()
        and not dataset.shared_context
        and dataset.context_size > 1
        and sorted(record.order) == list(range(total))
        and len(sizes) == pairs
        and 0 <= sizes.min() <= sizes.max() <= dataset.width
        and total - 1 <= stops[-1] <= total
    )


def prove(
    memorizer: Memorizer,
    dataset: Dataset,
    asked: Sequence[str],
    epsilon: float,
    delta: float | None,
    *,
    progress: Progress,
) -> tuple[Claim, ...]:
    """Decide the claims that are asked for, among rank, error and readout."""
    total = dataset.num_examples
    statements = {
        "rank": f"rank Z = T = {total}: these attention weights memorize every labelling",
        "error": f"max |f(E_t, e_t) - y_t| <= {epsilon!r}",
        "readout": "an exact readout is near the stored one",
    }
    done: dict[str, Claim] = {}
    try:
        _require_range(memorizer, dataset)
        examples = _Examples.of(memorizer, dataset)
        entries = _evaluate(examples, progress)
        if "error" in asked or "readout" in asked:
            residuals, slack = _residuals(examples, entries, memorizer)
        if "error" in asked:
            done["error"] = _error(examples, residuals, slack, epsilon)
        if "rank" in asked or "readout" in asked:
            progress("bound the inverse", 0, 1)
            inverse = _bound_inverse(examples, entries)
        if "rank" in asked:
            done["rank"] = _rank(statements["rank"], examples, entries, inverse)
        if "readout" in asked:
            done["readout"] = _readout(inverse, residuals + slack, delta)
    except _UndecidedError as reason:
        for name in set(asked) - set(done):
            done[name] = Claim(name, statements[name], Verdict.UNDECIDED, str(reason))
        refuted = rank.refute(_layer(memorizer), dataset) if "rank" in asked else None
        if refuted is not None:
            done["rank"] = Claim("rank", statements["rank"], Verdict.REFUTED, *refuted)
    return tuple(done[name] for name in asked)


def _layer(memorizer: Memorizer) -> AttentionLayer:
    if not isinstance(memorizer.layer, AttentionLayer):
        raise TypeError(f"{type(memorizer.layer).__name__} has no paired heads in float64")
    return memorizer.layer


class _UndecidedError(Exception):
    """Why nothing was proved."""


def _require_range(memorizer: Memorizer, dataset: Dataset) -> None:
    """Refuse numbers whose squares or products leave float64; small ones are harmless (_FLOOR)."""
    arrays = dataset.contexts, dataset.queries, dataset.targets, *_layer(memorizer).tensors.values()
    largest = max(max(float(array.max()), -float(array.min())) for array in arrays)
    if not largest <= _LARGEST:
        raise _UndecidedError(
            f"an entry of the data or the weights is as large as {largest:.1e}; scale them"
        )


def _lengths(vectors: Array) -> Array:
    """Upper bounds of the lengths of vectors along the last axis, whose squares may underflow."""
    squares = np.einsum("...d,...d->...", vectors, vectors)
    lengths: Array = np.sqrt(squares) * SLACK + _FLOOR
    return lengths


@dataclass(frozen=True, eq=False)
class _Examples:
    """Data and weights in the order of the pairs, in float64, and bounds of rounding.

    queries: (T, d);  query_weights: (2, P, d), of the first and the second heads;  key: (d,)
    scores:  E_t k (T, n), score_error (T,);  largest: max |E_t|, (T,)
    stops:   (P,), the position after the last one of each pair
    """

    dataset: Dataset
    order: Integers
    stops: Integers
    queries: Array
    query_weights: Array
    key: Array
    scores: Array
    score_error: Array
    largest: Array

    @classmethod
    def of(cls, memorizer: Memorizer, dataset: Dataset) -> "_Examples":
        layer, record = memorizer.layer, memorizer.record
        order = np.array(record.order, dtype=np.int64)
        pairs = layer.num_heads // 2
        stops = np.array([record.heads[2 * pair + 1].stop for pair in range(pairs)])
        weights = layer.query_weights[: 2 * pairs, :, 0].astype(np.float64)
        key = layer.key_weights[0, :, 0].astype(np.float64)
        total, size, width = len(order), dataset.context_size, dataset.width
        scores, longest, largest = np.empty((total, size)), np.empty(total), np.empty(total)
        step = max(1, CHUNK_BYTES // (8 * size * width))
        for start in range(0, total, step):
            rows = slice(start, start + step)
            contexts = dataset.contexts[order[rows]].astype(np.float64, copy=False)
            scores[rows] = contexts @ key
            longest[rows] = _lengths(contexts).max(axis=1)
            largest[rows] = np.abs(contexts).max(axis=(1, 2))
        error = gamma(width + 2) * float(_lengths(key)) * longest * SLACK + TINY
        queries = dataset.queries[order].astype(np.float64, copy=False)
        split = np.stack([weights[::2], weights[1::2]])
        return cls(dataset, order, stops, queries, split, key, scores, error, largest)

    @property
    def owner(self) -> Integers:
        """The pair of each position which belongs to one."""
        return np.repeat(np.arange(len(self.stops)), np.diff(self.stops, prepend=0))

    @property
    def has_extra(self) -> bool:
        """Whether the last position belongs to no pair."""
        return bool(self.stops[-1] < len(self.order))

    @property
    def tail(self) -> Array:
        """tail_t (T,): bounds the entries of x_{t,p} where pair p agrees on t."""
        others = self.scores.shape[1] - 1
        tail: Array = 2.0 * others * _TAIL * self.largest * SLACK + TINY
        return tail

    def contexts(self, positions: Integers) -> Array:
        """Contexts in float64: (k, n, d)."""
        return self.dataset.contexts[self.order[positions]].astype(np.float64, copy=False)


class _Entries(NamedTuple):
    """x_{t,p} with a bound on the error of each entry: the blocks, and the coupled rest.

    own: (T', d), own_error: (T',);  positions, pairs: (m,), coupled: (m, d), coupled_error: (m,)
    """

    own: Array
    own_error: Array
    positions: Integers
    pairs: Integers
    coupled: Array
    coupled_error: Array


def _evaluate(examples: _Examples, progress: Progress) -> _Entries:
    owner = examples.owner
    positions, pairs = _coupled(examples, owner, progress)
    progress("evaluate what is coupled", 0, 1)
    own = _read(examples, np.arange(len(owner)), owner, _DIFFERENCE)
    coupled = _read(examples, positions, pairs, _DIFFERENCE)
    return _Entries(*own, positions, pairs, *coupled)


def _coupled(examples: _Examples, owner: Integers, progress: Progress) -> tuple[Integers, Integers]:
    """Positions and pairs which are not certified to agree, but for those of the own pairs."""
    total, pairs = len(examples.order), len(examples.stops)
    ordered = np.sort(examples.scores, axis=1)
    weights = np.ascontiguousarray(np.concatenate(list(examples.query_weights)).T)
    longest = float(_lengths(examples.query_weights).max())
    reach_error = gamma(len(weights) + 2) * longest * _lengths(examples.queries) * SLACK + TINY
    with np.errstate(divide="ignore"):
        needed = [
            MARGIN / np.maximum(gap / SLACK - 2.0 * examples.score_error, 0.0) * SLACK + reach_error
            for gap in (ordered[:, -1] - ordered[:, -2], ordered[:, 1] - ordered[:, 0])
        ]
    found_positions, found_pairs, count = [], [], 0
    step = max(1, CHUNK_BYTES // (8 * 2 * pairs))
    for start in range(0, total, step):
        rows = slice(start, min(start + step, total))
        reach = examples.queries[rows] @ weights
        first, second = reach[:, :pairs], reach[:, pairs:]
        top, bottom = (each[rows, np.newaxis] for each in needed)
        # Of one sign, and beyond what is needed there; written so that a NaN does not agree.
        agree = np.minimum(first, second) >= top
        agree |= np.maximum(first, second) <= -bottom
        inside = np.arange(rows.start, min(rows.stop, len(owner)))
        agree[inside - rows.start, owner[inside]] = True
        where, which = np.nonzero(~agree)
        found_positions.append(where + start)
        found_pairs.append(which)
        count += len(where)
        if count > _MOST_COUPLED * total:
            raise _UndecidedError(
                f"pairs do not agree on more than {_MOST_COUPLED} entries an example; "
                "another seed=, or fewer examples"
            )
        progress("certify which pairs agree", rows.stop, total)
    return np.concatenate(found_positions), np.concatenate(found_pairs)


def _read(
    examples: _Examples, positions: Integers, pairs: Integers, signs: tuple[float, float]
) -> tuple[Array, Array]:
    """The sum of both heads' z times signs (k, d), and a bound on the error of its entries (k,)."""
    width, size = examples.queries.shape[1], examples.scores.shape[1]
    values, errors = np.empty((len(positions), width)), np.empty(len(positions))
    step = max(1, CHUNK_BYTES // (8 * size * width))
    for start in range(0, len(positions), step):
        part = slice(start, start + step)
        chosen = positions[part]
        contexts = examples.contexts(chosen)
        weights = examples.query_weights[:, pairs[part]].transpose(1, 0, 2)
        reach = dot(examples.queries[chosen, np.newaxis], weights)
        scores, score_error = examples.scores[chosen], examples.score_error[chosen]
        attention, error = _attention(reach, scores, np.zeros_like(scores), score_error)
        # Where s_{t,h} is large and gaps are small, differences of scores have to be better.
        worse = np.flatnonzero(~(error <= _GOOD_ENOUGH))
        if len(worse):
            leading, rest, bounds = dot(contexts[worse], examples.key)
            attention[worse], error[worse] = _attention(
                [each[worse] for each in reach], leading, rest, bounds.max(axis=1)
            )
        combined = signs[0] * attention[:, 0] + signs[1] * attention[:, 1]
        values[part] = np.matmul(combined[:, np.newaxis], contexts)[:, 0]
        errors[part] = (error + 3.0 * gamma(size + 2)) * examples.largest[chosen] * SLACK + TINY
    return values, errors


def _attention(
    reach: Sequence[Array], scores: Array, rest: Array, score_error: Array
) -> tuple[Array, Array]:
    """Attention of both heads (k, 2, n), and a bound (k,) of the sum of all errors.

    reach: s_{t,h} as a sum of two, and the error of that, (k, 2) each
    scores + rest: E_t key (k, n);  score_error: (k,)
    """
    high, low, reach_error = (each[:, :, np.newaxis] for each in reach)
    ends = np.stack([scores.argmin(axis=1), scores.argmax(axis=1)], axis=1)
    top = np.take_along_axis(ends, (reach[0] > 0).astype(np.int64), axis=1)
    difference = scores[:, np.newaxis] - np.take_along_axis(scores, top, axis=1)[:, :, np.newaxis]
    difference += rest[:, np.newaxis] - np.take_along_axis(rest, top, axis=1)[:, :, np.newaxis]
    below = high * difference + low * difference
    # Differences of scores are rounded twice, the second time by small parts; logits three times.
    size = np.abs(difference)
    off = 2.0 * score_error[:, np.newaxis, np.newaxis] + 4.0 * UNIT * size
    spread = (reach_error * (size + off) + np.abs(high) * (2.0 * off + 4.0 * UNIT * size)) * SLACK
    exponentials = exponential(below)
    attention = exponentials / exponentials.sum(axis=2, keepdims=True)
    # If exponentials w_i are off by e_i w_i, shares are off by 2 delta / (1 - delta) in all, for
    # delta = sum_i alpha_i e_i.
    each = 1.01 * (EXPONENTIAL_ERROR + spread) + TINY
    delta = (attention * each).sum(axis=2) * SLACK
    small = (each.max(axis=2) < _SMALL) & (delta < _SMALL)
    error = np.where(small, 2.1 * delta, np.inf)
    # If all others are certainly MARGIN below, both are within 2 (n - 1) exp(-MARGIN) of one-hot.
    others = scores.shape[1] - 1
    certain = below + spread
    np.put_along_axis(certain, top[:, :, np.newaxis], -np.inf, axis=2)
    alone = certain.max(axis=2) <= -MARGIN * SLACK
    error = np.where(alone, 4.1 * others * _TAIL, error) + gamma(others + 5)
    return attention, error.sum(axis=1) * SLACK


@dataclass(frozen=True, eq=False)
class _Inverse:
    """What the lemma says of R.

    weights: w (T,);  contraction: q, an upper bound of (N w)_i / w_i
    spread:  an upper bound of the entries of |K R| w
    """

    weights: Array
    contraction: float
    spread: float


class _Bound:
    """N as a function: N w, rounded up, for positive w (T,)."""

    def __init__(self, examples: _Examples, entries: _Entries) -> None:
        width, total = examples.queries.shape[1], len(examples.order)
        self.examples, self.runs = examples, _right_inverses(examples, entries.own)
        self.column_sums = np.zeros(total)  # of |R_p|, for each position
        self.defects = []
        sizes = np.diff(examples.stops, prepend=0)
        widest = int(sizes.max())
        padded = np.zeros((len(sizes), width, widest))
        for pairs, rows, inverse in self.runs:
            count, _, size = inverse.shape
            blocks = entries.own[rows].reshape(count, size, width)
            error = entries.own_error[rows].reshape(count, size, 1)
            sums = np.abs(inverse).sum(axis=1) * SLACK
            self.column_sums[rows] = sums.ravel()
            defect = np.abs(np.matmul(blocks, inverse) - np.eye(size))
            defect += gamma(width + 2) * (np.matmul(np.abs(blocks), np.abs(inverse)) * SLACK + 1.0)
            defect += error * sums[:, np.newaxis]
            self.defects.append((rows, defect))
            padded[pairs, :, :size] = inverse
        # Row t of |X R| at the examples of a pair p which is coupled to t.
        self.positions = entries.positions
        self.rows = np.empty((len(entries.pairs), widest))
        step = max(1, CHUNK_BYTES // (8 * width * max(widest, 1)))
        for start in range(0, len(self.rows), step):
            part = slice(start, start + step)
            chosen, x = padded[entries.pairs[part]], entries.coupled[part, np.newaxis]
            sizes_of = np.abs(chosen)
            row = np.abs(np.matmul(x, chosen))
            row += gamma(width + 2) * np.matmul(np.abs(x), sizes_of) * SLACK
            error = entries.coupled_error[part, np.newaxis, np.newaxis]
            row += error * sizes_of.sum(axis=1, keepdims=True) * SLACK
            self.rows[part] = row[:, 0]
        first = (examples.stops - sizes)[entries.pairs]
        self.owners = np.minimum(first[:, np.newaxis] + np.arange(widest), total - 1)
        self.correction = _correction(examples, entries) if examples.has_extra else np.zeros(total)

    def __call__(self, weights: Array) -> Array:
        result = self.examples.tail * float(self.column_sums @ weights) * SLACK + TINY
        for rows, defect in self.defects:
            part = weights[rows].reshape(*defect.shape[:2], 1)
            result[rows] += np.matmul(defect, part).ravel()
        coupled = np.einsum("kj,kj->k", self.rows, weights[self.owners])
        result += np.bincount(self.positions, coupled, len(result))
        bounded: Array = (result + self.correction * weights[-1]) * SLACK
        return bounded


def _bound_inverse(examples: _Examples, entries: _Entries) -> _Inverse:
    """Find w with N w < w."""
    with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
        bound = _Bound(examples, entries)
        weights = np.ones(len(examples.order))
        bounded = bound(weights)
        for _ in range(_ROUNDS):
            done = (bounded <= _CONTRACTION * weights).all()
            if done or not bounded.max() < _LARGEST_WEIGHT:
                break
            weights = np.maximum(1.0, 2.0 * bounded)
            bounded = bound(weights)
        contraction = float((bounded / weights).max()) * SLACK
        if not contraction < 1.0:
            raise _UndecidedError(
                f"coupling does not contract ({len(entries.pairs)} entries beside the blocks of "
                f"{len(examples.stops)} pairs); another seed=, or fewer examples"
            )
        spread = 0.0
        for _, rows, inverse in bound.runs:
            part = weights[rows].reshape(len(inverse), inverse.shape[2], 1)
            spread = max(spread, float(np.matmul(np.abs(inverse), part).max(initial=0.0)) * SLACK)
        if examples.has_extra:
            spread += float(np.abs(_extra_token(examples)[1]).max() * weights[-1]) * SLACK
    return _Inverse(weights, contraction, spread)


def _right_inverses(examples: _Examples, own: Array) -> tuple[tuple[slice, slice, Array], ...]:
    """Approximate R_p = D_p^T (D_p D_p^T)^-1; any numbers will do."""
    sizes = np.diff(examples.stops, prepend=0)
    breaks = np.flatnonzero(np.diff(sizes)) + 1
    runs = []
    for chosen in np.split(np.arange(len(sizes)), breaks):
        size = int(sizes[chosen[0]])
        rows = slice(int(examples.stops[chosen[0]]) - size, int(examples.stops[chosen[-1]]))
        blocks = own[rows].reshape(len(chosen), size, own.shape[1])
        basis, triangle = np.linalg.qr(blocks.transpose(0, 2, 1))
        singular = (np.diagonal(triangle, axis1=1, axis2=2) == 0.0).any()
        if singular or not np.isfinite(triangle).all():
            raise _UndecidedError("a block of a pair is singular in float64; another seed=")
        inverse = np.matmul(basis, np.linalg.inv(triangle).transpose(0, 2, 1))
        runs.append((slice(int(chosen[0]), int(chosen[-1]) + 1), rows, inverse))
    return tuple(runs)


def _extra_token(examples: _Examples) -> tuple[Array, Array]:
    """The token x* which pair 0 reads from the extra example, and x* / |x*|^2, rounded."""
    last = len(examples.order) - 1
    reach = float(examples.queries[last] @ examples.query_weights[1, 0])
    scores = examples.scores[last]
    index = int(scores.argmax() if reach > 0 else scores.argmin())
    token = examples.contexts(np.array([last]))[0, index]
    return token, token / (token @ token)


def _correction(examples: _Examples, entries: _Entries) -> Array:
    """The last column of |X R - I|: (T,), for what is read along x* / |x*|^2."""
    last = len(examples.order) - 1
    if ((entries.positions == last) & (entries.pairs == 0)).any():
        raise _UndecidedError("pair 0 does not agree on the extra example; another seed=")
    token, direction = _extra_token(examples)
    length = float(np.abs(direction).sum()) * SLACK
    # Attention weights sum to one: what is read is a mean of tokens, with entries up to largest.
    column = examples.largest * length * SLACK
    rounding = gamma(len(token) + 2) * examples.largest[-1]
    column[-1] = abs(float(token @ direction) - 1.0) + (rounding + examples.tail[-1]) * length
    return column * SLACK


def _residuals(examples: _Examples, entries: _Entries, memorizer: Memorizer) -> tuple[Array, Array]:
    """|f - y| (T, d_out) as evaluated, and bounds of the errors of that, by position."""
    layer, outputs = _layer(memorizer), examples.dataset.target_dim
    pairs, width = len(examples.stops), examples.queries.shape[1]
    readouts = _readouts(layer)
    if np.abs(readouts[2 * pairs :]).any():
        raise _UndecidedError("the last head belongs to no pair, and has a readout")
    first = readouts[: 2 * pairs : 2]
    both = first + readouts[1 : 2 * pairs : 2]
    targets = examples.dataset.target_matrix[examples.order].astype(np.float64)
    result, size, slack = np.zeros((3, *targets.shape))
    owner = examples.owner

    def add(positions: Integers, x: Array, radius: Array, u: Array) -> None:
        for column in range(outputs):
            used = u[:, :, column]
            terms = np.einsum("kd,kd->k", x, used)
            sizes = np.einsum("kd,kd->k", np.abs(x), np.abs(used))
            spread = radius * np.abs(used).sum(axis=1) * SLACK
            for total, part in ((result, terms), (size, sizes), (slack, spread)):
                total[:, column] += np.bincount(positions, part, len(total))

    add(np.arange(len(owner)), entries.own, entries.own_error, first[owner])
    add(entries.positions, entries.coupled, entries.coupled_error, first[entries.pairs])
    unlike = np.flatnonzero(np.abs(both).any(axis=(1, 2)))
    if len(unlike) > 1:
        raise _UndecidedError("the readouts of more than one pair do not cancel")
    for pair in unlike:
        positions = np.arange(len(targets))
        read, radius = _read(examples, positions, np.full(len(positions), pair), (0.0, 1.0))
        add(
            positions,
            read,
            radius,
            np.broadcast_to(both[pair], (len(positions), *both[pair].shape)),
        )
    per_head = np.abs(first).sum(axis=(0, 1)) * SLACK
    rounded = 2.0 * UNIT * np.abs(both).sum(axis=(0, 1)) * SLACK
    slack += examples.tail[:, np.newaxis] * per_head
    slack += examples.largest[:, np.newaxis] * rounded
    terms = width + 8 + int(np.bincount(entries.positions, minlength=1).max(initial=0))
    residual = np.abs(result - targets)
    slack += gamma(terms) * (size + residual) * SLACK + TINY
    return residual, slack * SLACK


def _readouts(layer: AttentionLayer) -> Array:
    """U_h (H, d, d_out), where W_O and W_D only copy columns of W_V, so exactly."""
    identity = np.eye(layer.value_dim)
    copies = layer.output_weights == np.tile(identity, (layer.num_heads, 1))
    if not (copies.all() and (layer.readout_weights == identity[:, : layer.target_dim]).all()):
        raise _UndecidedError("W_O or W_D do more than copy; fold them into W_V")
    readouts: Array = layer.value_weights[:, :, : layer.target_dim].astype(np.float64)
    return readouts


def _rank(statement: str, examples: _Examples, entries: _Entries, inverse: _Inverse) -> Claim:
    detail = (
        f"{len(examples.stops)} blocks, {len(entries.pairs)} coupled entries beside them, all "
        f"others below {upwards(float(examples.tail.max()))}; contraction "
        f"{upwards(inverse.contraction)}"
    )
    return Claim("rank", statement, Verdict.PROVED, detail, evidence=_evidence(examples))


def _evidence(examples: _Examples) -> dict[str, str]:
    return {"order": pack(examples.order), "stops": pack(examples.stops)}


def _error(examples: _Examples, residuals: Array, slack: Array, epsilon: float) -> Claim:
    statement = f"max |f(E_t, e_t) - y_t| <= {epsilon!r}"
    surely = residuals * (2.0 - SLACK) - slack > epsilon
    if surely.any():
        position, entry = (int(i) for i in np.argwhere(surely)[0])
        example = int(examples.order[position])
        least = float(residuals[position, entry] - slack[position, entry])
        detail = f"at example {example}, |f - y| is {downwards(least)} or more"
        witness = (example, entry) if residuals.shape[1] > 1 else example
        return Claim("error", statement, Verdict.REFUTED, detail, witness)
    bounds = (residuals + slack) * SLACK
    if not (bounds <= epsilon).all():
        worst = int(np.nan_to_num(bounds.max(axis=1), nan=np.inf).argmax())
        detail = (
            f"at example {examples.order[worst]} the bound {bounds[worst].max():.1e} in float64 "
            "straddles epsilon; a larger epsilon="
        )
        return Claim("error", statement, Verdict.UNDECIDED, detail)
    detail = (
        f"max |f - y| <= {upwards(float(bounds.max()))} (float64 with bounds, "
        f"{len(bounds)} examples)"
    )
    return Claim("error", statement, Verdict.PROVED, detail, evidence={"bound": epsilon.hex()})


def _readout(inverse: _Inverse, bounds: Array, delta: float | None) -> Claim:
    scaled = float((bounds / inverse.weights[:, np.newaxis]).max()) * SLACK
    bound = inverse.spread * scaled / (1.0 - inverse.contraction) * SLACK + TINY
    # Unasked, more is claimed than was shown: a checker has another R and w, and rounds too.
    shown = delta if delta is not None else float(upwards(max(2.0 * bound, _SMALLEST)))
    statement = f"an exact readout is within {shown!r} of the stored one, entry by entry"
    if not bound <= shown or not np.isfinite(bound):
        detail = f"only a distance of at most {bound:.1e} is shown; a larger delta="
        return Claim("readout", statement, Verdict.UNDECIDED, detail)
    detail = f"distance at most {upwards(bound)} (contraction {upwards(inverse.contraction)})"
    return Claim("readout", statement, Verdict.PROVED, detail, evidence={"bound": shown.hex()})
