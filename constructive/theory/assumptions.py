"""What the theorems ask of a dataset: proved, refuted with exact witnesses, or estimated.

`check` writes one report that says how each line is known. The estimate in it is of how many random
subsets of queries are dependent: of 5,000, with a Clopper-Pearson interval of 99 %, as in the
paper. Each sampled subset is decided exactly, by the cheapest proof that holds
(`exact.dyadic.decide`), or counted as undecided; what is estimated is the share among all subsets.

Source: Mahdavi, Liao and Thrampoulidis (ICLR 2024), section 3, for the protocol; Clopper and
Pearson (Biometrika 1934) for the interval.

Example:
    >>> from constructive import assumptions, generators
    >>> data = generators.uniform(num_examples=7, context_size=3, width=5)
    >>> assumptions.check(data).assumption_1.name
    'PROVED'
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from rich.table import Table

from constructive import checker
from constructive.data.dataset import Dataset
from constructive.data.shapes import require_examples
from constructive.exact import dyadic, modular
from constructive.exact.directed import percent
from constructive.support.arrays import Array, Booleans, Integers, checked_matrix, row_chunks
from constructive.support.errors import (
    ParameterError,
    in_three_parts,
    is_integer,
    require_not_negative,
    require_positive,
    require_seed,
    shown,
)
from constructive.support.tables import Sheet, Shown, new_table
from constructive.support.verdict import Claim, Evidence, Verdict, pack
from constructive.support.work import counted, in_pieces, report, workers
from constructive.theory.bounds import RANK_ONE, Groups, consecutive, group_sizes, heads_needed
from constructive.theory.kruskal import (
    DependentContext,
    KruskalRank,
    dependent_contexts,
    kruskal_rank,
)

__all__ = [
    "AssumptionReport",
    "DependentContext",
    "Estimate",
    "KruskalRank",
    "check",
    "dependent_contexts",
    "dependent_share",
    "kruskal_rank",
]

# How many random subsets of vectors are dependent: an estimate.


SUBSETS = 5000  # The number of subsets of the paper
CONFIDENCE = 0.99  # And the probability that an interval holds the share
_FEWEST = 100  # Subsets that are drawn whatever the budget is
_SECONDS = 30.0  # What a budget of 1.0 allows, on one core or two.
_MOST = 10**9  # Subsets beyond which nobody waits for the estimate
_PILOT = 8  # Subsets, none of the sample, which tell how others will be decided
_CHOLESKY = 25e9  # Multiplications a second, of Gram matrices and their factorizations
_DRAWN = 1e-4  # Seconds of a subset beside that
_ELIMINATION = 5.0  # How many times as long elimination modulo a prime takes
_EXACT = 1e-8  # Seconds of exact elimination of a k x k matrix, in units of k^3


@dataclass(frozen=True)
class Estimate:
    """Of `subsets` random subsets of `size` vectors, `dependent` were dependent (exactly).

    Attributes:
        size: the number of vectors in a subset
        subsets: how many subsets were drawn
        dependent: how many of these were dependent
        undecided: how many of these were not decided
        low, high: the Clopper-Pearson interval of the share, of 99 %; where subsets are undecided,
            whatever they are
        witness: the first dependent subset that was drawn (its indices), or None
    """

    size: int
    subsets: int
    dependent: int
    undecided: int
    low: float
    high: float
    witness: tuple[int, ...] | None


def affordable(vectors: Array, size: int, *, budget: float = 1.0, seed: int = 0) -> tuple[int, int]:
    """Return how many subsets of a size are drawn, and how many exact elimination may decide.

    At most 5,000 subsets are, and at least 100. It follows from T, d, the size of subsets, and from
    how a few subsets are decided which are not among the sample: not from a clock. So a sample can
    be drawn again, and its size has nothing to do with what is found in it.

    A budget of 1.0 allows about half a minute.
    """
    vectors = _checked(vectors, size)
    require_not_negative(budget=budget)
    require_seed(seed)
    rng = np.random.default_rng([seed, size])
    width = vectors.shape[1]
    seconds = _DRAWN + size * size * (width + size / 3) / _CHOLESKY
    if size > dyadic.BATCHED:
        drawn = vectors[_draw(len(vectors), size, _PILOT, rng)]
        if 2 * np.count_nonzero(dyadic.independent_in_floats(dyadic.scaled_rows(drawn))) < _PILOT:
            seconds *= 1.0 + _ELIMINATION
    allowed = _SECONDS * budget
    subsets = max(_FEWEST, int(min(allowed / seconds, SUBSETS)))
    return subsets, int(min(allowed / (_EXACT * float(size) ** 3), SUBSETS))


def dependent_share(
    vectors: Array,
    size: int,
    *,
    subsets: int = SUBSETS,
    exact: int | None = None,
    seed: int = 0,
) -> Estimate:
    """Estimate the share of dependent subsets among those of `size` of the vectors (T, d).

    Args:
        vectors: T vectors of d entries, (T, d)
        size: the number of vectors in a subset, 1 to T
        subsets: how many are drawn
        exact: how many of these exact elimination may decide where nothing else does; others stay
            undecided; by default all
        seed: of the subsets

    Raises:
        DataError: for what is not a matrix of real numbers
        ParameterError: for a size beyond T, no subsets, or a negative seed

    Example:
        >>> plane = np.random.default_rng(0).integers(-9, 9, size=(40, 2)).astype(float)
        >>> dependent_share(plane, 3, subsets=100).dependent
        100
    """
    require_positive(subsets=subsets)
    if subsets > _MOST:
        raise ParameterError(
            f"subsets={shown(subsets)} would take days",
            witness=shown(subsets),
            suggestion=f"subsets <= {_MOST}",
        )
    require_seed(seed)
    vectors = _checked(vectors, size)
    parts = [part.stop - part.start for part in row_chunks(subsets, 8 * size * vectors.shape[1])]
    batches = list(zip(parts, np.random.SeedSequence(seed).spawn(len(parts)), strict=True))
    scaled = None if _all_dependent(vectors, size) else dyadic.scaled_rows(vectors)
    judge = partial(_dependent_among, vectors, scaled, size)
    pieces = in_pieces(judge, batches, subsets * size**3.0)
    judged = list(counted(f"random subsets of {size}", pieces, len(batches)))
    drawn, undecided = (np.concatenate(found) for found in zip(*judged, strict=True))
    pending = np.flatnonzero(undecided)[:exact]
    full_ranks = in_pieces(lambda i: dyadic.has_full_rank(vectors[drawn[i]]), pending.tolist())
    decided = list(counted(f"dependent subsets of {size}", full_ranks, len(pending)))
    dependent = ~undecided
    dependent[pending] = np.logical_not(decided)
    undecided[pending] = False
    wrong, unknown = int(dependent.sum()), int(undecided.sum())
    low, _ = clopper_pearson(wrong, subsets, CONFIDENCE)
    _, high = clopper_pearson(wrong + unknown, subsets, CONFIDENCE)
    witness = tuple(sorted(drawn[dependent.argmax()].tolist())) if wrong else None
    return Estimate(size, subsets, wrong, unknown, low, high, witness)


def _checked(vectors: Array, size: int) -> Array:
    vectors = checked_matrix("vectors", vectors)
    if not is_integer(size) or not 1 <= size <= len(vectors):
        raise ParameterError(
            f"{len(vectors)} vectors have no subsets of {size}",
            witness=size,
            suggestion=f"a size from 1 to {len(vectors)}",
        )
    return vectors


def _draw(total: int, size: int, number: int, rng: np.random.Generator) -> Integers:
    """Return random subsets (number, size) of `total` vectors."""
    return np.stack([rng.choice(total, size, replace=False) for _ in range(number)])


def _all_dependent(vectors: Array, size: int) -> bool:
    """Whether a combination of all columns is known to be zero, so that no d are independent."""
    if (
        size != vectors.shape[1]
        or dyadic.independent_in_floats(dyadic.scaled_rows(vectors[:size])[np.newaxis])[0]
    ):
        return False
    columns = dyadic.seemingly_dependent(vectors.T)
    return columns is not None and dyadic.kernel(vectors[:, columns]).ncols() > 0


def _dependent_among(
    vectors: Array,
    scaled: Array | None,
    size: int,
    batch: tuple[int, np.random.SeedSequence],
) -> tuple[Integers, Booleans]:
    """Return, of a number of random subsets, the dependent and undecided ones, and which are these.

    scaled: the vectors as `independent_in_floats` takes them; None where all subsets are dependent
    """
    number, seed = batch
    rng = np.random.default_rng(seed)
    drawn = _draw(len(vectors), size, number, rng)
    if scaled is None:
        return drawn, np.zeros(number, dtype=bool)
    found = dyadic.decide(vectors[drawn], rng, scaled=scaled[drawn], most=0)
    return drawn[~found.independent], ~found.dependent[~found.independent]


def clopper_pearson(hits: int, trials: int, confidence: float) -> tuple[float, float]:
    """Return the exact confidence interval of a probability."""
    from scipy.special import betaincinv  # noqa: PLC0415 - for the tables of assumptions only

    tail = (1.0 - confidence) / 2.0
    low = float(betaincinv(hits, trials - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, trials - hits, 1.0 - tail)) if hits < trials else 1.0
    return low, high


# The report.


_LOOKED_AT = 1e5  # Subsets of queries that a budget of 1.0 allows, beside the random ones


@dataclass(frozen=True, eq=False)
class AssumptionReport(Shown):
    """What is known of a dataset, and how.

    Attributes:
        count, size, width: T, n and d
        contexts: the contexts of rank below n, with exact dependencies
        kruskal: bounds of the Kruskal rank of the queries
        share: of subsets of n queries, how many are dependent: an estimate (None if T < n)
        position: the same for subsets of min(d, T): general position
        num_heads: H, for which the conditions of the construction were looked at; or None
        grouping: whether the examples, in the order given, meet these conditions; None without H
    """

    count: int
    size: int
    width: int
    contexts: tuple[DependentContext, ...]
    kruskal: KruskalRank
    share: Estimate | None
    position: Estimate
    num_heads: int | None
    grouping: Claim | None

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
        """Whether the examples, in the order given, meet what the construction needs."""
        return Verdict.UNDECIDED if self.grouping is None else self.grouping.verdict

    def _sheet(self) -> Sheet:
        table = new_table("", "known", "how", fold=True)
        known = "PROVED: all contexts"
        if self.contexts:
            first = self.contexts[0]
            failing = f"{len(self.contexts)} fail; example {first.example}: tokens {first.tokens}"
            known = f"REFUTED: {failing}"
        table.add_row("Assumption 2: contexts of rank n", known, "exact")
        found = self.kruskal
        known, how = f"at least {found.lower}", "proved bound"
        if found.exact:
            known, how = f"it is {found.lower}", "exact"
        name = f"Assumption 1: Kruskal rank >= {min(self.size, self.count)}"
        table.add_row(name, f"{self.assumption_1.name}: {known}", how)
        if found.violation:
            table.add_row("", f"at most {found.upper}: {found.violation}", "exact")
        if self.share is not None:
            _add_estimate(table, "", self.share)
        _add_estimate(table, "General position", self.position)
        if self.grouping is not None:
            known = f"{self.grouping.verdict.name}: {self.grouping.detail}"
            table.add_row(f"Grouping for H = {self.num_heads}", known, "exact")
        return Sheet(f"Assumptions: T = {self.count}, n = {self.size}, d = {self.width}", (), table)


def _add_estimate(table: Table, name: str, found: Estimate) -> None:
    known = (
        f"{found.dependent} of {found.subsets} random subsets of {found.size} dependent: share "
        f"{percent(found.low, 3, above=False)} to {percent(found.high, 3)}"
    )
    table.add_row(name, known, f"estimate ({CONFIDENCE:.0%})")
    if found.undecided:
        table.add_row("", f"{found.undecided} of these not decided", "budget")


@in_three_parts
def check(
    dataset: Dataset,
    num_heads: int | None = None,
    *,
    subsets: int | None = None,
    budget: float = 1.0,
    seed: int = 0,
) -> AssumptionReport:
    """Check the assumptions of the theorems on a dataset.

    What is exact is exact for the floats as they are: rounding has no part in it.

    Args:
        dataset: T examples, contexts (T, n, d) or one shared (n, d)
        num_heads: H, for the conditions of the construction; by default the fewest that Theorem 2
            allows for T examples (with n = 1 and T > 1 there are none, and nothing is asked)
        subsets: how many random ones are drawn for an estimate; by default the paper's 5,000, and
            fewer of a size at which the budget does not allow so many
        budget: 1.0 allows half a minute for 10,000 queries of d = 64, and about as much for random
            subsets of any d; 10.0 ten times as much
        seed: of all random choices

    Raises:
        CapacityError: if T is more than H(n - 1) + 1
        ParameterError: unless H and the number of subsets are positive, for a negative budget or
            seed

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
    claim = None
    if num_heads is not None:
        RANK_ONE.plan(dataset, num_heads)  # or refuse
        groups = consecutive(group_sizes(total, num_heads))
        claim = prove_grouping(dataset, groups, np.random.default_rng(seed))

    def estimate(count: int) -> Estimate:
        drawn, exact = subsets, None
        if drawn is None:
            drawn, exact = affordable(dataset.queries, count, budget=budget, seed=seed)
        return dependent_share(dataset.queries, count, subsets=drawn, exact=exact, seed=seed)

    share = estimate(size) if total >= size else None
    known = kruskal_rank(dataset.queries, size, budget=_LOOKED_AT * budget, seed=seed)
    if known.violation is None and share is not None and share.witness is not None:
        known = replace(known, violation=dyadic.dependency(dataset.queries, share.witness))
    return AssumptionReport(
        count=total,
        size=size,
        width=width,
        contexts=dependent_contexts(dataset, seed=seed),
        kruskal=known,
        share=share,
        position=estimate(min(width, total)),
        num_heads=num_heads,
        grouping=claim,
    )


