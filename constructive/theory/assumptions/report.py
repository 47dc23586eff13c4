"""All that the theorems ask of a data set, in one report that says how each line is known."""

from concurrent.futures import Executor
from dataclasses import dataclass

from constructive.data.dataset import Dataset
from constructive.data.shapes import require_examples
from constructive.exact.directed import percent
from constructive.support.arguments import require_not_negative, require_positive, require_seed
from constructive.support.errors import in_three_parts
from constructive.support.tables import Sheet, Shown, new_table
from constructive.support.verdict import Verdict
from constructive.theory.assumptions.kruskal import (
    DependentContext,
    KruskalRank,
    dependent_contexts,
    kruskal_rank,
)
from constructive.theory.assumptions.regrouping import Regrouping, regroup
from constructive.theory.assumptions.sampling import (
    SUBSETS,
    Estimate,
    Sample,
    affordable,
    dependent_share,
)
from constructive.theory.bounds import heads_needed

# The d at which an inner product takes as long as what a search does with it besides.
_BESIDE = 256


@dataclass(frozen=True, eq=False)
class Report(Shown):
    """What is known of a data set, and how.

    Attributes:
        count, size, width: T, n and d
        contexts: the contexts of rank below n, with exact dependencies
        kruskal: bounds of the Kruskal rank of the queries
        share: of subsets of n queries, how many are dependent: an estimate (None if T < n)
        position: the same for subsets of min(d, T): general position
        num_heads: H, for which the conditions of the construction were looked at; or None
        regrouping: an order of the examples that meets these conditions, or why there is none;
            None without H
    """

    count: int
    size: int
    width: int
    contexts: tuple[DependentContext, ...]
    kruskal: KruskalRank
    share: Estimate | None
    position: Estimate
    num_heads: int | None
    regrouping: Regrouping | None

    sheet_width = 130

    @property
    def assumption_1(self) -> Verdict:
        """Whether every n queries are independent (all of them, if there are fewer than n)."""
        wanted = min(self.size, self.count)
        if self.kruskal.lower >= wanted:
            return Verdict.PROVED
        return Verdict.REFUTED if self.kruskal.upper < wanted else Verdict.UNDECIDED

    @property
    def assumption_2(self) -> Verdict:
        """Whether every context has rank n."""
        return Verdict.REFUTED if self.contexts else Verdict.PROVED

    @property
    def construction(self) -> Verdict:
        """Whether the examples, in some order, meet what the construction needs."""
        return Verdict.UNDECIDED if self.regrouping is None else self.regrouping.verdict

    def _sheet(self) -> Sheet:
        table = new_table("", "known", "how", fold=True)
        for line in (*self._contexts(), *self._queries(), *self._construction()):
            table.add_row(*line)
        return Sheet(f"Assumptions: T = {self.count}, n = {self.size}, d = {self.width}", (), table)

    def _contexts(self) -> list[tuple[str, str, str]]:
        name = "Assumption 2: contexts of rank n"
        if not self.contexts:
            return [(name, "PROVED: all contexts", "exact")]
        first = self.contexts[0]
        known = (
            f"REFUTED: {len(self.contexts)} fail; example {first.example}: tokens {first.tokens}"
        )
        return [(name, known, "exact")]

    def _queries(self) -> list[tuple[str, str, str]]:
        name = f"Assumption 1: Kruskal rank >= {min(self.size, self.count)}"
        found = self.kruskal
        lines = [(name, f"{self.assumption_1.name}: at least {found.lower}", "proved bound")]
        if found.exact:
            lines = [(name, f"{self.assumption_1.name}: it is {found.lower}", "exact")]
        if found.lower:
            lines[0] = (*lines[0][:2], f"{lines[0][2]} ({found.argument})")
        if found.violation:
            known = f"at most {found.upper}: {found.violation}"
            lines.append(("", known, "exact"))
        if found.near_miss:
            lines.append(("", f"independent by a hair: {found.near_miss}", "exact"))
        for estimate in (self.share, self.position):
            if estimate is not None:
                known = (
                    f"{estimate.dependent} of {estimate.subsets} random subsets of "
                    f"{estimate.size} dependent: share "
                    f"{percent(estimate.low, 3, above=False)} to {percent(estimate.high, 3)}"
                )
                name = "" if estimate is self.share else "General position"
                lines.append((name, known, f"estimate ({100 * estimate.confidence:.6g}%)"))
                if estimate.undecided:
                    lines.append(("", f"{estimate.undecided} of these not decided", "budget"))
        return lines

    def _construction(self) -> list[tuple[str, str, str]]:
        if self.regrouping is None or self.num_heads is None:
            return []
        known = f"{self.regrouping.verdict.name}: {self.regrouping.detail}"
        if self.regrouping.dependency is not None:
            known += f"; {self.regrouping.dependency}"
        how = "search" if self.regrouping.verdict is Verdict.UNDECIDED else "exact"
        return [(f"Grouping for H = {self.num_heads}", known, how)]


