"""Laws that are inferred from a wrong output: sizes, places and numbers that no list has.

A law says which rows read what, and leads to the whole output. It is said only if it leads to
every wrong row and leaves every right one right. A new law is a function and a line.
"""

from collections.abc import Callable, Iterator
from functools import partial

from constructive.kernels.laws import (
    block_edges,
    blocks,
    columns,
    edges,
    factors,
    filled,
    heads,
    key_maps,
    keys,
    pages,
    rows,
)
from constructive.kernels.laws.evidence import Evidence
from constructive.kernels.mistakes.bench import Mistakes

Law = Callable[[Evidence], Mistakes]
# In the order in which they are tried. If a law of a tier holds, later tiers are not asked.
TIERS: tuple[tuple[Law, ...], ...] = (
    (
        filled.filled,
        keys.keys,
        edges.edges,
        heads.heads,
        columns.columns,
        columns.features,
        factors.scales,
        factors.sums,
        factors.phantoms,
        factors.sinks,
        factors.slopes,
        key_maps.key_maps,
        pages.pages,
        *(partial(rows.rows, part) for part in rows.PARTS),
    ),
    (block_edges.edges_of_blocks, pages.chosen),
    (blocks.blocks,),
    (keys.ranges, pages.entries),
)

_LEAST = 3  # Wrong rows from which a law is inferred


def laws(evidence: Evidence) -> Iterator[Iterator[Mistakes]]:
    """Yield tiers of laws: for each law sentences, each with a function that returns an output.

    Example:
        >>> from constructive.kernels.problem import Problem
        >>> from constructive.kernels.spec import Spec
        >>> problem = Problem.build(Spec(queries=5, keys=5, head_dim=16), "random")
        >>> out = problem.expected[:, ::-1]
        >>> evidence = Evidence(problem, out, (out != problem.expected).any(-1))
        >>> found = [sentence for law in next(laws(evidence)) for sentence, _ in law]
        >>> "rows of the output are those of the next head" in found
        True
    """
    if (evidence.wrong & evidence.counted).sum() >= _LEAST:
        for tier in TIERS:
            yield (law(evidence) for law in tier)
