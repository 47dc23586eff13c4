"""`build_memorizer` and `explain`: which construction is used, and its weights.

Four steps: check what is asked, choose a construction and plan, build, and measure the error.

*The choice of "auto"* is `_choice`: the first construction with the shortest readout that holds the
examples, as long as that is cheap: that of Theorem 1, of Theorem 2, then random heads. Such a
readout is the least sensitive to rounding, and of those the heads of Theorem 1 are as well
conditioned as any where contexts are own ones, and far better on a shared one
(docs/performance.md). Where that is expensive, it takes the applicable construction with the fewest
operations. Operations and bytes are estimates from the leading terms; bytes are beside the data and
the weights.
"""

import bisect
import dataclasses
import functools
import numbers
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from constructive.constructions import tangent
from constructive.constructions.construction import (
    LENGTHS,
    Built,
    Construction,
    Options,
    Survey,
    operations_of_z,
)
from constructive.constructions.dense import RANK_ONE, SATURATED
from constructive.constructions.generic import GENERIC
from constructive.constructions.paired import PAIRED
from constructive.constructions.tangent import TANGENT
from constructive.data.dataset import Dataset, different_inputs
from constructive.data.shapes import ExampleShapes, require_examples
from constructive.exact.softmax import NudgedFloats
from constructive.layers import extended, residues
from constructive.layers.extended import MOST_BITS, ExtendedLayer
from constructive.layers.layer import FLOAT64_BITS
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import BuildRecord, require_float_layer
from constructive.support import tables
from constructive.support.arrays import Array
from constructive.support.errors import (
    AssumptionError,
    CapacityError,
    ConstructiveError,
    ParameterError,
    PrecisionError,
    in_three_parts,
    refuse,
    require_known,
    require_not_negative,
    require_positive,
    require_seed,
    require_size,
)
from constructive.support.work import one_blas_thread, report
from constructive.theory.bounds import Plan, require_heads, require_room
from constructive.theory.capacity import seen_in_floats
from constructive.theory.free_heads import Dimensions, most_examples

# All constructions, in the order in which "auto" tries them. (`constructions.NAMES` is known to the
# command line, which imports none of them.)
CONSTRUCTIONS: dict[str, Construction] = {
    known.name: known for known in (SATURATED, RANK_ONE, GENERIC, PAIRED, TANGENT)
}
AUTO = "auto"
# Up to these a dense readout is taken: some seconds on two cores.
CHEAP_OPERATIONS, CHEAP_BYTES = 1e11, 1 << 30

_QUICK = 1e10  # Operations of an elimination that may be done to print a table: about a second
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

    The error of the layer on the data is measured before the memorizer is returned.

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
    options = Options(
        head_dim=head_dim,
        value_dim=value_dim,
        saturated_fraction=saturated_fraction,
        precision=precision,
        lengths=dataset.lengths is not None,
    )
    _check(dataset, num_heads, options, tolerance, seed)

    with one_blas_thread(dataset.largest_product(num_heads or dataset.num_examples)):
        survey = Survey(dataset)
        heads, _ = heads_for(survey, num_heads, construction, options)
        try:
            seed = operator.index(seed)
            return _build(survey, heads, construction, options, tolerance, seed)
        except CapacityError as error:
            # What contexts allow counts equal inputs once.
            if survey.repeated is not None:
                raise survey.repeated from None
            free = _option(TANGENT, dataset, heads, options)
            if construction != AUTO or free.plan is None:
                raise
            # Contexts in special position: fixed heads memorize fewer than their shapes promise.
            try:
                return _build(survey, heads, TANGENT.name, options, tolerance, seed)
            except CapacityError:
                raise error from None


@dataclass(frozen=True)
class Candidate:
    """One construction: whether it applies to these shapes, and what it would cost.

    Attributes:
        construction: its name
        plan: as it would be built, or None where it does not apply
        refusal: why it does not apply, or None
        operations: an estimate, in floating-point operations
        memory: an estimate, in bytes beside the data and the weights
    """

    construction: str
    plan: Plan | None
    refusal: ConstructiveError | None
    operations: float
    memory: float