# The claim *grouping*, of Theorems 1 and 2, says:
#
# - Every context has rank n.
# - The queries of every group S are independent.
# - But for the first head, no query of another group lies in the span of S. (The first head takes r
#   examples, one more than the others, and has no earlier example to saturate on.)
#
# *Proof modulo a prime p.* Scale the data by a power of two, so that they are integers. A matrix of
# rank k modulo p has rank at least k. Let S be independent modulo p, and let a vector v be
# orthogonal to S but not to e modulo p. Then e is not in the rational span of S: otherwise D e =
# sum_i C_i e_i with integers of gcd 1, and modulo p either D != 0, so that e.v = 0, or D = 0, so
# that S is dependent. QED
#
# What is proposed here is one v for each head but the first; a random one serves all other queries
# at once with probability 1 - T/p. Where the checker sees nothing for the claim, it gets integers
# that show a dependence, if there is one over the rational numbers.

_ATTEMPTS = 8  # Random normals that are tried for a group


def prove_grouping(dataset: Dataset, groups: Groups, rng: np.random.Generator) -> Claim:
    """Prove or refute the claim for groups (start, stop) of consecutive examples."""
    about = checker.layer({}, dataset.arrays, jobs=workers(), tell=report)
    return judged_grouping(dataset, propose_grouping(dataset, groups, rng), about)


