"""Claims about paired rank-one heads where no T x T matrix fits: *rank*, *error*, *readout*.

All heads score tokens along one key direction k, so head h has logits s_{t,h} (E_t k) with
s_{t,h} = q_h.e_t. Pair p is *certified to agree* on example t where s_{t,2p} and s_{t,2p+1} have
one sign, and the smaller of them times the gap between the extreme scores is at least `MARGIN`
nats: both heads then give all but (n - 1) exp(-MARGIN) of their attention to the same token. So ::

    x_{t,p} = E_t^T (alpha_{2p,t} - alpha_{2p+1,t})    has entries of at most
    tail_t = 2 (n - 1) exp(-MARGIN) max |E_t|.

One T x H matrix product decides that for all t and p. The other entries, the blocks D_p of the
pairs' own examples and a few beside them, are evaluated with bounds (`exact.verified`).

*Lemma* (proofs/12-paired-heads.md). Let X = Z K for some matrix K, and R be any matrix with T
columns. If I - X R is at most N entry by entry, and N w < w for some positive vector w, then
rank Z >= T.
*Proof.* If X R g = 0 for g != 0, let i maximize `|g_i| / w_i`. Then `|g_i| = |((I - X R) g)_i| <=
sum_j N_ij w_j |g_j| / w_j <= (N w)_i |g_i| / w_i < |g_i|`. So X R is nonsingular. QED

Here K takes the difference of the two heads of each pair (and one more column, below), and R holds
approximate right inverses R_p of the blocks. N has the defects of D_p R_p, rows `|x_{t,p} R_p|`
where a pair does not agree on an example of another, and tails. For c > 1 the iteration
w = 1 + c N w converges where c N has a spectral radius below 1, to w with N w < w / c. With c = 2
it does if no example couples to a pair whose examples couple back to its own, directly or through
others: in the order of pairs from which the coupling leads, X R is block triangular up to defects
and tails, and the iteration ends after as many steps as coupling is deep. Where there are circles
it converges for a smaller c, if they contract. Nothing of size T x T is formed.

*The extra example* `t*` belongs to no pair. The last column of K is `x* / |x*|^2` for the token
`x*` on which pair 0 agrees at `t*`, read by its second head; the last unknown solves the equation
of `t*`.

*Error.* f(t) = sum_p (x_{t,p}.U_{2p} + z_{t,2p+1}.V_p) with V_p = U_{2p} + U_{2p+1}, which is zero
but for pair 0 (if there is an extra example). Entries that agree contribute `tail_t |U_{2p}|_1`.

*Readout.* X R g = r has a solution with `|g_i| <= w_i max_j (|r_j| / w_j) / (1 - q)`, by the
argument of the lemma, for q = max (N w)_i / w_i; the readout U + K R g is exact.

`Examples` and `Readouts` (at size one) -> `Scan` (the one pass over contexts; `Tokens`, what heads
read from those in memory) -> `Entries` (which pairs agree, and what is read where they do not, from
the few contexts of these once more), all in `claims.pairs` -> the lemma and the residuals ->
`attempt`, which judges the claims.

A checker computes its own R, N and w, which differ from these by rounding. So a margin is needed:
bounds of rounding count twice, for N', which is at most 2 (1 + 2^-16) N.
With w = 1 + c N w from w = 1 on, step k adds (c N)^k 1, which is monotone in N. So if a step for N'
adds 1 at most, then so does the same step for every N below N': N w <= w / c. That is more than
the checker needs, which takes as many steps. Where q and w are small for N, it holds for N', too:
(c N')^k 1 <= (2 (1 + 2^-16) c q)^k w.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from constructive.certificates.claims import error, rank, readout
from constructive.certificates.claims.kind import Subject
from constructive.certificates.claims.pairs import (
    Entries,
    Examples,
    Readouts,
    Scan,
    Terms,
    Tokens,
    evaluate,
)
from constructive.data.dataset import Dataset
from constructive.exact.directed import at_least, at_most, lower, short_bound, upper
from constructive.exact.upward import UNIT, gamma, up
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import floats_of
from constructive.support.arrays import Array, Integers, first_place, row_chunks
from constructive.support.errors import ParameterError
from constructive.support.verdict import Claim, Verdict, pack
from constructive.support.work import report
from constructive.theory.grouping import UndecidedError

_ROUNDS = 500  # Steps of an iteration for w

_LARGEST_WEIGHT = 1e100

MARGIN = 2.0  # How many times bounds of rounding count in N'

# q and w up to which N' needs no look: for c = 2, 0.81^500 times the second is below 1.
_SURELY = 0.2, 2.0**100

# c of the iterations w = 1 + c N w, which converge where c N has a spectral radius below 1.
FACTORS = 2.0, 1.2, 1.02

# An iteration is content with this part of 1 - 1/c, which 1 - q tends to; N' needs all of it.
_NEARLY = 0.98

Extra = tuple[Array, Array]  # The token that pair 0 reads from the extra example, and a direction


@dataclass(frozen=True, eq=False)
class Inverse:
    """What the lemma says of R."""

    weights: Array  # w (T,)
    contraction: float  # q, an upper bound of all (N w)_i / w_i
    spread: float  # an upper bound of the entries of `|K R| w`


class Coupling:
    """N as a function: N w, rounded up, for positive w (T,).

    It is N' if bounds of rounding count `margin` times. `extra` is the token of the extra example
    and its direction, where they were read before.
    """

    def __init__(
        self,
        examples: Examples,
        entries: Entries,
        margin: float = 1.0,
        extra: Extra | None = None,
    ) -> None:
        width, total = examples.queries.shape[1], len(examples.order)
        self.tail, self.runs = margin * entries.tail, _right_inverses(examples, entries.own)
        self.more = 1.0 + 2.0**-16 * (margin - 1.0)
        self.column_sums = np.zeros(total)  # of |R_p|, for each position
        self.defects = []
        sizes = np.diff(examples.stops, prepend=0)
        widest = int(sizes.max())
        padded = np.zeros((len(sizes), width, widest))
        for pairs, rows, inverse in self.runs:
            count, _, size = inverse.shape
            blocks = entries.own[rows].reshape(count, size, width)
            error = margin * entries.own_error[rows].reshape(count, size, 1)
            sums = up(np.abs(inverse).sum(axis=1))
            self.column_sums[rows] = sums.ravel()
            defect = np.abs(np.matmul(blocks, inverse) - np.eye(size))
            off = margin * gamma(width + 2) * (up(np.matmul(np.abs(blocks), np.abs(inverse))) + 1.0)
            self.defects.append((rows, up(defect + off + up(error * sums[:, np.newaxis]))))
            padded[pairs, :, :size] = inverse
        # Row t of |X R| at the examples of a pair p that is coupled to t.
        self.positions = entries.positions
        self.rows = np.empty((len(entries.pairs), widest))
        for part in row_chunks(len(self.rows), 8 * width * max(widest, 1)):
            chosen, x = padded[entries.pairs[part]], entries.coupled[part, np.newaxis]
            sizes_of = np.abs(chosen)
            row = np.abs(np.matmul(x, chosen))
            row += margin * gamma(width + 2) * up(np.matmul(np.abs(x), sizes_of))
            error = margin * entries.coupled_error[part, np.newaxis, np.newaxis]
            row += up(error * up(sizes_of.sum(axis=1, keepdims=True)))
            self.rows[part] = up(row)[:, 0]
        first = (examples.stops - sizes)[entries.pairs]
        self.owners = np.minimum(first[:, np.newaxis] + np.arange(widest), total - 1)
        self.direction: Array = np.zeros(width)  # of the token of the extra example
        self.correction: Array = np.zeros(total)
        if examples.has_extra:
            token, self.direction = extra or extra_token(examples)
            self.correction = _correction(entries, token, self.direction, margin)

    def __call__(self, weights: Array) -> Array:
        """Return N w, rounded up."""
        result = up(self.tail * float(up(self.column_sums @ weights)))
        for rows, defect in self.defects:
            part = weights[rows].reshape(*defect.shape[:2], 1)
            result[rows] += np.matmul(defect, part).ravel()
        coupled = np.einsum("kj,kj->k", self.rows, weights[self.owners])
        result += np.bincount(self.positions, coupled, len(result))
        return up(self.more * (result + self.correction * weights[-1]))


def bound_inverse(examples: Examples, entries: Entries) -> Inverse:
    """Find w with N w < w. Raises UndecidedError where coupling is not shown to contract."""
    with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
        extra = extra_token(examples) if examples.has_extra else None
        bound = Coupling(examples, entries, extra=extra)
        found = contracting(bound, len(examples.order))
        if found is None:
            raise _coupled(examples, entries, "coupling does not contract")
        weights, contraction = found
        if not (contraction <= _SURELY[0] and weights.max() <= _SURELY[1]):
            found = contracting(
                Coupling(examples, entries, MARGIN, extra), len(examples.order), 1.0
            )
            if found is None:
                raise _coupled(examples, entries, "coupling hardly contracts")
            weights, contraction = found
        return Inverse(weights, contraction, spread_of(bound, weights))


def spread_of(bound: Coupling, weights: Array) -> float:
    """Return an upper bound of the entries of `|K R| w`."""
    spread = 0.0
    for _, rows, inverse in bound.runs:
        part = weights[rows].reshape(len(inverse), inverse.shape[2], 1)
        spread = max(spread, float(up(np.matmul(np.abs(inverse), part)).max(initial=0.0)))
    if bound.direction.any():
        spread = float(up(spread + up(np.abs(bound.direction).max() * weights[-1])))
    return spread


def _coupled(examples: Examples, entries: Entries, what: str) -> UndecidedError:
    return UndecidedError(
        f"{what} ({len(entries.pairs)} entries beside the blocks of {len(examples.stops)} pairs); "
        "another seed=, or fewer examples"
    )


def contracting(bound: Coupling, total: int, nearly: float = _NEARLY) -> tuple[Array, float] | None:
    """Find some w with N w <= q w for some q < 1, and that q; None where there is none.

    Where c N has a spectral radius below 1, w = 1 + c N w converges from below, to the sum of all
    (c N)^k 1, and N w = (w - 1) / c is less than w / c. So the largest c that converges is taken:
    it leaves most room. Nothing has to be aperiodic or connected for that. An iteration is content
    with the part `nearly` of 1 - 1/c.
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


