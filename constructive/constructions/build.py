"""`build_memorizer`: weights, in five steps, as this file has them from top to bottom.

It chooses a construction by shapes (`choice.py`), builds heads, runs them on all examples (Z),
solves for the readout, and measures the error. Paired heads find their readout without Z, and
tangent heads take steps from weights where all outputs are zero. Where data do not meet what a
construction assumes, or float64 does not carry it, "auto" begins again with the next one.
"""

import dataclasses
import functools
import numbers
import operator
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Literal

import numpy as np

from constructive.constructions import choice, generic
from constructive.constructions.construction import Built, FixedHeads
from constructive.constructions.multihead.assumptions import Survey
from constructive.constructions.multihead.intermediate import operations_of_z, represent
from constructive.constructions.multihead.readout import SolvedReadout, solve
from constructive.data.dataset import Dataset, different_inputs
from constructive.data.shapes import require_examples
from constructive.exact.softmax import NudgedFloats
from constructive.layers import extended, residues
from constructive.layers.extended import MOST_BITS, ExtendedLayer
from constructive.layers.layer import FLOAT64_BITS, AttentionLayer
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import BuildRecord, HeadRecord
from constructive.support.arrays import Array
from constructive.support.errors import (
    AssumptionError,
    CapacityError,
    ConstructiveError,
    ParameterError,
    PrecisionError,
    in_three_parts,
    require_not_negative,
    require_positive,
    require_seed,
)
from constructive.support.work import one_blas_thread, report
from constructive.theory.bounds import Plan, require_heads
from constructive.theory.capacity import seen_in_floats

_NUDGES = 4  # Times that a layer is evaluated with rounding of its own
# Of a larger error than this many times what is left of Z U - Y, the readout is not to blame.
_EATEN = 1e3
_LADDER = (106, 212, 424, 848)  # Bits that precision="auto" tries beyond float64


@in_three_parts
def build_memorizer(
    dataset: Dataset,
    *,
    num_heads: int | None = None,
    head_dim: int | None = None,
    value_dim: int | None = None,
    construction: str = "auto",
    saturated_fraction: float = 0.99,
    tolerance: float = 1e-6,
    precision: int | Literal["auto"] = 53,
    seed: int = 0,
) -> Memorizer:
    """Build weights that memorize a dataset, whatever its targets are.

    The error of the layer on the data is measured before the memorizer is returned. The exception
    are many examples in pairs, where all heads on all examples would take longer than the build and
    10^10 operations: the error is that of an example's own heads then (`BuildRecord.own_heads`),
    and `Memorizer.max_error` evaluates all.

    Args:
        dataset: T examples
        num_heads: H; by default the fewest that hold these data, with some room (`fewest_heads`),
            and which hold them by this construction
        head_dim: d_h; by default n for saturated heads, 1 for rank-one heads and pairs, about half
            of d for tangent heads
        value_dim: d_v, at least d_out, which is the default
        construction: "saturated" (Theorem 1, T <= H(min(n, d_h) - 1) + 1), "rank_one" (Theorem 2,
            T <= H(n - 1) + 1 for every d_h), "generic" (random heads, T <= c(E; H)), "paired" (own
            contexts), whose readout does not cost T^3, "tangent" (Theorem 33), whose heads depend
            on the targets and memorize about d_h times as many examples, or "auto", which
            `explain` explains; where data do not meet what the first choice assumes, or float64
            does not carry it, "auto" goes on to the next
        saturated_fraction: share of the examples off its group on which a head must saturate;
            paired heads saturate on every one, or else solve for what is left
        tolerance: largest error that is handed out, for each entry of the targets relative to the
            largest target there
        precision: bits of the readout. Beyond 53 it is solved in balls, stored as a sum of float64
            arrays, and evaluated in balls (`ExtendedLayer`). "auto": float64 where it meets the
            tolerance, else as many bits as reproduce the targets to float64 accuracy
        seed: of all random choices; the same seed on one machine gives the same bits

    Raises:
        ParameterError: for arguments that make no sense
        CapacityError: for more examples than the construction holds; says how many heads would do
        AssumptionError: for repeated inputs, and for data that do not meet what a construction
            assumes, such as contexts of rank n, or groups of independent queries
        DataError: for equal inputs with different targets
        PrecisionError: if the layer, as it is evaluated, misses the tolerance at this precision;
            or would with other rounding, as heads are too sharp for float64

    Source: Mahdavi, Liao and Thrampoulidis (ICLR 2024), Theorem 1; the others are ours.

    Example:
        >>> from constructive import build_memorizer, generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
        >>> memorizer = build_memorizer(data, num_heads=3)  # T = 7 = H(n - 1) + 1
        >>> bool(abs(memorizer.predict(data.contexts, data.queries) - data.targets).max() < 1e-10)
        True
    """
    require_examples(dataset, Dataset)
    _check(dataset, num_heads, head_dim, value_dim, saturated_fraction, tolerance, precision, seed)
    survey, seed = Survey(dataset), operator.index(seed)
    asked = _asked(value_dim, saturated_fraction, precision)

    failures: list[ConstructiveError] = []
    with one_blas_thread(dataset.largest_product(num_heads or dataset.num_examples)):
        count, _ = choice.heads_for(dataset, num_heads, head_dim, construction)
        for option in choice.options(dataset, count, head_dim, construction, failures):
            rng = np.random.default_rng(seed)
            try:
                plan = choice.accepted(option)
                heads = _heads(survey, plan, asked, saturated_fraction, rng)
                built = heads if isinstance(heads, Built) else _with_readout(survey, heads, rng)
                built = _wider(built, value_dim)
                record = _record(dataset, plan, built, saturated_fraction, seed)
                return _measured(dataset, built, record, precision, tolerance, rng)
            except (AssumptionError, CapacityError, PrecisionError) as error:
                # In balls these heads are as good as any.
                if isinstance(error, PrecisionError) and precision != FLOAT64_BITS:
                    raise
                failures.append(error)
    raise _reason(failures, survey) from None


