"""Which construction is used: what each would hold and cost, and the choice of "auto".

    saturated   heads of Theorem 1, the shortest readout by a dense factorization of Z
    rank_one    heads of Theorem 2, the same readout
    paired      own contexts: heads in pairs, and a small system for each pair (`decoupled.pairs`)
    schur       one shared context: heads of Theorem 1, a system of size 2H (`decoupled.schur`)

Operations and bytes are estimates from the leading terms, to compare constructions with; bytes are
beside the data and the weights. "auto" takes the theorem's own construction with the dense readout
as long as that is cheap, because its readout is the shortest and its predictions are the least
sensitive to rounding; beyond that it takes the applicable construction with the fewest operations.
"""

from dataclasses import dataclass, replace
from typing import get_args

from rich.table import Table

from constructive import capacity, tables
from constructive.capacity import Construction, Plan
from constructive.dataset import ExampleShapes
from constructive.errors import CapacityError, ConstructiveError, ParameterError

CHEAP_OPERATIONS, CHEAP_BYTES = 1e11, 1 << 30
"""Up to these a dense readout is taken: some seconds on two cores."""

_SWEEP = 60
"""Operations an example for each sweep over angles (`decoupled.sweep`), or so."""


@dataclass(frozen=True)
class Option:
    """One construction: whether it applies to these shapes, and what it would cost.

    plan: as it would be built; None where it does not apply, and refusal says why not
    operations, memory: estimates, in floating-point operations and in bytes
    """

    construction: Construction
    plan: Plan | None
    refusal: ConstructiveError | None
    operations: float
    memory: float


@dataclass(frozen=True)
class Explanation:
    """The choice among all constructions. `str` is a table; `plan` is what would be built.

    >>> from constructive import explain, generators
    >>> data = generators.uniform(num_examples=7, context_size=3, width=5)
    >>> explain(data, num_heads=3).plan.construction
    'saturated'
    """

    shapes: str
    asked: str
    options: tuple[Option, ...]
    chosen: Option

    @property
    def plan(self) -> Plan:
        """What is built. Raises CapacityError or ParameterError where nothing can be."""
        if self.chosen.plan is None:
            if self.chosen.refusal is None:
                raise ParameterError("nothing was planned", suggestion="construction='auto'")
            raise self.chosen.refusal
        return self.chosen.plan

    def __str__(self) -> str:
        table = Table(box=None, pad_edge=False)
        for heading in ("", "construction", "holds", "operations", "memory", ""):
            table.add_column(
                heading, justify="right" if heading in ("holds", "operations", "memory") else "left"
            )
        for option in self.options:
            mark = "->" if option is self.chosen else ""
            if option.plan is None:
                reason = str(option.refusal).splitlines()[0]
                table.add_row(mark, option.construction, "-", "-", "-", reason)
            else:
                table.add_row(
                    mark,
                    option.construction,
                    f"{option.plan.capacity:,}",
                    f"{option.operations:.0e}",
                    _bytes(option.memory),
                    "",
                )
        lines = [f"Construction for {self.shapes}; asked for {self.asked}", ""]
        return "\n".join([*lines, *(f"  {line}" for line in tables.lines(table, 118))])


def explain(
    dataset: ExampleShapes,
    *,
    num_heads: int,
    head_dim: int | None = None,
    construction: str = "auto",
) -> Explanation:
    """What `build_memorizer` would do with these arguments, and why; nothing is built.

    Operations and memory are estimates from the shapes alone (see `constructive.planning`).

    Raises ParameterError for an unknown construction or a count below 1.

    >>> from constructive import explain, generators
    >>> data = generators.uniform(num_examples=3101, context_size=32, width=64)
    >>> explain(data, num_heads=100).plan.construction
    'paired'
    """
    names = get_args(Construction)
    if construction not in ("auto", *names):
        message = f"unknown construction={construction!r}"
        suggestion = f"one of 'auto', {', '.join(map(repr, names))}"
        raise ParameterError(message, witness=construction, suggestion=suggestion)
    capacity.require_positive(num_heads=num_heads)
    if head_dim is not None:
        capacity.require_positive(head_dim=head_dim)
    options = {name: _option(name, dataset, num_heads, head_dim) for name in names}
    chosen = options[construction] if construction != "auto" else _cheapest(options)
    kind = "one shared context" if dataset.shared_context else "own contexts"
    shapes = (
        f"T = {dataset.num_examples:,}, H = {num_heads:,}, n = {dataset.context_size}, "
        f"d = {dataset.width}, {kind}"
    )
    return Explanation(shapes, construction, tuple(options.values()), chosen)


def _cheapest(options: dict[Construction, Option]) -> Option:
    """The choice of "auto" (see above)."""
    dense = options["saturated"] if options["saturated"].plan is not None else options["rank_one"]
    if dense.plan is None:
        return _beyond_the_theorem(dense, options["paired"])
    if dense.operations <= CHEAP_OPERATIONS and dense.memory <= CHEAP_BYTES:
        return dense
    applicable = [dense, *(options[name] for name in ("paired", "schur"))]
    return min(
        (option for option in applicable if option.plan is not None),
        key=lambda option: option.operations,
    )


