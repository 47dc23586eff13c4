"""The claims themselves: *rank*, *error* and *readout* without a T x T matrix."""

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from fractions import Fraction

import numpy as np

from constructive.certificates.claims import error, rank, readout
from constructive.certificates.claims.kind import Subject
from constructive.certificates.claims.paired.entries import Entries, evaluate
from constructive.certificates.claims.paired.examples import Examples, UndecidedError
from constructive.certificates.claims.paired.inverse import Inverse, bound_inverse
from constructive.certificates.claims.paired.readouts import Readouts
from constructive.certificates.claims.paired.residuals import Residuals, residuals_of
from constructive.certificates.claims.paired.scan import Scan
from constructive.data.dataset import Dataset
from constructive.exact.directed import at_least, at_most, lower, short_bound, upper
from constructive.exact.upward import up
from constructive.layers.memorizer import Memorizer
from constructive.support.arrays import first_place
from constructive.support.errors import ParameterError
from constructive.support.progress import report
from constructive.support.verdict import Claim, Verdict, pack

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
        executor=subject.options.executor,
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
    layer, record = memorizer.layer, memorizer.record
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
    *,
    executor: Executor | None = None,
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
        entries = evaluate(examples, scan, executor=executor)
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
        refuted = rank.refute(memorizer.layer.leading, dataset) if "rank" in asked else None
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