# What is asked, before anything is computed.


def _check(
    data: Dataset,
    num_heads: int | None,
    head_dim: int | None,
    value_dim: int | None,
    fraction: float,
    tolerance: float,
    precision: int | str,
    seed: int,
) -> None:
    """Raise ParameterError for what makes no sense, and for more heads than memory holds."""
    sizes = {"num_heads": num_heads, "head_dim": head_dim, "value_dim": value_dim}
    require_positive(**{name: size for name, size in sizes.items() if size is not None})
    if not (_is_real(fraction) and 0.0 <= fraction <= 1.0):
        raise ParameterError(
            f"saturated_fraction={fraction!r} is not a share of the examples",
            witness=fraction,
            suggestion="a number from 0 to 1, such as 0.99",
        )
    if not (_is_real(tolerance) and tolerance > 0.0):
        message = f"tolerance={tolerance!r} is not positive"
        raise ParameterError(message, witness=tolerance, suggestion="a number such as 1e-6")
    require_not_negative(tolerance=tolerance)  # and not beyond all floats
    automatic = isinstance(precision, str) and precision == "auto"
    bits = isinstance(precision, int) and not isinstance(precision, bool)
    if not automatic and not (bits and FLOAT64_BITS <= precision <= MOST_BITS):  # type: ignore[operator]
        message = f"precision={precision!r} is not a number of bits"
        suggestion = f"{FLOAT64_BITS} (float64) to {MOST_BITS}, or 'auto'"
        raise ParameterError(message, witness=precision, suggestion=suggestion)
    require_seed(seed)
    choice.require_values(value_dim, data.target_dim)
    if num_heads is not None:
        inner, values = (
            1 if count is None else operator.index(count) for count in (head_dim, value_dim)
        )
        each = data.width * (2 * inner + values)
        require_heads(operator.index(num_heads), data.num_examples, each)


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _asked(
    value_dim: int | None, saturated_fraction: float, precision: int | str
) -> dict[str, object]:
    """Return what is asked of fixed heads alone, and its values."""
    given = {
        "value_dim=": (value_dim, None),
        "saturated_fraction=": (saturated_fraction, 0.99),
        "precision=": (precision, FLOAT64_BITS),
    }
    return {name: value for name, (value, usual) in given.items() if value != usual}


# What is built, and how that is recorded.


def _heads(
    survey: Survey,
    plan: Plan,
    asked: Mapping[str, object],
    saturated_fraction: float,
    rng: np.random.Generator,
) -> Iterable[FixedHeads] | Built:
    """Return the heads of a plan. Raises AssumptionError for what the data do not meet."""
    known = choice.CONSTRUCTIONS[plan.construction]
    choice.require_taken(known, lengths=survey.dataset.lengths is not None, asked=asked)
    fraction = {"saturated_fraction": saturated_fraction} if known.grouped else {}
    found = known.build(survey, plan.num_heads, plan.head_dim, rng=rng, **fraction)
    if isinstance(found, AssumptionError):
        raise found
    return found


def _reason(failures: list[ConstructiveError], survey: Survey) -> ConstructiveError:
    """Return why nothing was built: rounding, before too many examples, before an assumption."""
    kinds = PrecisionError, CapacityError, AssumptionError
    reason = next(error for kind in kinds for error in failures if isinstance(error, kind))
    # What contexts allow counts equal inputs once.
    return (isinstance(reason, CapacityError) and survey.repeated) or reason


