"""Which construction is used: what each would hold and cost, and the choice of "auto".

Operations and bytes are estimates from the leading terms, to compare constructions with; bytes are
beside the data and the weights. "auto" takes the first construction with the shortest readout that
holds the examples, as long as that is cheap: that of Theorem 1, of Theorem 2, then random heads.
Such a readout is the least sensitive to rounding, and of those the heads of Theorem 1 are as well
conditioned as any where contexts are own ones, and far better on a shared one
(docs/performance.md). Where that is expensive, it takes the applicable construction with the fewest
operations.
"""

import bisect
import functools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from constructive.constructions.construction import (
    FLOAT,
    LABELS,
    PLANNED,
    RATIONAL,
    Construction,
    Options,
    Survey,
)
from constructive.constructions.dense import RANK_ONE, SATURATED
from constructive.constructions.generic import GENERIC, NARROW_VALUES
from constructive.constructions.paired import PAIRED
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes, require_examples
from constructive.support import tables
from constructive.support.errors import (
    CapacityError,
    ConstructiveError,
    ParameterError,
    refuse,
    require_known,
    require_size,
)
from constructive.support.work import report
from constructive.theory.bounds import Plan
from constructive.theory.labelings import heads_for_labels
from constructive.theory.values import heads_for_values

# All constructions, in the order in which "auto" tries them. (`constructions.NAMES` is known to the
# command line, which imports none of them.)
CONSTRUCTIONS: dict[str, Construction] = {
    known.name: known for known in (SATURATED, RANK_ONE, GENERIC, NARROW_VALUES, PAIRED)
}
AUTO = "auto"
# Up to these a dense readout is taken: some seconds on two cores.
CHEAP_OPERATIONS, CHEAP_BYTES = 1e11, 1 << 30


_QUICK = 1e10  # Operations of an elimination that may be done to print a table: about a second


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
    for. For a data set of up to 2,000 examples or so the table says what its very contexts allow,
    too (Theorem 8).

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
            mark = "->" if option is self.chosen else ""
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
        """What the contexts of a data set allow, whatever the weights are."""
        data = self.survey.dataset
        if not isinstance(data, Dataset):
            return []
        total, columns = data.num_examples, self.num_heads * data.width
        if total**2 * min(total, columns) > _QUICK:
            return ["", "  exact_capacity(dataset, num_heads) tells what these contexts allow."]
        most = self.survey.capacity(self.num_heads)
        held = f"{most.upper} of these {total} examples"
        why = f" = {most}" if len(most.blamed) else ""
        return ["", f"  Contexts allow {held} at most, whatever the weights are{why} (Theorem 8)."]


def explain(
    dataset: ExampleShapes,
    *,
    num_heads: int | None = None,
    head_dim: int | None = None,
    value_dim: int | None = None,
    construction: str = "auto",
    arithmetic: str = "float",
    exact_logits: bool = False,
) -> Explanation:
    """Explain what `build_memorizer` would do with these arguments, and build nothing.

    Operations and memory are estimates from the shapes alone.

    Args:
        dataset: T examples; only their shapes count, if H is given
        num_heads: H; by default the fewest that hold these data, with some room (`fewest_heads`),
            and which hold them by this construction; for "paired" the latter alone, by shapes
        head_dim: d_h; by default what suits each construction
        value_dim: d_v; by default d_out
        construction: the name of one, or "auto"
        arithmetic: "float" or "rational"
        exact_logits: whether float32 must make no error in logits

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
    require_known("arithmetic", arithmetic, (FLOAT, RATIONAL))
    several = dataset.lengths is not None
    options = Options(head_dim, value_dim, arithmetic, exact_logits=exact_logits, lengths=several)
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
    if options.fit == LABELS:
        heads = heads_for_labels(survey.dataset)
        return heads, " (random labels of so many examples are attained then, most likely)"
    if construction == AUTO:
        return _fewest(survey, options.value_dim)
    known = CONSTRUCTIONS[construction]
    # What is built in pieces is too large for a look at all contexts at once; shapes say enough.
    heads, why = (0, "") if known.name == "paired" else _fewest(survey, options.value_dim)
    more = _fewest_of(known, survey.dataset, max(heads, 1), options)
    if more > heads:
        return more, f" (construction={construction!r} requires that many)"
    return heads, why


def _fewest(survey: Survey, value_dim: int | None) -> tuple[int, str]:
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
    if value_dim is not None and value_dim < dataset.target_dim:
        more = heads_for_values(dataset, value_dim)
        if more is not None and more > fewest.heads:
            return more, f" (values of d_v={value_dim} entries require that many)"
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
        first = (full or refused)[-1]
    if first.operations <= CHEAP_OPERATIONS and first.memory <= CHEAP_BYTES:
        return first
    others = [look(known) for known in CONSTRUCTIONS.values() if not known.has_min_norm_readout]
    applicable = [option for option in others if option.plan is not None]
    return min([first, *applicable], key=lambda option: option.operations)


def _accepted(option: Candidate) -> Plan:
    """Return its plan. Raises what refuses it."""
    if option.refusal is not None:
        raise option.refusal
    if option.plan is None:
        raise ParameterError("nothing was planned", suggestion="construction='auto'")
    return option.plan


def _option(
    construction: Construction, shapes: ExampleShapes, num_heads: int, options: Options
) -> Candidate:
    """What one construction would do of what planning is asked for."""
    plan, refused = None, refusal(construction, options, shapes.target_dim, planning=True)
    cost = construction.cost(shapes, num_heads, options)
    if refused is None:
        try:
            plan = construction.plan(shapes, num_heads, options)
        except (CapacityError, ParameterError) as error:
            return Candidate(construction.name, None, error, *cost)
    return Candidate(construction.name, plan, refused, *cost)


def refusal(
    construction: Construction, options: Options, target_dim: int, *, planning: bool = False
) -> ParameterError | None:
    """Return the error about what a construction does not take, or None.

    planning: whether only what planning asks for counts
    """
    arithmetic, asked = options.arithmetic, options.asked(target_dim)

    def foreign(known: Construction) -> dict[str, object]:
        takes = known.options.get(arithmetic)
        if takes is None:
            return {"arithmetic=": arithmetic}
        return {name: asked[name] for name in asked if name not in takes}

    found = foreign(construction)
    if planning:
        found = {name: found[name] for name in found if name in PLANNED or name not in asked}
    if not found:
        return None
    others = [repr(known.name) for known in CONSTRUCTIONS.values() if not foreign(known)]
    kind = f"construction={construction.name!r}"
    if arithmetic != FLOAT and arithmetic in construction.options:
        kind += f" with arithmetic={arithmetic!r}"
    return refuse(found, kind, [f"construction={' or '.join(others)}"] if others else [])


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.0f} TB"
