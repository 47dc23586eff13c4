"""What the theorems ask of the data: proved, refuted with exact witnesses, or estimated.

Example:
    >>> from constructive import assumptions, generators
    >>> data = generators.uniform(num_examples=7, context_size=3, width=5)
    >>> assumptions.check(data).assumption_1.name
    'PROVED'
"""

from constructive.theory.assumptions.kruskal import (
    DependentContext,
    KruskalRank,
    dependent_contexts,
    kruskal_rank,
)
from constructive.theory.assumptions.regrouping import Regrouping, regroup
from constructive.theory.assumptions.report import Report, check
from constructive.theory.assumptions.sampling import Estimate, dependent_share

__all__ = [
    "DependentContext",
    "Estimate",
    "KruskalRank",
    "Regrouping",
    "Report",
    "check",
    "dependent_contexts",
    "dependent_share",
    "kruskal_rank",
    "regroup",
]