@dataclass(frozen=True)
class Explanation:
    """The choice among all constructions. `str` is a table; `plan` is what would be built.

    What a construction holds is promised for data of these shapes that meet what its theorem asks
    for. For a dataset of up to 2,000 examples or so the table also says what its very contexts
    allow with heads that do not depend on the targets (Theorem 8).

    Attributes:
        survey: what is known of the examples, or of their shapes
        num_heads: H
        shapes: of what data, in words
        asked: what was asked for
        options: every construction
        chosen: that which is taken

    Example:
        >>> from constructive import explain, generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5)
        >>> explain(data, num_heads=3).plan.construction
        'saturated'
    """

    survey: Survey
    num_heads: int
    shapes: str
    asked: str
    options: tuple[Candidate, ...]
    chosen: Candidate

    @property
    def data(self) -> ExampleShapes:
        """The examples, or their shapes."""
        data: ExampleShapes = self.survey.dataset
        return data

    @property
    def plan(self) -> Plan:
        """What is built. Raises CapacityError or ParameterError where nothing can be."""
        return _accepted(self.chosen)

    def __str__(self) -> str:
        table = tables.new_table(
            "", "construction", "theorem", "holds", "operations", "memory", "",
            left=("", "construction", "theorem"),
        )  # fmt: skip
        for option in self.options:
            mark = "->" if option is self.chosen and option.plan is not None else ""
            named = option.construction, CONSTRUCTIONS[option.construction].theorem
            if option.plan is None:
                reason = str(option.refusal).splitlines()[0]
                table.add_row(mark, *named, "-", "-", "-", reason)
            else:
                table.add_row(
                    mark,
                    *named,
                    f"{option.plan.capacity:,}",
                    f"{option.operations:.0e}",
                    _bytes(option.memory),
                    "",
                )
        lines = [f"Construction for {self.shapes}; requested: {self.asked}", ""]
        return "\n".join(
            [*lines, *(f"  {line}" for line in tables.lines(table, 118)), *self._most()]
        )

    def _most(self) -> list[str]:
        """What these shapes allow with any weights, and contexts of a dataset with fixed heads."""
        data, plans = self.data, [option.plan for option in self.options]
        head_dim = max((plan.head_dim for plan in plans if plan is not None), default=data.width)
        sizes = Dimensions.of_sizes(
            data.context_size, data.width, shared_context=data.shared_context
        )
        each = min(data.context_size - 1, data.width)
        above = most_examples(self.num_heads, head_dim, sizes, each=each, m=data.target_dim)
        return [
            *self._most_of_contexts(),
            "",
            f"  Almost no targets of more than {above:,} examples are returned by any weights with "
            f"d_h = {head_dim} (Theorem 36).",
        ]

    def _most_of_contexts(self) -> list[str]:
        data = self.survey.dataset
        if not isinstance(data, Dataset):
            return []
        total, columns = data.num_examples, self.num_heads * data.width
        if total**2 * min(total, columns) > _QUICK:
            return ["", "  capacity(dataset, ...) tells what these contexts allow."]
        most = self.survey.capacity(self.num_heads)
        inputs = len(different_inputs(data))
        held = f"{most.upper} of these {inputs}" + (
            " examples" if inputs == total else f" different inputs ({total} examples)"
        )
        why = f": {most.upper} = {most}" if len(most.blamed) else ""
        before = "with heads chosen before the targets (Theorem 8)"
        seen = seen_in_floats(data)
        allowed = seen.allow(self.num_heads, most.upper)
        noise = f"  But {seen}: enough for {allowed}." * (allowed < most.upper)
        return ["", f"  Contexts allow {held} at most {before}{why}.", *[noise] * bool(noise)]


def explain(
    dataset: ExampleShapes,
    *,
    num_heads: int | None = None,
    head_dim: int | None = None,
    value_dim: int | None = None,
    construction: str = "auto",
) -> Explanation:
    """Explain what `build_memorizer` would do with these arguments, and build nothing.

    Operations and memory are estimates from the shapes alone.

    Args:
        dataset: T examples; only their shapes count, if H is given
        num_heads: H; by default the fewest that hold these data, with some room (`fewest_heads`),
            and which hold them by this construction; for "paired" the latter alone, by shapes
        head_dim: d_h; by default what suits each construction
        value_dim: d_v, at least d_out, which is the default
        construction: the name of one, or "auto"

    Raises:
        ParameterError: for an unknown construction, and for a count below 1 or larger than any
            array; `Explanation.plan` raises what says why nothing can be built

    Example:
        >>> from constructive import explain, generators
        >>> data = generators.uniform(num_examples=3101, context_size=32, width=64)
        >>> explain(data, num_heads=100).plan.construction
        'paired'
    """
    sizes = {"num_heads": num_heads, "head_dim": head_dim, "value_dim": value_dim}
    require_size(**{name: size for name, size in sizes.items() if size is not None})
    require_examples(dataset)
    _require_values(value_dim, dataset.target_dim)
    several = dataset.lengths is not None
    options = Options(head_dim, value_dim, lengths=several)
    survey = Survey(dataset)
    heads, why = heads_for(survey, num_heads, construction, options)
    kind = "one shared context" if dataset.shared_context else "own contexts"
    shapes = (
        f"T = {dataset.num_examples:,}, H = {heads:,}, n = {dataset.context_size}, "
        f"d = {dataset.width}, {kind}{why}"
    )
    look = _looking_at(dataset, heads, options)
    found = tuple(map(look, CONSTRUCTIONS.values()))
    return Explanation(survey, heads, shapes, construction, found, _choice(construction, look))


