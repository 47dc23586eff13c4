"""`build_memorizer`: arguments in, a memorizer out whose error was measured.

Four steps: check what is asked, plan, build, and measure.
"""

import dataclasses
import numbers
import operator
from typing import Any, Literal

import numpy as np

from constructive.constructions.construction import (
    FLOAT,
    LABELS,
    RATIONAL,
    TARGETS,
    Built,
    Options,
    Survey,
)
from constructive.constructions.planning import AUTO, CONSTRUCTIONS, heads_for, plans, refusal
from constructive.data.dataset import Dataset
from constructive.data.rational import RationalDataset
from constructive.data.shapes import require_examples
from constructive.layers import extended, residues
from constructive.layers.extended import MOST_BITS, ExtendedLayer
from constructive.layers.layer import FLOAT64_BITS
from constructive.layers.memorizer import Memorizer
from constructive.layers.rational import RationalLayer
from constructive.layers.record import BuildRecord, Layer, require_float_layer
from constructive.support.arrays import Array
from constructive.support.errors import (
    AssumptionError,
    ParameterError,
    PrecisionError,
    in_three_parts,
    require_known,
    require_not_negative,
    require_positive,
    require_seed,
)
from constructive.support.work import one_blas_thread, report
from constructive.theory.bounds import RANK_ONE, Plan, require_heads
from constructive.theory.values import require_room

_LADDER = (106, 212, 424, 848)  # Bits that precision="auto" tries beyond float64


@in_three_parts
def build_memorizer(
    dataset: Dataset | RationalDataset,
    *,
    num_heads: int | None = None,
    head_dim: int | None = None,
    value_dim: int | None = None,
    construction: str = "auto",
    fit: Literal["targets", "labels"] = "targets",
    shared_keys: bool = False,
    saturated_fraction: float = 0.99,
    tolerance: float = 1e-6,
    precision: int | Literal["auto"] = 53,
    arithmetic: Literal["float", "rational"] = "float",
    exact_logits: bool = False,
    seed: int = 0,
) -> Memorizer:
    """Build weights that memorize a data set, whatever its targets are.

    The error on the data is measured before the memorizer is returned.

    Args:
        dataset: T examples
        num_heads: H; by default the fewest that hold these data, with some room (`fewest_heads`),
            and which hold them by this construction
        head_dim: d_h; by default n for saturated heads, 1 for rank-one heads and pairs
        value_dim: d_v; by default d_out. Below that fewer examples can have any labels
            (`value_bounds`), and "narrow_values" is built
        construction: "saturated" (Theorem 1, T <= H(min(n, d_h) - 1) + 1), "rank_one" (Theorem 2,
            T <= H(n - 1) + 1 for every d_h; Theorem 10, H(d - 1) + 1 with contexts of their own),
            "generic" (random heads, T <= c(E; H)), "narrow_values" (random heads, d_v < d_out),
            "paired" (own contexts), whose readout does not cost T^3, or "auto", which `explain`
            explains; where data do not meet what the first choice assumes, "auto" goes on to the
            next
        fit: "labels" for a readout with which the output of each label is only the largest one, by
            1 or so, for data from `Dataset.of_classes`: random heads hold random labels of nearly
            2Hd examples then (`labelings`). By default the fewest heads that do so most likely
        shared_keys: whether all heads score tokens along one key direction (pairs always do)
        saturated_fraction: share of the examples off its group on which a head must saturate;
            paired heads saturate on every one, or else solve for what is left
        tolerance: largest error that is handed out, for each entry of the targets relative to the
            largest target there; not of labels
        precision: bits of the readout. Beyond 53 it is solved in balls, stored as a sum of float64
            arrays, and evaluated in balls (`ExtendedLayer`). "auto": float64 where it meets the
            tolerance, else as many bits as reproduce the targets to float64 accuracy
        arithmetic: "rational" for weights from small integers, for integer or short rational data;
            then predictions are Fractions, and each == its target (`RationalLayer`)
        exact_logits: W_Q and W_K of so few bits that float32 makes no error in any logit on these
            data, which have to be integers or short dyadic numbers; for random heads. Bounds of
            the claim *executed* are smaller then
        seed: of all random choices; the same seed on one machine gives the same bits

    Raises:
        ParameterError: for arguments that make no sense
        CapacityError: for more examples than the construction holds; says how many heads would do.
            For labels that no readout of the heads has
        AssumptionError: for repeated inputs, and for data that do not meet what a construction
            assumes, such as contexts of rank n, or groups of independent queries
        DataError: for equal inputs with different targets, and for data of too many bits for
            exact_logits
        PrecisionError: if the readout misses the tolerance at this precision

    Source: Mahdavi, Liao and Thrampoulidis (ICLR 2024), Theorem 1; the others are ours.

    Example:
        >>> from constructive import build_memorizer, generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
        >>> memorizer = build_memorizer(data, num_heads=3)  # T = 7 = H(n - 1) + 1
        >>> bool(abs(memorizer.predict(data.contexts, data.queries) - data.targets).max() < 1e-10)
        True
    """
    data = _in_arithmetic(dataset, arithmetic)
    options = Options(
        head_dim=head_dim,
        value_dim=value_dim,
        arithmetic=arithmetic,
        exact_logits=exact_logits,
        fit=fit,
        shared_keys=shared_keys,
        saturated_fraction=saturated_fraction,
        precision=precision,
        lengths=data.lengths is not None,
    )
    _check(data, num_heads, options, tolerance, seed)

    with one_blas_thread(data.largest_product(num_heads or data.num_examples)):
        survey = Survey(data)
        heads, _ = heads_for(survey, num_heads, construction, options)
        plan, built, rng = _build(survey, heads, construction, options, operator.index(seed))
        record = _record(data, dataset.classes, plan, built, operator.index(seed))
        return _measured(data, built, record, options, tolerance, rng)