def _right_inverses(examples: Examples, own: Array) -> tuple[tuple[slice, slice, Array], ...]:
    """Return approximate R_p = D_p^T (D_p D_p^T)^-1; any numbers will do."""
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
            raise UndecidedError("a block of a pair is singular in float64; another seed=")
        inverse = np.matmul(basis, np.linalg.inv(triangle).transpose(0, 2, 1))
        runs.append((slice(int(chosen[0]), int(chosen[-1]) + 1), rows, inverse))
    return tuple(runs)


def extra_token(examples: Examples) -> Extra:
    """Return the token `x*` that pair 0 reads of the extra example, and `x* / |x*|^2`, rounded."""
    tokens = Tokens.of(examples, np.array([len(examples.order) - 1]))
    reach = float(examples.queries[-1] @ examples.query_weights[1, 0])
    scores = tokens.scores[0]
    index = int(scores.argmax() if reach > 0 else scores.argmin())
    token = tokens.contexts[0, index]
    return token, token / (token @ token)


def _correction(entries: Entries, token: Array, direction: Array, margin: float) -> Array:
    """Return the last column of `|X R - I|`: (T,), for what is read along `x* / |x*|^2`."""
    last = len(entries.tail) - 1
    if ((entries.positions == last) & (entries.pairs == 0)).any():
        raise UndecidedError("pair 0 does not agree on the extra example; another seed=")
    length = float(up(np.abs(direction).sum()))
    # Attention weights sum to one: what is read is a mean of tokens, with entries up to largest.
    column = entries.largest * length
    rounding = gamma(len(token) + 2) * entries.largest[-1]
    off = margin * up(up(rounding + entries.tail[-1]) * length)
    column[-1] = abs(float(token @ direction) - 1.0) + off
    return up(column)