def judged_grouping(dataset: Dataset, evidence: Evidence, about: checker.Layer) -> Claim:
    """Let the checker judge evidence, and what there is against it where it saw nothing for it."""
    found = checker.verify("grouping", evidence, about)
    if found.verdict == checker.UNDECIDED and found.witness is not None:
        evidence |= _dependence(dataset, evidence["groups"], found.witness)
        found = checker.verify("grouping", evidence, about)
    verdict, proof = Verdict[found.verdict], evidence if found.verdict == checker.PROVED else {}
    return Claim("grouping", found.statement, verdict, found.detail, found.witness, proof)


def propose_grouping(dataset: Dataset, groups: Groups, rng: np.random.Generator) -> Evidence:
    """Return vectors that are orthogonal to the queries of one group alone, modulo a prime."""
    prime = next(modular.safe_primes())
    queries = modular.residues(dataset.queries, prime)
    normals = np.zeros((len(groups), dataset.width))
    for head, (start, stop) in enumerate(groups):
        for _ in range(_ATTEMPTS if head and start < stop <= len(queries) else 0):
            free = modular.random_residues(rng, (dataset.width, 1), prime)
            normals[head] = modular.null_vector(queries[start:stop], prime, free)[1]
            outside = modular.product(queries, normals[head, :, None].copy(), prime) != 0
            if np.delete(outside, np.s_[start:stop]).all():
                break
    return {
        "prime": prime,
        "groups": [list(group) for group in groups],
        "normals": pack(normals.astype(np.int64) % prime),
    }