@in_three_parts
def check(
    dataset: Dataset,
    num_heads: int | None = None,
    *,
    subsets: int | None = None,
    confidence: float = 0.99,
    budget: float = 1.0,
    seed: int = 0,
    executor: Executor | None = None,
) -> Report:
    """Check the assumptions of the theorems on a data set.

    What is exact is exact for the floats as they are: rounding has no part in it.

    Args:
        dataset: T examples, contexts (T, n, d) or one shared (n, d)
        num_heads: H, for the conditions of the construction; by default the fewest that Theorem 2
            allows for T examples (with n = 1 and T > 1 there are none, and nothing is asked)
        subsets: how many random ones are drawn for an estimate; by default the paper's 5,000, and
            fewer of a size at which the budget does not allow so many
        confidence: of the estimates, between 0 and 1; by default the paper's 99 %
        budget: 1.0 allows half a minute for 10,000 queries of d = 64, and about as much for random
            subsets of any d; 10.0 ten times as much
        seed: of all random choices
        executor: where the random subsets are decided (`constructive.support.parallel`); None for
            here

    Raises:
        CapacityError: if T is more than H(n - 1) + 1
        ParameterError: unless H and the number of subsets are positive, for a confidence that is
            not between 0 and 1, a negative budget or seed, and what is not an executor

    Source: Mahdavi, Liao and Thrampoulidis (ICLR 2024), Assumptions 1 and 2 and section 3.

    Example:
        >>> from constructive import assumptions, generators
        >>> data = generators.integers(num_examples=7, context_size=3, width=5)
        >>> queries = data.queries.copy()
        >>> queries[4] = queries[0] - queries[6]
        >>> report = assumptions.check(Dataset(data.contexts, queries, data.targets))
        >>> print(report.kruskal.violation)
        [0] - [4] - [6] = 0
        >>> report.assumption_1.name, report.assumption_2.name, report.construction.name
        ('REFUTED', 'PROVED', 'PROVED')
    """
    require_examples(dataset, Dataset)
    require_positive(subsets=SUBSETS if subsets is None else subsets)
    require_not_negative(budget=budget)
    require_seed(seed)
    total, size, width = dataset.num_examples, dataset.context_size, dataset.width
    if num_heads is None and (size > 1 or total == 1):
        num_heads = heads_needed(total, context_size=size)
    regrouping = None
    if num_heads is not None:
        regrouping = regroup(dataset, num_heads, seed=seed)

    def estimate(count: int) -> Estimate:
        sample = Sample(subsets or SUBSETS)
        if subsets is None:
            sample = affordable(dataset.queries, count, budget=budget, seed=seed)
        return dependent_share(
            dataset.queries, count,
            subsets=sample, confidence=confidence, seed=seed, executor=executor)  # fmt: skip

    return Report(
        count=total,
        size=size,
        width=width,
        contexts=dependent_contexts(dataset, seed=seed),
        kruskal=kruskal_rank(
            dataset.queries,
            size,
            budget=2e8 * budget,
            search_budget=6e9 * budget * min(1.0, (_BESIDE + 64) / (_BESIDE + width)),
            seed=seed,
        ),
        share=estimate(size) if total >= size else None,
        position=estimate(min(width, total)),
        num_heads=num_heads,
        regrouping=regrouping,
    )