@dataclass(frozen=True, eq=False)
class Residuals:
    """`|f - y| 2^-c` by position, as float64 has it, and how far that is off."""

    evaluated: Array  # (T, d_out)
    slack: Array  # (T, d_out), bounds the errors of these
    exponent: int  # c, for which targets, and readouts of contexts of size one, are below 1

    @property
    def bounds(self) -> Array:
        """Upper bounds of `|f - y| 2^-c`, of shape (T, d_out)."""
        return up(self.evaluated + self.slack)


def residuals_of(
    examples: Examples, entries: Entries, second: Terms | None, readouts: Readouts
) -> Residuals:
    """Evaluate f - y at every position, at size one.

    `second` is what the second head of the pair whose readouts do not cancel adds to f.
    """
    result, size, slack = sums = np.zeros((3, *readouts.targets.shape))
    first, both, owner = readouts.first, readouts.both, examples.owner

    def add(positions: Integers, pairs: Integers, x: Array, radius: Array) -> None:
        terms = Terms.of(x, radius, first, pairs)
        for total, part in zip(sums, terms, strict=True):
            for column in range(total.shape[1]):
                total[:, column] += np.bincount(positions, part[:, column], len(total))

    with np.errstate(all="ignore"):  # what overflows or is not a number proves nothing
        add(np.arange(len(owner)), owner, entries.own, entries.own_error)
        add(entries.positions, entries.pairs, entries.coupled, entries.coupled_error)
        if second is not None:
            sums += second
        per_head = up(np.abs(first).sum(axis=(0, 1)))
        rounded = up(2.0 * UNIT * np.abs(both).sum(axis=(0, 1)))
        slack += entries.tail[:, np.newaxis] * per_head
        slack += entries.largest[:, np.newaxis] * rounded
        width = examples.queries.shape[1]
        terms = width + 8 + int(np.bincount(entries.positions, minlength=1).max(initial=0))
        residual = np.abs(result - readouts.targets)
        bound = up(slack + up(gamma(terms) * up(size + residual)))
    return Residuals(residual, bound, readouts.exponent)