def _dependence(dataset: Dataset, groups: list[list[int]], place: tuple[str, int]) -> Evidence:
    """Return tokens of a context, or queries, that are dependent, with integers; or nothing."""
    of, at = place
    if of == "contexts":
        rows, members = dataset.contexts if dataset.shared_context else dataset.contexts[at], [at]
        found = dyadic.dependency(rows)
    else:
        start, stop = groups[at]
        own, others = [*range(start, stop)], [*range(start), *range(stop, len(dataset.queries))]
        found, members = None, own
        for more in [[], *([other] for other in (others if of == "span" else []))]:
            tried = [*own, *more]
            if dyadic.rank(dataset.queries[tried]) < len(tried):
                found = dyadic.dependency(dataset.queries[tried])
                members = [tried[row] for row in found.rows] if found else []
                break
        rows = dataset.queries[members]
    if found is None:
        return {}
    unit = np.lcm.reduce([c.denominator for c in found.coefficients], dtype=object)
    whole = [int(c * unit) for c in found.coefficients]
    if of == "contexts":
        vector = dict(zip(found.rows, whole, strict=True))
        whole = [vector.get(row, 0) for row in range(len(rows))]
    examples = [int(member) for member in members]
    return {"dependence": {"of": of, "examples": examples, "vector": [hex(x) for x in whole]}}