# What is asked, before anything is computed.


def _check(
    data: Dataset,
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
    _require_values(options.value_dim, data.target_dim)
    if num_heads is not None:
        inner, values = (
            1 if count is None else operator.index(count)
            for count in (options.head_dim, options.value_dim)
        )
        each = data.width * (2 * inner + values)
        require_heads(operator.index(num_heads), data.num_examples, each)


def _require_values(value_dim: int | None, target_dim: int) -> None:
    """Raise ParameterError for values that have fewer entries than targets (proofs/18)."""
    if value_dim is not None and value_dim < target_dim:
        raise ParameterError(
            f"value_dim={value_dim} is less than the d_out={target_dim} entries of a target",
            witness=value_dim,
            suggestion=f"value_dim={target_dim} or more",
        )


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


# Which construction is used.


def plans(survey: Survey, num_heads: int, construction: str, options: Options) -> Iterator[Plan]:
    """Yield what is built, and what would be if the data do not meet what that assumes.

    Raises CapacityError or ParameterError where nothing can be built. After a named construction
    there is nothing else; "auto" goes on with the later ones whose readout is the shortest.
    """
    look = _looking_at(survey.dataset, num_heads, options)
    chosen = _choice(construction, look)
    yield _accepted(chosen)
    names = list(CONSTRUCTIONS)
    later = names[names.index(chosen.construction) + 1 :] if construction == AUTO else []
    for known in (CONSTRUCTIONS[name] for name in later):
        plan = look(known).plan if known.has_min_norm_readout else None
        if plan is not None:
            yield plan


def heads_for(
    survey: Survey, num_heads: int | None, construction: str, options: Options
) -> tuple[int, str]:
    """Return H as an integer of Python, and why it is that, where nobody asked for it."""
    require_known("construction", construction, (AUTO, *CONSTRUCTIONS))
    if num_heads is not None:
        return operator.index(num_heads), ""
    if construction == AUTO:
        return _fewest(survey)
    known = CONSTRUCTIONS[construction]
    if known is TANGENT:
        heads = tangent.fewest_heads(survey.dataset, options.head_dim)
        return heads, " (the examples fill four fifths of what so many free heads memorize)"
    # What is built in pieces is too large for a look at all contexts at once; shapes say enough.
    heads, why = (0, "") if known.name == "paired" else _fewest(survey)
    more = _fewest_of(known, survey.dataset, max(heads, 1), options)
    if more > heads:
        return more, f" (construction={construction!r} requires that many)"
    return heads, why


def _fewest(survey: Survey) -> tuple[int, str]:
    """Return the fewest heads that contexts and values allow, and why no fewer do."""
    dataset = survey.dataset
    if not isinstance(dataset, Dataset):
        raise ParameterError(
            "the fewest heads are known of a Dataset only",
            witness=type(dataset).__name__,
            suggestion="num_heads=, such as constructive.heads_needed(T, context_size=n)",
        )
    report("what contexts allow", 0, 1)
    fewest = survey.fewest_heads
    return fewest.heads, f" ({fewest.reason})"


def _fewest_of(
    construction: Construction, shapes: ExampleShapes, least: int, options: Options
) -> int:
    """The fewest heads with which a construction holds the data; `least` if not even T do."""

    def option(count: int) -> Candidate:
        return _option(construction, shapes, count, options)

    most = shapes.num_examples
    if not isinstance(option(least).refusal, CapacityError) or option(most).plan is None:
        return least
    held = range(least, most)
    return least + bisect.bisect_left(held, 1, key=lambda count: option(count).plan is not None)


# One construction, by its name: looked at when it is first asked for, and then kept.
_Look = Callable[[Construction], Candidate]


def _looking_at(shapes: ExampleShapes, num_heads: int, options: Options) -> _Look:
    return functools.cache(lambda known: _option(known, shapes, num_heads, options))


def _choice(asked: str, look: _Look) -> Candidate:
    """Return the construction that is asked for, or the choice of "auto" (see above)."""
    if asked != AUTO:
        return look(CONSTRUCTIONS[asked])
    refused = []
    for known in CONSTRUCTIONS.values():
        if known.has_min_norm_readout:
            first = look(known)
            if first.plan is not None:
                break
            refused.append(first)
    else:
        full = [option for option in refused if isinstance(option.refusal, CapacityError)]
        free = look(TANGENT)
        if full and (free.plan is not None or isinstance(free.refusal, CapacityError)):
            return free
        first = (full or refused)[-1]
    if first.operations <= CHEAP_OPERATIONS and first.memory <= CHEAP_BYTES:
        return first
    pairs = look(PAIRED)
    applicable = [pairs] if pairs.plan is not None else []
    return min([first, *applicable], key=lambda option: option.operations)


def _accepted(option: Candidate) -> Plan:
    """Return its plan. Raises what refuses it."""
    if option.plan is None:
        raise option.refusal or ParameterError(
            "nothing was planned", suggestion="construction='auto'"
        )
    return option.plan


def _option(
    construction: Construction, shapes: ExampleShapes, num_heads: int, options: Options
) -> Candidate:
    """What one construction would do of what planning is asked for."""
    plan: Plan | None = None
    refused: ConstructiveError | None
    refused = refusal(construction, options, planning=True)
    cost = construction.cost(shapes, num_heads, options)
    if refused is None:
        try:
            plan = construction.plan(shapes, num_heads, options)
        except (CapacityError, ParameterError) as error:
            refused = error
    return Candidate(construction.name, plan, refused, *cost)


def refusal(
    construction: Construction, options: Options, *, planning: bool = False
) -> ParameterError | None:
    """Return the error about what a construction does not take, or None.

    planning: whether only what planning asks for counts
    """
    asked = options.asked()

    def foreign(known: Construction) -> dict[str, object]:
        return {name: asked[name] for name in asked if name not in known.options}

    found = foreign(construction)
    if planning:
        found = {name: found[name] for name in found if name == LENGTHS}
    if not found:
        return None
    others = [repr(known.name) for known in CONSTRUCTIONS.values() if not foreign(known)]
    ways = [f"construction={' or '.join(others)}"] if others else []
    return refuse(found, f"construction={construction.name!r}", ways)


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.0f} TB"