# What is asked, before anything is computed.


def _in_arithmetic(dataset: Dataset | RationalDataset, arithmetic: str) -> Any:  # noqa: ANN401
    """Return the data in that arithmetic. Raises ParameterError where they are none."""
    require_known("arithmetic", arithmetic, (FLOAT, RATIONAL))
    rational = isinstance(dataset, RationalDataset)
    require_examples(dataset)
    if arithmetic == RATIONAL and not rational:
        return RationalDataset(dataset.contexts, dataset.queries, dataset.targets)
    if rational and arithmetic != RATIONAL:
        raise ParameterError(
            "the data are rational, the arithmetic is not",
            witness=arithmetic,
            suggestion=f"arithmetic={RATIONAL!r}, or a Dataset",
        )
    return dataset


def _check(
    data: Any,  # noqa: ANN401 - in its arithmetic
    num_heads: int | None,
    options: Options,
    tolerance: float,
    seed: int,
) -> None:
    """Raise ParameterError for what makes no sense, and for more heads than memory holds."""
    fraction, precision = options.saturated_fraction, options.precision
    sizes = {
        "num_heads": num_heads, "head_dim": options.head_dim, "value_dim": options.value_dim,
    }  # fmt: skip
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
    _check_fit(data, options)
    if num_heads is not None:
        inner, values = (
            1 if count is None else operator.index(count)
            for count in (options.head_dim, options.value_dim)
        )
        each = data.width * (2 * inner + values)
        require_heads(operator.index(num_heads), data.num_examples, each)


def _check_fit(data: Any, options: Options) -> None:  # noqa: ANN401 - in its arithmetic
    """Raise ParameterError for labels that are not there, or that are to have more bits."""
    require_known("fit", options.fit, (TARGETS, LABELS))
    if options.fit == TARGETS:
        return
    if len(data.classes) < 2:
        raise ParameterError(
            f"fit={LABELS!r} is for data with two classes or more, not {len(data.classes)}",
            witness=data.classes,
            suggestion="Dataset.of_classes(contexts, queries, labels)",
        )
    if options.precision != FLOAT64_BITS:
        raise ParameterError(
            f"fit={LABELS!r} has a readout in float64",
            witness=options.precision,
            suggestion="no precision=, or fit='targets'",
        )
    if options.value_dim is not None and options.value_dim < data.target_dim:
        raise ParameterError(
            f"fit={LABELS!r} needs values of d_v >= {data.target_dim}, one number for each class",
            witness=options.value_dim,
            suggestion="no value_dim=",
        )


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


# What is built, and how that is recorded.


def _build(
    survey: Survey, num_heads: int, construction: str, options: Options, seed: int
) -> tuple[Plan, Built, np.random.Generator]:
    """Build by the chosen plan, or where the data do not meet what it assumes by the next one."""
    obstacles: list[AssumptionError] = []
    for plan in plans(survey, num_heads, construction, options):
        rng, chosen = np.random.default_rng(seed), CONSTRUCTIONS[plan.construction]
        refused = refusal(chosen, options, survey.dataset.target_dim)
        if refused is not None:
            raise refused
        outcome = chosen.build(survey, plan, options, rng=rng)
        if isinstance(outcome, Built):
            return plan, outcome, rng
        obstacles.append(outcome)
    if construction == AUTO:  # before an assumption: more examples than any weights hold
        require_room(survey.dataset, num_heads)
    raise obstacles[0]


