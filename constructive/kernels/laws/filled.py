"""Laws of rows that are not written: they are zero, or not a number, and others are right."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from constructive.kernels.laws.evidence import Evidence
from constructive.kernels.laws.keys import sets_of
from constructive.kernels.laws.words import listed
from constructive.kernels.mistakes.bench import Mistakes
from constructive.support.arrays import Array, Booleans


def filled(evidence: Evidence) -> Mistakes:
    """Yield rows that are all zero, or all not a number."""
    rows = evidence.wrong & evidence.counted
    out = evidence.out[rows]
    if not len(out) or (rows == evidence.counted).all():
        return
    if not out.any():
        number, what = 0.0, "zero"
    elif not np.isfinite(out).any():
        number, what = np.nan, "NaN"
    else:
        return
    for words, members in _sets(evidence):
        if np.array_equal(members & evidence.counted, rows):
            yield f"{words} are {what}", partial(_with, evidence, members, number)


def _sets(evidence: Evidence) -> Iterator[tuple[str, Booleans]]:
    spec, shape = evidence.problem.spec, evidence.wrong.shape
    batch, head, query = (place.reshape(shape) for place in evidence.every)
    length = spec.lengths[0][:, None, None]
    wrong = evidence.wrong & evidence.counted
    for name, number in (("batch", batch), ("head", head), ("query", query)):
        axis = ("batch", "head", "query").index(name)
        others = tuple(other for other in range(3) if other != axis)
        there = np.flatnonzero(wrong.any(others))
        if name == "query":
            for words, members in sets_of("rows of queries", spec.queries):
                yield words, members[query]
            for distance in range(1, 9):
                yield (
                    f"rows of the last {distance} queries of each sequence",
                    query >= length - distance,
                )
        yield f"rows of {name} {listed(there)}", np.isin(number, there)
    if spec.group > 1:
        packed = query * spec.group + head % spec.group
        count = spec.queries * spec.group
        for words, members in sets_of("rows (query, head of the group)", count):
            yield words, members[packed]
    heads = np.asarray(wrong.any((0, 2)))
    for words, members in sets_of("rows of queries", spec.queries):
        if not heads.all():
            yield f"{words}, in head {listed(np.flatnonzero(heads))},", members[query] & heads[head]


def _with(evidence: Evidence, members: Booleans, number: float) -> Array:
    return np.where(members[..., None], number, evidence.bench.averaged())
