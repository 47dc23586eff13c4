"""`build_memorizer` and `explain`: which construction is used, and its weights.

`build_memorizer` is five steps: choose a construction by shapes, build heads, run them on all
examples (Z), solve for the readout, and measure the error. Paired heads find their readout without
Z, and tangent heads take steps from weights where all outputs are zero.

*The choice of "auto"* is `_ORDER`, which docs/api/build.md tells. It begins with the shortest
readouts, as these are the least sensitive to rounding. Of those the heads of Theorem 1 are as well
conditioned as any where contexts are own ones, and far better on a shared one
(docs/performance.md). Operations and bytes are estimates from the leading terms; bytes are beside
the data and the weights.
"""

import bisect
import dataclasses
import functools
import numbers
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Literal

import numpy as np

from constructive.constructions import generic, tangent
from constructive.constructions.construction import (
    SEED,
    Built,
    Construction,
    FixedHeads,
    Found,
    Survey,
    dense_cost,
    operations_of_z,
)
from constructive.constructions.multihead.heads import rank_one, saturated
from constructive.constructions.multihead.intermediate import represent
from constructive.constructions.multihead.readout import SolvedReadout, solve
from constructive.constructions.paired import PAIRED
from constructive.constructions.tangent import TANGENT
from constructive.data.dataset import Dataset, different_inputs
from constructive.data.shapes import ExampleShapes, require_examples
from constructive.exact.softmax import NudgedFloats
from constructive.layers import extended, residues
from constructive.layers.extended import MOST_BITS, ExtendedLayer
from constructive.layers.layer import FLOAT64_BITS, AttentionLayer
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import BuildRecord, HeadRecord
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
from constructive.theory import bounds
from constructive.theory.bounds import Plan, require_heads, require_room
from constructive.theory.capacity import context_capacity, fewest_heads, seen_in_floats
from constructive.theory.free_heads import Dimensions, most_examples


def _of_theorem(of: bounds.TheoremHeads, build: Callable[..., Found]) -> Construction:
    """Return the heads of a theorem."""
    facts = of.name, of.formula, of.theorem, of.plan, dense_cost, build
    return Construction(*facts, dense=True, grouped=True)


SATURATED = _of_theorem(bounds.SATURATED, saturated)
RANK_ONE = _of_theorem(bounds.RANK_ONE, rank_one)
GENERIC = Construction(
    "generic",
    "c(E; H) of generic contexts",
    "Theorem 9",
    generic.plan,
    generic.cost,
    generic.generic,
    dense=True,
    lengths=True,
)
# All constructions. (`constructions.NAMES` is known to the command line, which imports none.)
CONSTRUCTIONS: dict[str, Construction] = {
    known.name: known for known in (SATURATED, RANK_ONE, GENERIC, PAIRED, TANGENT)
}
AUTO = "auto"
# Up to these a dense readout is taken: some seconds on two cores.
CHEAP_OPERATIONS, CHEAP_BYTES = 1e11, 1 << 30