def _record(
    data: Any,  # noqa: ANN401 - in its arithmetic
    classes: Any,  # noqa: ANN401 - of the data
    plan: Plan,
    built: Built,
    seed: int,
) -> BuildRecord:
    known = CONSTRUCTIONS[plan.construction]
    return BuildRecord(
        construction=plan.construction,
        shared_keys=built.shared_keys,
        num_examples=data.num_examples,
        context_size=data.context_size,
        capacity=plan.capacity,
        seed=seed,
        saturated_fraction=built.fraction,
        scalar_targets=data.targets.ndim == 1,
        condition=built.condition,
        max_error=float(built.residuals.max()),
        largest_target=float(np.abs(data.targets).max()),
        heads=built.heads,
        order=built.order,
        coupled=built.coupled,
        classes=classes,
        formula="2(C - 1) c(E; H)" if built.lead else known.formula,
        theorem="Proposition 31" if built.lead else known.theorem,
        grouped=known.grouped,
        lead=built.lead,
    )


# What is handed out: the first readout whose measured error is within the tolerance.


def _measured(
    data: Any,  # noqa: ANN401 - in its arithmetic
    built: Built,
    record: BuildRecord,
    options: Options,
    tolerance: float,
    rng: np.random.Generator,
) -> Memorizer:
    """Return the memorizer, with a readout of more bits where these are asked for or needed.

    Raises PrecisionError where no readout of the precisions that are asked for is exact enough.
    """
    if built.lead:
        return _finished(built.layer, record)
    carried = bool((built.residuals <= _allowed(data, tolerance)).all())
    precisions: tuple[int, ...] = ()
    if options.precision == "auto":
        precisions = () if carried else _LADDER
    elif isinstance(options.precision, int) and options.precision > FLOAT64_BITS:
        precisions = (options.precision,)
    if precisions:
        return _extended(data, built.layer, record, precisions, tolerance, rng)
    if not carried:
        narrow = options.value_dim is not None and options.value_dim < data.target_dim
        raise _imprecise(data, record, built, narrow=narrow)
    return _finished(built.layer, record)


def _allowed(data: Any, tolerance: float) -> Array:  # noqa: ANN401 - in its arithmetic
    """Return the largest error of each output (d_out,), in float64 whatever the data are."""
    with np.errstate(over="ignore"):  # beyond all floats, so any error that is a number
        allowed: Array = np.float64(tolerance) * np.abs(data.target_matrix).max(axis=0)
    most: Array = np.minimum(allowed, np.finfo(float).max)
    return most


def _extended(
    dataset: Dataset,
    of_floats: Layer,
    record: BuildRecord,
    precisions: tuple[int, ...],
    tolerance: float,
    rng: np.random.Generator,
) -> Memorizer:
    """Return the memorizer with the first readout of these precisions that is exact enough."""
    layer = require_float_layer(of_floats, "readouts of more bits")
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
        leading = dataclasses.replace(layer, value_weights=values[0])
        solved = ExtendedLayer(leading, np.stack(values[1:]), precision)
        errors = solved.column_errors(dataset)
        if (errors <= _allowed(dataset, tolerance)).all():
            error = float(errors.max())
            record = dataclasses.replace(record, max_error=error, precision=precision)
            return _finished(solved, record)
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


def _finished(layer: Layer, record: BuildRecord) -> Memorizer:
    """The memorizer, with W_O and W_D that are drawn; by random numbers that no build has used."""
    if not isinstance(layer, RationalLayer):  # which stores the effective readout
        layer = layer.with_outputs(np.random.default_rng(record.seed).spawn(1)[0])
    return Memorizer(layer, record)


def _imprecise(
    dataset: Dataset, record: BuildRecord, built: Built, *, narrow: bool
) -> PrecisionError:
    """What to say of a float64 readout that misses a target by more than its share."""
    largest = np.abs(dataset.target_matrix).max(axis=0)
    worst = int(np.argmax(built.residuals / np.maximum(largest, np.finfo(float).tiny)))
    error = float(built.residuals[worst])
    message = (
        f"float64 cannot carry this readout: max error {error:.1e} on targets of size "
        f"{largest[worst]:.2g}; the condition number of Z is about "
        f"{built.condition:.0e} (estimate)"
    )
    ways = ["precision='auto', a readout beyond float64"]
    if narrow:  # whose corrections W_V could not hold
        ways = [f"value_dim={dataset.target_dim}"]
    ranked = dataset.context_size <= dataset.width
    if dataset.shared_context and ranked and record.construction == RANK_ONE.name:
        ways.append(
            "construction='saturated' with head_dim=n, or own contexts: rank-one heads on a shared "
            f"context are ill-conditioned from about n=16 on (here n={dataset.context_size})"
        )
    ways.append("more heads, which lowers the condition number")
    witness = {"max_error": error, "condition": built.condition}
    return PrecisionError(message, witness=witness, suggestion="; ".join(ways))