def _with_readout(survey: Survey, tried: Iterable[FixedHeads], rng: np.random.Generator) -> Built:
    """Run heads on all examples, and solve for the readout; of several take the best conditioned.

    Raises CapacityError where random heads give Z a rank below T.
    """
    data = survey.dataset

    def solved() -> Iterator[tuple[FixedHeads, Array, SolvedReadout]]:
        for heads in tried:
            z, shares = represent(data, heads)
            report("solve for the readout", 0, 1)
            yield heads, shares, solve(z, data.target_matrix)

    heads, shares, solution = min(solved(), key=lambda found: found[2].condition)
    layer = AttentionLayer.from_effective_readout(
        heads.query_weights, heads.key_weights, solution.effective
    )
    stops, ranks = heads.stops.tolist(), solution.ranks(heads.stops)
    if heads.saturating is None and (
        ranks[-1] < data.num_examples or not solution.condition < generic.DOUBTFUL
    ):
        generic.require_rank(survey, layer, rng)
    sharpness = np.zeros(len(stops)) if heads.sharpness is None else heads.sharpness
    records = zip(pairwise([0, *stops]), sharpness.tolist(), shares.tolist(), ranks, strict=True)
    return Built(
        layer,
        solution.residuals,
        solution.condition,
        tuple(HeadRecord(*group, *measured) for group, *measured in records),
        heads.saturating,
    )


def _wider(built: Built, value_dim: int | None) -> Built:
    """The same with more columns in W_V, which are zero."""
    if value_dim is None:
        return built
    weights = built.layer.query_weights, built.layer.key_weights
    readout = built.layer.value_weights.reshape(-1, built.layer.target_dim)
    wider = AttentionLayer.from_effective_readout(*weights, readout, value_dim)
    return dataclasses.replace(built, layer=wider)


def _record(
    data: Dataset, plan: Plan, built: Built, saturated_fraction: float, seed: int
) -> BuildRecord:
    known = choice.CONSTRUCTIONS[plan.construction]
    return BuildRecord(
        construction=plan.construction,
        num_examples=data.num_examples,
        context_size=data.context_size,
        capacity=plan.capacity,
        seed=seed,
        saturated_fraction=0.0 if built.saturating is None else saturated_fraction,
        scalar_targets=data.targets.ndim == 1,
        condition=built.condition,
        max_error=float(built.residuals.max()),
        largest_target=float(np.abs(data.targets).max()),
        heads=built.heads,
        order=built.order,
        coupled=built.coupled,
        classes=data.classes,
        formula=built.formula or known.formula,
        scale=built.scale,
        theorem=known.theorem,
        grouped=known.grouped,
        free=known.free,
    )


# What is handed out: the first layer whose error, as it is evaluated, is within the tolerance.
#
# Heads may be so sharp that rounding decides their logits, and readouts so large that it decides
# outputs. What float64 evaluates is not the layer then, even if it meets the targets: so it has to
# meet them with other rounding, too.


def _measured(
    data: Dataset,
    built: Built,
    record: BuildRecord,
    precision: int | str,
    tolerance: float,
    rng: np.random.Generator,
) -> Memorizer:
    """Return the memorizer, with a readout of more bits where these are asked for or needed.

    Raises PrecisionError where no readout of the precisions that are asked for is exact enough.
    """
    layer = _finished(built.layer, record)
    if built.labels:  # outputs are scores, and no numbers of the targets
        measured = dataclasses.replace(record, max_error=layer.max_error(data))
        return Memorizer(layer, measured, built.saturating)
    errors = np.full(data.target_dim, np.inf)
    if precision in ("auto", FLOAT64_BITS):
        report("measure the error", 0, 1)
        known = choice.CONSTRUCTIONS[record.construction]
        cost = known.cost(data, layer.num_heads, layer.head_dim).operations
        # Steps of free heads have evaluated them before.
        whole = known.free or operations_of_z(data, layer.num_heads) <= max(cost, choice.QUICK)
        errors = layer.column_errors(data) if whole else built.residuals
        worst = errors
        for seed in range(_NUDGES) if whole else ():
            nudged = functools.partial(NudgedFloats, seed=seed)
            worst = np.maximum(worst, layer.column_errors(data, nudged))
        if (worst <= _allowed(data, tolerance)).all():
            error = float(errors.max())
            measured = dataclasses.replace(record, max_error=error, own_heads=not whole)
            return Memorizer(layer, measured, built.saturating)
        errors = worst
    if precision == FLOAT64_BITS:
        raise _imprecise(data, record, built, errors)
    precisions = _LADDER if precision == "auto" else (int(precision),)
    return _extended(data, built, record, precisions, tolerance, rng)


def _allowed(data: Dataset, tolerance: float) -> Array:
    """Return the largest error of each output (d_out,), in float64."""
    with np.errstate(over="ignore"):  # beyond all floats, so any error that is a number
        allowed: Array = np.float64(tolerance) * np.abs(data.target_matrix).max(axis=0)
    most: Array = np.minimum(allowed, np.finfo(float).max)
    return most


