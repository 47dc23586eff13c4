"""`explain`: which construction is used; all of them, and the order in which "auto" takes them.

*The choice of "auto"* is `_ORDER`, which docs/api/build.md tells. It begins with the shortest
readouts, as these are the least sensitive to rounding. Of those the heads of Theorem 1 are as well
conditioned as any where contexts are own ones, and far better on a shared one
(docs/performance.md). Operations and bytes are estimates from the leading terms; bytes are beside
the data and the weights.
"""

import bisect
import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from constructive.constructions import generic
from constructive.constructions.construction import SEED, Construction
from constructive.constructions.multihead.heads import heads_of
from constructive.constructions.multihead.readout import dense_cost
from constructive.constructions.paired import PAIRED
from constructive.constructions.tangent import TANGENT
from constructive.data.dataset import Dataset, different_inputs
from constructive.data.shapes import ExampleShapes, require_examples
from constructive.support import tables
from constructive.support.errors import (
    AssumptionError,
    CapacityError,
    ConstructiveError,
    ParameterError,
    PrecisionError,
    refuse,
    require_known,
    require_size,
)
from constructive.support.work import report
from constructive.theory import bounds
from constructive.theory.bounds import Plan
from constructive.theory.capacity import context_capacity, fewest_heads, seen_in_floats
from constructive.theory.free_heads import Dimensions, most_examples


def _of_theorem(of: bounds.TheoremHeads) -> Construction:
    """Return the heads of a theorem."""
    build = functools.partial(heads_of, of)
    facts = of.name, of.formula, of.theorem, of.plan, dense_cost, build
    return Construction(*facts, grouped=True)


SATURATED = _of_theorem(bounds.SATURATED)
RANK_ONE = _of_theorem(bounds.RANK_ONE)
GENERIC = Construction(
    "generic",
    "c(E; H) of generic contexts",
    "Theorem 9",
    generic.plan,
    generic.cost,
    generic.generic,
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
QUICK = 1e10  # Operations of an elimination that may be done to print a table: about a second


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
        return accepted(self.chosen)

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
        if total**2 * min(total, columns) > QUICK:
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
    require_values(value_dim, dataset.target_dim)
    heads, why = heads_for(dataset, num_heads, head_dim, construction)
    kind = "one shared context" if dataset.shared_context else "own contexts"
    shapes = (
        f"T = {dataset.num_examples:,}, H = {heads:,}, n = {dataset.context_size}, "
        f"d = {dataset.width}, {kind}{why}"
    )
    look = functools.cache(lambda known: _candidate(known, dataset, heads, head_dim))
    found = tuple(map(look, CONSTRUCTIONS.values()))
    return Explanation(dataset, heads, shapes, construction, found, _choice(construction, look))


def require_values(value_dim: int | None, target_dim: int) -> None:
    """Raise ParameterError for values that have fewer entries than targets (proofs/18)."""
    if value_dim is not None and value_dim < target_dim:
        raise ParameterError(
            f"value_dim={value_dim} is less than the d_out={target_dim} entries of a target",
            witness=value_dim,
            suggestion=f"value_dim={target_dim} or more",
        )


# Which construction is used.


def options(
    shapes: ExampleShapes,
    num_heads: int,
    head_dim: int | None,
    construction: str,
    failures: list[ConstructiveError],
) -> Iterator[Candidate]:
    """Yield what is built, and after each failure what is built instead.

    After a named construction there is nothing else. "auto" goes on with the later ones whose
    readout is the shortest, and then with tangent heads if fixed heads hold too few: contexts in
    special position allow fewer examples than their shapes promise.

    failures: of the options so far, to which the caller adds
    """
    look = functools.cache(lambda known: _candidate(known, shapes, num_heads, head_dim))
    chosen = _choice(construction, look)
    yield chosen
    if construction != AUTO:
        return
    names = [known.name for known in _DENSE]
    later = names.index(chosen.construction) + 1 if chosen.construction in names else len(names)
    yield from (option for option in map(look, _DENSE[later:]) if option.plan is not None)
    free, most = look(TANGENT), look(GENERIC).refusal
    too_few = any(isinstance(error, CapacityError) for error in (most, *failures))
    imprecise = any(isinstance(error, PrecisionError) for error in failures)
    if too_few and not imprecise and free is not chosen and free.plan is not None:
        yield free


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
    heads, why = known.fewest(shapes, head_dim) if known.fewest is not None else _fewest(shapes)

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


def _is_cheap(option: Candidate, _: _Look) -> bool:
    return option.operations <= CHEAP_OPERATIONS and option.memory <= CHEAP_BYTES


def _costs_less(option: Candidate, look: _Look) -> bool:
    """Return whether a dense readout is possible, and always takes more operations."""
    dense = [found for found in map(look, _DENSE) if found.plan is not None]
    return bool(dense) and all(option.operations < found.operations for found in dense)


def _at_any_cost(_: Candidate, __: _Look) -> bool:
    return True


# Fixed heads, whose readout is the shortest one, by factors of a dense Z.
_DENSE = SATURATED, RANK_ONE, GENERIC
# The choice of "auto": the first one that can be planned, and of which its condition holds.
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


def accepted(option: Candidate) -> Plan:
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
    refused: ConstructiveError | None = None
    try:
        require_taken(known, lengths=shapes.lengths is not None)
        plan = known.plan(shapes, num_heads, head_dim)
    except (AssumptionError, CapacityError, ParameterError) as error:
        refused = error
    return Candidate(known.name, plan, refused, *known.cost(shapes, num_heads, head_dim))


def require_taken(
    construction: Construction, *, lengths: bool, asked: Mapping[str, object] = MappingProxyType({})
) -> None:
    """Raise ParameterError for what a construction does not take.

    lengths: whether contexts have different lengths
    asked: what is asked of fixed heads alone, and its values
    """

    def foreign(known: Construction) -> dict[str, object]:
        found: dict[str, object] = {_LENGTHS: True} if lengths and not known.lengths else {}
        return {**found, **asked} if known.free else found

    found = foreign(construction)
    if found:
        others = [repr(known.name) for known in CONSTRUCTIONS.values() if not foreign(known)]
        ways = [f"construction={' or '.join(others)}"] if others else []
        raise refuse(found, f"construction={construction.name!r}", ways)


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.0f} TB"