_LENGTHS = "contexts of different lengths"  # as an error has it
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

    The error of the layer on the data is measured before the memorizer is returned. There is one
    exception: where all heads on all examples would take far longer than the build (over 10^10
    operations, of paired and tangent heads), the error is what the construction saw
    (`BuildRecord.own_heads`); `Memorizer.max_error` evaluates all heads.

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

    def built_by(plan: Plan) -> Memorizer | AssumptionError | PrecisionError:
        known, rng = CONSTRUCTIONS[plan.construction], np.random.default_rng(seed)
        refused = refusal(known, lengths=dataset.lengths is not None, asked=asked)
        if refused is not None:
            raise refused
        fraction = {"saturated_fraction": saturated_fraction} if known.grouped else {}
        found = known.build(survey, plan.num_heads, plan.head_dim, rng=rng, **fraction)
        if isinstance(found, AssumptionError):
            return found
        built = found if isinstance(found, Built) else _with_readout(survey, found, rng)
        built = _wider(built, value_dim)
        record = _record(dataset, plan, built, saturated_fraction, seed)
        try:
            return _measured(dataset, built, record, precision, tolerance, rng)
        except PrecisionError as error:
            if precision != FLOAT64_BITS:  # in balls these heads are as good as any
                raise
            return error

    with one_blas_thread(dataset.largest_product(num_heads or dataset.num_examples)):
        heads, _ = heads_for(dataset, num_heads, head_dim, construction)
        try:
            return _first(built_by, dataset, heads, head_dim, construction)
        except CapacityError as error:
            # What contexts allow counts equal inputs once.
            if survey.repeated is not None:
                raise survey.repeated from None
            free = _candidate(TANGENT, dataset, heads, head_dim)
            if construction != AUTO or free.plan is None:
                raise
            # Contexts in special position: fixed heads memorize fewer than their shapes promise.
            try:
                return _first(built_by, dataset, heads, head_dim, TANGENT.name)
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
        data: the examples, or their shapes
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

    data: ExampleShapes
    num_heads: int
    shapes: str
    asked: str
    options: tuple[Candidate, ...]
    chosen: Candidate

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
        sizes = Dimensions.of_shapes(data)
        above = most_examples(self.num_heads, head_dim, sizes, m=data.target_dim)
        return [
            *self._most_of_contexts(),
            "",
            f"  Almost no targets of more than {above:,} examples are returned by any weights with "
            f"d_h = {head_dim} (Theorem 36).",
        ]

    def _most_of_contexts(self) -> list[str]:
        data = self.data
        if not isinstance(data, Dataset):
            return []
        total, columns = data.num_examples, self.num_heads * data.width
        if total**2 * min(total, columns) > _QUICK:
            return ["", "  capacity(dataset, ...) tells what these contexts allow."]
        most = context_capacity(data, self.num_heads, np.random.default_rng(SEED))
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
    heads, why = heads_for(dataset, num_heads, head_dim, construction)
    kind = "one shared context" if dataset.shared_context else "own contexts"
    shapes = (
        f"T = {dataset.num_examples:,}, H = {heads:,}, n = {dataset.context_size}, "
        f"d = {dataset.width}, {kind}{why}"
    )
    look = _looking_at(dataset, heads, head_dim)
    found = tuple(map(look, CONSTRUCTIONS.values()))
    return Explanation(dataset, heads, shapes, construction, found, _choice(construction, look))


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
    _require_values(value_dim, data.target_dim)
    if num_heads is not None:
        inner, values = (
            1 if count is None else operator.index(count) for count in (head_dim, value_dim)
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


def plans(
    shapes: ExampleShapes, num_heads: int, head_dim: int | None, construction: str
) -> Iterator[Plan]:
    """Yield what is built, and what would be if the data do not meet what that assumes.

    Raises CapacityError or ParameterError where nothing can be built. After a named construction
    there is nothing else; "auto" goes on with the later ones whose readout is the shortest.
    """
    look = _looking_at(shapes, num_heads, head_dim)
    chosen = _choice(construction, look)
    yield _accepted(chosen)
    names = [known.name for known in _DENSE]
    if construction == AUTO and chosen.construction in names:
        later = map(look, _DENSE[names.index(chosen.construction) + 1 :])
        yield from (option.plan for option in later if option.plan is not None)


def heads_for(
    shapes: ExampleShapes, num_heads: int | None, head_dim: int | None, construction: str
) -> tuple[int, str]:
    """Return H as an integer of Python, and why it is that, where nobody asked for it."""
    require_known("construction", construction, (AUTO, *CONSTRUCTIONS))
    if num_heads is not None:
        return operator.index(num_heads), ""
    if construction == AUTO:
        return _fewest(shapes)
    known = CONSTRUCTIONS[construction]
    if known is TANGENT:
        heads = tangent.fewest_heads(shapes, head_dim)
        return heads, " (the examples fill four fifths of what so many free heads memorize)"
    # What is built in pieces is too large for a look at all contexts at once; shapes say enough.
    heads, why = (0, "") if known is PAIRED else _fewest(shapes)

    def candidate(count: int) -> Candidate:
        return _candidate(known, shapes, count, head_dim)

    least, most = max(heads, 1), shapes.num_examples
    if isinstance(candidate(least).refusal, CapacityError) and candidate(most).plan is not None:
        held = range(least, most)
        least += bisect.bisect_left(held, 1, key=lambda count: candidate(count).plan is not None)
    if least > heads:
        return least, f" (construction={construction!r} requires that many)"
    return heads, why


def _fewest(dataset: ExampleShapes) -> tuple[int, str]:
    """Return the fewest heads that contexts and values allow, and why no fewer do."""
    if not isinstance(dataset, Dataset):
        raise ParameterError(
            "the fewest heads are known of a Dataset only",
            witness=type(dataset).__name__,
            suggestion="num_heads=, such as constructive.heads_needed(T, context_size=n)",
        )
    report("what contexts allow", 0, 1)
    fewest = fewest_heads(dataset, seed=SEED)
    return fewest.heads, f" ({fewest.reason})"


# One construction: looked at when it is first asked for, and then kept.
_Look = Callable[[Construction], Candidate]


def _looking_at(shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> _Look:
    return functools.cache(lambda known: _candidate(known, shapes, num_heads, head_dim))


def _is_cheap(option: Candidate, _: _Look) -> bool:
    return option.operations <= CHEAP_OPERATIONS and option.memory <= CHEAP_BYTES


def _costs_less(option: Candidate, look: _Look) -> bool:
    """Return whether a dense readout is possible, and always takes more operations."""
    dense = [found for found in map(look, _DENSE) if found.plan is not None]
    return bool(dense) and all(option.operations < found.operations for found in dense)


def _at_any_cost(_: Candidate, __: _Look) -> bool:
    return True


# The choice of "auto": the first one that can be planned, and of which its condition holds.
_DENSE = SATURATED, RANK_ONE, GENERIC
_ORDER = (
    *((known, _is_cheap) for known in _DENSE),
    (PAIRED, _costs_less),
    *((known, _at_any_cost) for known in _DENSE),
    (TANGENT, _at_any_cost),  # more than fixed heads hold
)


def _choice(asked: str, look: _Look) -> Candidate:
    """Return the construction that is asked for, or the choice of "auto"."""
    if asked != AUTO:
        return look(CONSTRUCTIONS[asked])
    for known, holds in _ORDER:
        option = look(known)
        if option.plan is not None and holds(option, look):
            break
    return option


def _accepted(option: Candidate) -> Plan:
    """Return its plan. Raises what refuses it."""
    if option.plan is None:
        raise option.refusal or ParameterError(
            "nothing was planned", suggestion="construction='auto'"
        )
    return option.plan


def _candidate(
    known: Construction, shapes: ExampleShapes, num_heads: int, head_dim: int | None
) -> Candidate:
    """What one construction would do of what planning is asked for."""
    plan: Plan | None = None
    refused: ConstructiveError | None
    refused = refusal(known, lengths=shapes.lengths is not None)
    if refused is None:
        try:
            plan = known.plan(shapes, num_heads, head_dim)
        except (CapacityError, ParameterError) as error:
            refused = error
    return Candidate(known.name, plan, refused, *known.cost(shapes, num_heads, head_dim))


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


def refusal(
    construction: Construction, *, lengths: bool, asked: Mapping[str, object] = MappingProxyType({})
) -> ParameterError | None:
    """Return the error about what a construction does not take, or None.

    lengths: whether contexts have different lengths
    asked: what is asked of fixed heads alone, and its values
    """

    def foreign(known: Construction) -> dict[str, object]:
        found: dict[str, object] = {_LENGTHS: True} if lengths and not known.lengths else {}
        return {**found, **asked} if known.free else found

    found = foreign(construction)
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


def _first(
    built_by: Callable[[Plan], Memorizer | AssumptionError | PrecisionError],
    data: Dataset,
    num_heads: int,
    head_dim: int | None,
    construction: str,
) -> Memorizer:
    """Build by the chosen plan; where the data or float64 do not meet it, by the next one."""
    obstacles: list[AssumptionError] = []
    imprecise: list[PrecisionError] = []
    for plan in plans(data, num_heads, head_dim, construction):
        try:
            found = built_by(plan)
        except CapacityError:
            if imprecise:  # heads hold these examples, but for rounding
                break
            raise
        if isinstance(found, Memorizer):
            return found
        if isinstance(found, PrecisionError):
            imprecise.append(found)
        else:
            obstacles.append(found)
    if imprecise:
        raise imprecise[0]
    if construction == AUTO:  # before an assumption: more examples than fixed heads hold
        require_room(data, num_heads)
    raise obstacles[0]


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
    known = CONSTRUCTIONS[plan.construction]
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
        known = CONSTRUCTIONS[record.construction]
        whole = known.dense or operations_of_z(data, layer.num_heads) <= _QUICK
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
