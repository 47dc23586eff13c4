"""`build_memorizer`: arguments in, a memorizer out whose error was measured."""

import dataclasses
import numbers
import operator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Literal

import numpy as np

from constructive.constructions.construction import FLOAT, RATIONAL, Built, Options, Survey
from constructive.constructions.planning import AUTO, Explanation, explain_survey, refusal
from constructive.constructions.registry import CONSTRUCTIONS
from constructive.data.dataset import Dataset
from constructive.data.rational import RationalDataset
from constructive.data.shapes import require_examples
from constructive.layers import extended, residues
from constructive.layers.attention import FLOAT64_BITS, AttentionLayer
from constructive.layers.extended import MOST_BITS, ExtendedLayer
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import BuildRecord, Layer, require_float_layer
from constructive.support.arguments import (
    as_path,
    require_known,
    require_not_negative,
    require_positive,
    require_seed,
)
from constructive.support.arrays import Array
from constructive.support.errors import (
    AssumptionError,
    ParameterError,
    PrecisionError,
    in_three_parts,
)
from constructive.support.parallel import require_executor
from constructive.support.progress import report
from constructive.theory.bounds import Plan, require_heads
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
    shared_keys: bool = False,
    saturated_fraction: float = 0.99,
    tolerance: float = 1e-6,
    precision: int | Literal["auto"] = 53,
    arithmetic: Literal["float", "rational"] = "float",
    exact_logits: bool = False,
    seed: int = 0,
    executor: Executor | None = None,
    checkpoint: str | Path | None = None,
) -> Memorizer:
    """Build weights that memorize a data set, whatever its targets are.

    The error on the data is measured before the memorizer is returned.

    Args:
        dataset: T examples
        num_heads: H; by default the fewest that hold these data, with some room (`fewest_heads`),
            and which hold them by this construction
        head_dim: d_h; by default n for saturated heads, 1 for rank-one heads.
            Pairs are of full rank if d_h exceeds the examples of each head, else of rank one
        value_dim: d_v; by default d_out. Below that fewer examples can have any labels
            (`value_bounds`), and "narrow_values" is built
        construction: "saturated" (Theorem 1, T <= H(min(n, d_h) - 1) + 1), "rank_one" (Theorem 2,
            T <= H(n - 1) + 1 for every d_h; Theorem 10, H(d - 1) + 1 with contexts of their own),
            "generic" (random heads, T <= c(E; H)), "narrow_values" (random heads, d_v < d_out),
            "paired" (own contexts), whose readout does not cost T^3, or "auto", which `explain`
            explains; where data do not meet what the first choice assumes, "auto" goes on to the
            next
        shared_keys: whether all heads score tokens along one key direction (pairs always do)
        saturated_fraction: share of the examples off its group on which a head must saturate;
            paired heads saturate on every one, or else solve for what is left
        tolerance: largest error that is handed out, for each entry of the targets relative to the
            largest target there
        precision: bits of the readout. Beyond 53 it is solved in balls, stored as a sum of float64
            arrays, and evaluated in balls (`ExtendedLayer`). "auto": float64 where it meets the
            tolerance, else as many bits as reproduce the targets to float64 accuracy
        arithmetic: "rational" for weights from small integers, for integer or short rational data;
            then predictions are Fractions, and each == its target (`RationalLayer`)
        exact_logits: W_Q and W_K of so few bits that float32 makes no error in any logit on these
            data, which have to be integers or short dyadic numbers; for random heads. Bounds of
            the claim *executed* are smaller then
        seed: of all random choices; the same seed on one machine gives the same bits
        executor: where pieces of a construction that has some ("paired") are built, in other
            processes or on other machines; None for here. The weights are the same bits. Its
            processes read the data from a folder: that of `checkpoint`, or of temporary files
        checkpoint: a folder that keeps the finished pieces of such a construction; a build that
            was ended, however, goes on from there, to the same bits

    Raises:
        ParameterError: for arguments that make no sense, an executor or a checkpoint where there
            are not pieces, and a checkpoint of other data or arguments
        FormatError: for a checkpoint that is damaged
        OutputError: for one that cannot be written
        CapacityError: for more examples than the construction holds; says how many heads would do
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
    sizes = {"num_heads": num_heads, "head_dim": head_dim, "value_dim": value_dim}
    require_positive(**{name: size for name, size in sizes.items() if size is not None})
    _check_parameters(saturated_fraction, tolerance, precision, seed)
    seed = operator.index(seed)  # as records keep it
    if num_heads is None:
        report("what contexts allow", 0, 1)
    else:
        _require_heads(data, num_heads, head_dim, value_dim)
    options = Options(
        head_dim,
        value_dim,
        arithmetic,
        exact_logits,
        shared_keys,
        saturated_fraction,
        precision,
        executor,
        None if checkpoint is None else as_path(checkpoint),
        data.lengths is not None,
    )
    survey = Survey(data)
    explained = explain_survey(survey, num_heads, construction, options)
    if executor is not None:
        require_executor(executor)
    plan, built, rng = _first_built(survey, explained, options, seed)
    known = CONSTRUCTIONS[plan.construction]
    record = BuildRecord(
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
        classes=dataset.classes,
        formula=known.formula,
        theorem=known.theorem,
        grouped=known.grouped,
    )
    carried = bool((built.residuals <= _allowed(data, tolerance)).all())
    precisions: tuple[int, ...] = ()
    if precision == "auto":
        precisions = () if carried else _LADDER
    elif precision > FLOAT64_BITS:
        precisions = (precision,)
    if not precisions:
        if not carried:
            narrow = value_dim is not None and value_dim < data.target_dim
            raise _imprecise(data, plan, built, narrow=narrow)
        return _finished(built.layer, record)
    layer = require_float_layer(built.layer, "readouts of more bits")
    report("solve in balls", 0, 1)
    return _extended(data, layer, record, precisions, tolerance, rng)


def _allowed(data: Any, tolerance: float) -> Array:  # noqa: ANN401 - in its arithmetic
    """Return the largest error of each output (d_out,), in float64 whatever the data are."""
    with np.errstate(over="ignore"):  # beyond all floats, so any error that is a number
        allowed: Array = np.float64(tolerance) * np.abs(data.target_matrix).max(axis=0)
    most: Array = np.minimum(allowed, np.finfo(float).max)
    return most


def _require_heads(
    data: Any,  # noqa: ANN401 - in its arithmetic
    num_heads: int,
    head_dim: int | None,
    value_dim: int | None,
) -> None:
    """Require that weights of so many heads, of these dimensions, fit into memory."""
    inner, values = (
        1 if count is None else operator.index(count) for count in (head_dim, value_dim)
    )
    each = data.width * (2 * inner + values)
    require_heads(operator.index(num_heads), data.num_examples, each)


def _first_built(
    survey: Survey, explained: Explanation, options: Options, seed: int
) -> tuple[Plan, Built, np.random.Generator]:
    """Build by the chosen plan, or where the data do not meet what it assumes by the next one."""
    obstacles: list[AssumptionError] = []
    for plan in explained.plans:
        rng, chosen = np.random.default_rng(seed), CONSTRUCTIONS[plan.construction]
        refused = refusal(chosen, options, survey.dataset.target_dim)
        if refused is not None:
            raise refused
        outcome = chosen.build(survey, plan, options, rng=rng)
        if isinstance(outcome, Built):
            return plan, outcome, rng
        obstacles.append(outcome)
    if explained.asked == AUTO:  # before an assumption: more examples than any weights hold
        require_room(survey.dataset, explained.num_heads)
    raise obstacles[0]


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


def _extended(
    dataset: Dataset,
    layer: AttentionLayer,
    record: BuildRecord,
    precisions: tuple[int, ...],
    tolerance: float,
    rng: np.random.Generator,
) -> Memorizer:
    """Return the memorizer with the first readout of these precisions that is exact enough."""
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
    return Memorizer(layer.with_outputs(np.random.default_rng(record.seed).spawn(1)[0]), record)


def _check_parameters(
    saturated_fraction: float, tolerance: float, precision: object, seed: int
) -> None:
    if not (_is_real(saturated_fraction) and 0.0 <= saturated_fraction <= 1.0):
        message = f"saturated_fraction={saturated_fraction!r} is not a share of the examples"
        raise ParameterError(
            message, witness=saturated_fraction, suggestion="a number from 0 to 1, such as 0.99"
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


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _imprecise(dataset: Dataset, plan: Plan, built: Built, *, narrow: bool) -> PrecisionError:
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
    of_theorem = plan.rank_one and CONSTRUCTIONS[plan.construction].grouped
    if dataset.shared_context and ranked and of_theorem:
        ways.append(
            "construction='saturated' with head_dim=n, or own contexts: rank-one heads on a shared "
            f"context are ill-conditioned from about n=16 on (here n={dataset.context_size})"
        )
    ways.append("more heads, which lowers the condition number")
    witness = {"max_error": error, "condition": built.condition}
    return PrecisionError(message, witness=witness, suggestion="; ".join(ways))