# What is built, and how that is recorded.


def _build(
    survey: Survey,
    num_heads: int,
    construction: str,
    options: Options,
    tolerance: float,
    seed: int,
) -> Memorizer:
    """Build by the chosen plan; where the data or float64 do not meet it, by the next one."""
    obstacles: list[AssumptionError] = []
    imprecise: list[PrecisionError] = []
    for plan in plans(survey, num_heads, construction, options):
        rng, chosen = np.random.default_rng(seed), CONSTRUCTIONS[plan.construction]
        refused = refusal(chosen, options)
        if refused is not None:
            raise refused
        try:
            outcome = chosen.build(survey, plan, options, rng=rng)
        except CapacityError:
            if imprecise:  # heads hold these examples, but for rounding
                break
            raise
        if isinstance(outcome, AssumptionError):
            obstacles.append(outcome)
            continue
        record = _record(survey.dataset, plan, outcome, seed)
        try:
            return _measured(survey.dataset, outcome, record, options, tolerance, rng)
        except PrecisionError as error:
            if options.precision != FLOAT64_BITS:  # in balls these heads are as good as any
                raise
            imprecise.append(error)
    if imprecise:
        raise imprecise[0]
    if construction == AUTO:  # before an assumption: more examples than fixed heads hold
        require_room(survey.dataset, num_heads)
    raise obstacles[0]


def _record(
    data: Dataset,
    plan: Plan,
    built: Built,
    seed: int,
) -> BuildRecord:
    known = CONSTRUCTIONS[plan.construction]
    return BuildRecord(
        construction=plan.construction,
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
        classes=data.classes,
        formula=built.formula or known.formula,
        scale=built.scale,
        theorem=known.theorem,
        grouped=known.grouped,
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
    options: Options,
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
    if options.precision in ("auto", FLOAT64_BITS):
        report("measure the error", 0, 1)
        known = CONSTRUCTIONS[record.construction]
        whole = known.has_min_norm_readout or operations_of_z(data, layer.num_heads) <= _QUICK
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
    if options.precision == FLOAT64_BITS:
        raise _imprecise(data, record, built, errors)
    precisions = _LADDER if options.precision == "auto" else (int(options.precision),)
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
    layer = require_float_layer(built.layer, "readouts of more bits")
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
        solved = _finished(ExtendedLayer(leading, np.stack(values[1:]), precision), record)
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


def _finished(layer: Any, record: BuildRecord) -> Any:  # noqa: ANN401 - the kind that is given
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
    free = record.construction == TANGENT.name
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
    if dataset.shared_context and ranked and record.construction == RANK_ONE.name:
        ways.append(
            "construction='saturated' with head_dim=n, or own contexts: rank-one heads on a shared "
            f"context are ill-conditioned from about n=16 on (here n={dataset.context_size})"
        )
    ways.append("more heads, which lowers the condition number")
    witness = {"max_error": error, "condition": built.condition}
    return PrecisionError(message, witness=witness, suggestion="; ".join(ways))