# The claims themselves: *rank*, *error* and *readout* without a T x T matrix.

CLAIMS = "rank", "error", "readout"  # Those that are proved here, in the order of certificates
# A distance that is claimed is this much more than what is shown, as a checker has another R and
# another w.
_ROOM = 2
# An error has to be within epsilon by so many times the bound of its rounding, for others round in
# another order.
_SLACKS = 4.0
_DENSE = "rank", "readout"  # Those that take a T x T matrix elsewhere
# Examples up to which paired heads are judged as any others, where this proof fails, or is asked
# for together with other claims: its certificates have no place for those.
_LARGEST_DENSE = 2000


def attempt(subject: Subject[Memorizer, Dataset]) -> tuple[Claim, ...] | None:
    """Return the claims, or None where some are undecided and the examples are few.

    Few examples are judged as any others then. The readout brings the rank of its blocks with it.
    """
    asked = {kind.name for kind in subject.asked}
    if "readout" in asked:
        asked.add("rank")
    claims = prove(
        subject.weights,
        subject.data,
        [name for name in CLAIMS if name in asked],
        error.epsilon_of(subject),
        subject.options.delta,
    )
    decided = all(claim.verdict is not Verdict.UNDECIDED for claim in claims)
    return claims if decided or subject.data.num_examples > _LARGEST_DENSE else None


def require_few(names: Sequence[str], total: int) -> None:
    """Refuse claims of this proof beside others, if that takes a large matrix.

    Raises ParameterError.
    """
    others = [name for name in names if name not in CLAIMS]
    dense = [name for name in names if name in _DENSE]
    if not others or not dense or total <= _LARGEST_DENSE:
        return
    own = ",".join(name for name in names if name in CLAIMS)
    raise ParameterError(
        f"{' and '.join(dense)} beside {', '.join(others)} would take a T x T matrix for T={total} "
        "examples; alone, the proof of paired heads takes none",
        witness=total,
        suggestion=f"two certificates: one of {own}, and one of {','.join(others)}",
    )


def applies(memorizer: Memorizer, dataset: Dataset) -> bool:
    """Return whether these are paired heads of rank one, along one key, for these examples.

    The record is not trusted: its order and its groups have to fit the data, and that the readout
    has no more bits than a float is seen by the layer.
    """
    layer, record = floats_of(memorizer.layer), memorizer.record
    pairs, total = layer.num_heads // 2, dataset.num_examples
    order = set(record.order)
    if layer.leading is not layer or len(record.order) != total or order != set(range(total)):
        return False
    keys = layer.key_weights[: 2 * pairs]
    stops = [0, *(head.stop for head in record.heads[1 : 2 * pairs : 2])]
    sizes = np.diff(stops)
    return bool(
        pairs > 0
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
    delta: float | None,
) -> tuple[Claim, ...]:
    """Decide the claims that are asked for, among rank, error and readout."""
    statements = {
        "rank": rank.STATEMENT.format(dataset.num_examples),
        "error": error.STATEMENT.format(epsilon),
        "readout": readout.UNKNOWN,
    }
    done: dict[str, Claim] = {}
    try:
        examples = Examples.of(memorizer, dataset)
        readouts = None
        if "error" in asked or "readout" in asked:
            readouts = Readouts.of(examples, memorizer)
        scan = Scan.of(examples, readouts.unlike if readouts else None)
        entries = evaluate(examples, scan)
        if readouts is not None:
            residuals = residuals_of(examples, entries, scan.second, readouts)
        if "error" in asked:
            done["error"] = _error(examples, residuals, epsilon)
        if "rank" in asked or "readout" in asked:
            report("bound the inverse", 0, 1)
            inverse = bound_inverse(examples, entries)
        if "rank" in asked:
            done["rank"] = _rank(statements["rank"], examples, entries, inverse)
        if "readout" in asked:
            done["readout"] = _readout(examples, inverse, residuals, delta)
    except UndecidedError as reason:
        for name in set(asked) - set(done):
            done[name] = Claim(name, statements[name], Verdict.UNDECIDED, str(reason))
        leading = floats_of(memorizer.layer).leading
        refuted = rank.refute(leading, dataset) if "rank" in asked else None
        if refuted is not None:
            done["rank"] = Claim("rank", statements["rank"], Verdict.REFUTED, *refuted)
    return tuple(done[name] for name in asked)