def _beyond_the_theorem(dense: Option, paired: Option) -> Option:
    """Nothing by itself: "auto" promises what the theorems do, and names pairs that would hold."""
    if paired.plan is None or not isinstance(dense.refusal, CapacityError):
        return dense
    refusal = CapacityError(
        dense.refusal.problem,
        witness=dense.refusal.witness,
        suggestion=f"construction='paired', which holds {paired.plan.capacity} examples with "
        f"generic contexts of their own; {dense.refusal.suggestion}",
    )
    return replace(dense, refusal=refusal)


def _option(
    name: Construction, dataset: ExampleShapes, num_heads: int, head_dim: int | None
) -> Option:
    plan, refusal = None, None
    try:
        if name == "paired":
            plan = _paired(dataset, num_heads, head_dim)
        elif name == "schur":
            plan = _schur(dataset, num_heads, head_dim)
        else:
            plan = capacity.plan(
                num_examples=dataset.num_examples,
                context_size=dataset.context_size,
                num_heads=num_heads,
                head_dim=head_dim,
                construction=name,
            )
    except (CapacityError, ParameterError) as error:
        refusal = error
    return Option(name, plan, refusal, *_cost(name, dataset, num_heads))


def _paired(dataset: ExampleShapes, num_heads: int, head_dim: int | None) -> Plan:
    if dataset.shared_context:
        raise ParameterError(
            "construction='paired' needs own contexts: on a shared one the rows of a pair lie in a "
            f"space of n - 1 = {dataset.context_size - 1} dimensions",
            witness="one shared context",
            suggestion="construction='schur'",
        )
    if dataset.context_size == 1:
        raise ParameterError(
            "construction='paired' needs contexts with n >= 2 tokens",
            witness=dataset.context_size,
            suggestion="construction='saturated', which holds one example here",
        )
    holds = paired_capacity(num_heads, dataset.width)
    plan = Plan("paired", num_heads, 1 if head_dim is None else head_dim, holds)
    if dataset.num_examples > holds:
        needed = 2 * max(1, -(-(dataset.num_examples - 1) // max(dataset.width - 1, 1)))
        suggestion = f"num_heads={needed}"
        dense = capacity.rank_one_capacity(num_heads, dataset.context_size)
        if dense >= dataset.num_examples:
            suggestion += f"; construction='saturated', which holds {dense} with these heads"
        formula = f"(H // 2)(d - 1) + 1 = {holds}" if num_heads > 1 else "none: one head is no pair"
        raise CapacityError(
            f"{dataset.num_examples} examples are too many for {num_heads} heads in pairs: a pair "
            f"takes at most d - 1 = {dataset.width - 1}, so all hold {formula}",
            witness=dataset.num_examples,
            suggestion=suggestion,
        )
    return plan


def _schur(dataset: ExampleShapes, num_heads: int, head_dim: int | None) -> Plan:
    if not dataset.shared_context:
        raise ParameterError(
            "construction='schur' needs one shared context",
            witness="own contexts",
            suggestion="construction='paired', or contexts of shape (n, d)",
        )
    if dataset.context_size == 1:
        raise ParameterError(
            "construction='schur' needs a context with n >= 2 tokens",
            witness=dataset.context_size,
            suggestion="construction='saturated', which holds one example here",
        )
    plan = capacity.plan(
        num_examples=dataset.num_examples,
        context_size=dataset.context_size,
        num_heads=num_heads,
        head_dim=dataset.context_size + 1 if head_dim is None else head_dim,
        construction="saturated",
    )
    return Plan("schur", num_heads, plan.head_dim, plan.capacity)


def paired_capacity(num_heads: int, width: int) -> int:
    """How many examples with contexts of their own paired heads hold: (H // 2)(d - 1) + 1.

    For 2(n - 1) <= d - 1 and an even H that includes the H(n - 1) + 1 of the theorems. Unlike
    these it needs blocks in general position, which are checked when they are built
    (`decoupled.pairs`). One head makes no pair, and holds none.

    >>> paired_capacity(num_heads=1000, width=64)
    31501
    """
    capacity.require_positive(num_heads=num_heads, width=width)
    return (num_heads // 2) * (width - 1) + 1 if num_heads > 1 else 0


def _cost(name: Construction, dataset: ExampleShapes, heads: int) -> tuple[float, float]:
    """Operations and bytes, leading terms."""
    total, size, width = dataset.num_examples, dataset.context_size, dataset.width
    if name == "paired":
        sweep = total * heads / 2 * (2 * 4 * width + _SWEEP)
        return sweep + 4.0 * total * width**2, 8.0 * total * (4 * width + 2 * size)
    if name == "schur":
        sweep = total * heads * (2 * width * (size + 3) + _SWEEP)
        return sweep + 4.0 * heads**3, total * heads + 48.0 * heads**2 + 8.0 * total * (
            width + size
        )
    columns = heads * width
    keys = size if dataset.shared_context else width + size
    forward = 2.0 * total * columns * (keys + size)
    return forward + 2.0 * total**2 * columns + total**3 / 3, 8.0 * total * (columns + total)


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.0f} TB"