def _extended(
    dataset: Dataset,
    built: Built,
    record: BuildRecord,
    precisions: tuple[int, ...],
    tolerance: float,
    rng: np.random.Generator,
) -> Memorizer:
    """Return the memorizer with the first readout of these precisions that is exact enough."""
    layer = built.layer
    report("solve in balls", 0, 1)
    total = dataset.num_examples
    found = residues.search(layer, dataset, rng)
    if found.rank < total:
        raise PrecisionError(
            f"Z has rank {found.rank} < T={total} modulo {found.tried} primes, probably in truth",
            witness=found.rank,
            suggestion="another seed=, or more heads",
        )
    if len(precisions) > 1:  # "auto": no worse than targets in float64
        tolerance = min(tolerance, 2.0**-FLOAT64_BITS)
    for precision in precisions:
        parts = extended.solve(layer, dataset, found.columns, precision=precision)
        shape = layer.num_heads, layer.width, dataset.target_dim
        values = [np.zeros_like(layer.value_weights) for _ in parts]
        for value, part in zip(values, parts, strict=True):
            value[:, :, : dataset.target_dim] = part.reshape(shape)
        weights = layer.query_weights, layer.key_weights, values[0]
        others = layer.output_weights, layer.readout_weights, np.stack(values[1:])
        solved = _finished(ExtendedLayer(*weights, *others, precision), record)
        errors = solved.column_errors(dataset)
        if (errors <= _allowed(dataset, tolerance)).all():
            error = float(errors.max())
            record = dataclasses.replace(record, max_error=error, precision=precision)
            return Memorizer(solved, record, built.saturating)
    largest = np.abs(dataset.target_matrix).max(axis=0)
    worst = int(np.argmax(errors / np.maximum(largest, np.finfo(float).tiny)))
    more = min(2 * precision, MOST_BITS)
    raise PrecisionError(
        f"a readout of {precision} bits misses the targets of size {largest[worst]:.2g} by up to "
        f"{errors[worst]:.1e}",
        witness={"max_error": float(errors[worst]), "precision": precision},
        suggestion=f"precision={more}"
        if more > precision
        else "more heads, or a larger tolerance=",
    )


def _finished(layer: AttentionLayer, record: BuildRecord) -> AttentionLayer:
    """The layer, with W_O and W_D that are drawn; by random numbers that no build has used."""
    return layer.with_outputs(np.random.default_rng(record.seed).spawn(1)[0])


def _imprecise(
    dataset: Dataset, record: BuildRecord, built: Built, errors: Array
) -> PrecisionError:
    """What to say of a float64 layer that misses a target by more than its share."""
    largest = np.abs(dataset.target_matrix).max(axis=0)
    errors = np.where(np.isnan(errors), np.inf, errors)
    worst = int(np.argmax(errors / np.maximum(largest, np.finfo(float).tiny)))
    error, solved = float(errors[worst]), float(built.residuals[worst])
    sharpest = max((head.sharpness for head in built.heads), default=0.0)
    if sharpest and _EATEN * solved < error:
        return PrecisionError(
            f"float64 cannot carry these {record.construction} heads: the readout was solved to "
            f"{solved:.1e}, but with other rounding of logits the layer misses targets of size "
            f"{largest[worst]:.2g} by up to {error:.1e} (sharpness {sharpest:.0e})",
            witness={"max_error": error, "sharpness": sharpest},
            suggestion="contexts without tokens that differ by rounding alone; "
            "precision='auto'; or construction='generic', whose heads are not sharp",
        )
    free = choice.CONSTRUCTIONS[record.construction].free
    message = (
        f"float64 cannot carry this readout: max error {error:.1e} on targets of size "
        f"{largest[worst]:.2g}; the condition number of {'the derivative' if free else 'Z'} is "
        f"about {built.condition:.0e} (estimate)"
    )
    ways = [] if free else ["precision='auto', a readout beyond float64"]
    seen, inputs = seen_in_floats(dataset), len(different_inputs(dataset))
    if not free and seen.allow(len(built.heads), inputs) < inputs:
        allowed = seen.allow(len(built.heads), inputs)
        message += f"; {seen}, enough for {allowed} of {inputs} examples with these heads"
        ways.append(f"num_heads={seen.heads(inputs)}")
    ranked = dataset.context_size <= dataset.width
    if dataset.shared_context and ranked and record.construction == choice.RANK_ONE.name:
        ways.append(
            "construction='saturated' with head_dim=n, or own contexts: rank-one heads on a shared "
            f"context are ill-conditioned from about n=16 on (here n={dataset.context_size})"
        )
    ways.append("more heads, which lowers the condition number")
    witness = {"max_error": error, "condition": built.condition}
    return PrecisionError(message, witness=witness, suggestion="; ".join(ways))