def _rank(statement: str, examples: Examples, entries: Entries, inverse: Inverse) -> Claim:
    tail = Fraction(float(entries.tail.max())) * Fraction(2) ** examples.exponent
    detail = (
        f"{len(examples.stops)} blocks, {len(entries.pairs)} coupled entries beside them, all "
        f"others below {at_most(tail)}; contraction {at_most(inverse.contraction)}"
    )
    return Claim("rank", statement, Verdict.PROVED, detail, evidence=_evidence(examples))


def _evidence(examples: Examples) -> dict[str, str]:
    return {"order": pack(examples.order), "stops": pack(examples.stops)}


def _error(examples: Examples, residuals: Residuals, epsilon: float) -> Claim:
    statement = error.STATEMENT.format(epsilon)
    unit = Fraction(2) ** residuals.exponent
    allowed = Fraction(epsilon) / unit
    # A difference of floats is rounded by a part of itself, which `lower` and 1 - 2^-50 make good.
    least = (residuals.evaluated - residuals.slack) * (1.0 - 2.0**-50)
    surely = least > upper(allowed)
    if surely.any():
        position, entry = first_place(surely)
        example = int(examples.order[position])
        shown = at_least(Fraction(float(least[position, entry])) * unit, epsilon)
        detail = f"at example {example}, |f - y| is {shown} or more"
        witness = (example, entry) if surely.shape[1] > 1 else example
        return Claim("error", statement, Verdict.REFUTED, detail, witness)
    bounds = up(residuals.evaluated + _SLACKS * residuals.slack)
    within = bounds <= lower(allowed)
    if not within.all():
        position = int(np.flatnonzero(~within.all(axis=1))[0])
        worst = float(bounds[position].max())
        shown = at_most(Fraction(worst) * unit) if math.isfinite(worst) else "inf"
        detail = (
            f"at example {examples.order[position]} the bound {shown} in float64 straddles "
            "epsilon; a larger epsilon="
        )
        return Claim("error", statement, Verdict.UNDECIDED, detail)
    bound = at_most(Fraction(float(residuals.bounds.max())) * unit, epsilon)
    detail = f"max |f - y| <= {bound} (float64 with bounds, {len(bounds)} examples)"
    return Claim("error", statement, Verdict.PROVED, detail, evidence={"bound": epsilon.hex()})


def _readout(
    examples: Examples, inverse: Inverse, residuals: Residuals, delta: float | None
) -> Claim:
    with np.errstate(all="ignore"):  # what is not finite proves nothing
        ratio = float(up(residuals.bounds / inverse.weights[:, np.newaxis]).max())
    if not math.isfinite(ratio) or not math.isfinite(inverse.spread):
        detail = "no distance is shown in float64; scale the data, or another seed="
        return Claim("readout", readout.UNKNOWN, Verdict.UNDECIDED, detail)
    # In fractions, as such numbers may be of any size; readouts here are those of f 2^-c from
    # contexts times 2^-a.
    bound = Fraction(inverse.spread) * Fraction(ratio) / (1 - Fraction(inverse.contraction))
    bound *= Fraction(2) ** (residuals.exponent - examples.exponent)
    shown = short_bound(_ROOM * bound) if delta is None else delta
    statement = readout.STATEMENT.format(shown) if math.isfinite(shown) else readout.UNKNOWN
    if not (_ROOM * bound <= shown and math.isfinite(shown)):
        detail = (
            f"a distance of at most {at_most(bound)} is shown, and {_ROOM} times that may be "
            "claimed; a larger delta="
        )
        return Claim("readout", statement, Verdict.UNDECIDED, detail)
    detail = (
        f"distance at most {at_most(bound, shown)} (contraction {at_most(inverse.contraction)})"
    )
    return Claim("readout", statement, Verdict.PROVED, detail, evidence={"bound": shown.hex()})
