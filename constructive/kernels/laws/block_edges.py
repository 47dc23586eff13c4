"""Laws of edges of blocks: how far blocks of rows read, and what is wrong only inside of that."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from constructive.kernels.laws.edges import Edge, Limits, Rule, diagonals, of_rules, sizes
from constructive.kernels.laws.evidence import Evidence
from constructive.kernels.laws.sizes import block_sizes
from constructive.kernels.mistakes.bench import Mistakes
from constructive.support.arrays import Booleans, Integers

_NEAR = 8  # Keys by which an edge may be off inside of blocks
_MOST = 3  # Sizes of blocks of keys that are tried on all rows, for each size of blocks of rows


def edges_of_blocks(evidence: Evidence) -> Mistakes:
    """Yield edges of blocks of rows, and edges that are wrong inside of blocks that are read."""
    yield from of_rules(evidence, _of_blocks)
    yield from of_rules(evidence, _inside)


def _of_blocks(evidence: Evidence, edge: Edge, table: Booleans) -> Limits:
    """Yield edges of blocks of rows that are rounded to blocks of keys, for all sizes of both."""
    spec, sample = evidence.problem.spec, evidence.sample
    limits = edge.limits.ravel()
    others, index = edge.others.ravel()[sample], np.arange(len(sample))
    every = np.array(block_sizes(spec.keys), dtype=np.int64)[:, None]
    for rows, said in _blocks_of_rows(evidence, edge):
        rules = _rounded(edge, far=int(rows.max() if edge.is_right else rows.min()))
        for words, rule in rules.items():
            found = edge.with_limits(rule(rows[sample], limits[sample], every), others)
            fits = table[index, np.clip(found, 0, spec.keys)].all(1)
            for size in every[fits, 0][:_MOST]:
                yield (
                    f"{edge.words} {words} (blocks of {said}, and of {size} keys)",
                    partial(_shaped, evidence, partial(rule, rows, limits, int(size))),
                )
        found = edge.with_limits(rows[sample], others)
        if table[index, np.clip(found, 0, spec.keys)].all():
            yield (
                f"{edge.words} is that of its block of rows (blocks of {said})",
                partial(_shaped, evidence, partial(np.copy, rows)),
            )


def _rounded(edge: Edge, far: int) -> dict[str, Callable[..., Integers]]:
    """Return rules of edges of blocks of rows, (edge of the block, own limit, size of blocks)."""
    side, most = ("ends", "last") if edge.is_right else ("begins", "first")
    near = np.minimum if edge.is_right else np.maximum

    def whole(rows: Integers, own: Integers, size: Integers) -> Integers:
        return _outward(rows, size, is_right=edge.is_right) + 0 * own

    def short(rows: Integers, own: Integers, size: Integers) -> Integers:
        found: Integers = near(_outward(rows, size, is_right=not edge.is_right), own)
        return found

    def but_the_last(rows: Integers, own: Integers, size: Integers) -> Integers:
        return np.where(rows == far, own, short(rows, own, size))

    block = f"the block of keys in which its block of rows {side}"
    return {
        f"is where {block} {side}": whole,
        f"leaves out {block}": short,
        f"leaves out {block}, but for the {most}": but_the_last,
    }


def _inside(evidence: Evidence, edge: Edge, table: Booleans) -> Limits:
    """Yield rules that hold only in the blocks of keys that a block of rows reads."""
    spec, sample = evidence.problem.spec, evidence.sample
    others, index = edge.others.ravel()[sample], np.arange(len(sample))
    every = np.array(block_sizes(spec.keys), dtype=np.int64)[:, None]
    near = np.minimum if edge.is_right else np.maximum
    rules = [
        *((words, rule) for words, rule in sizes(evidence, edge, most=_NEAR)),
        *diagonals(evidence, edge),
    ]
    asked = [(words, rule, rule(sample)) for words, rule in rules]
    for rows, said in _blocks_of_rows(evidence, edge):
        stops = _outward(rows[sample], every, is_right=edge.is_right)
        for words, rule, limits in asked:
            found = edge.with_limits(near(limits, stops), others)
            fits = table[index, np.clip(found, 0, spec.keys)].all(1)
            for size in every[fits, 0][:_MOST]:
                yield (
                    f"{edge.words} {words}, inside the blocks of keys that its block of rows reads "
                    f"(blocks of {said}, and of {size} keys)",
                    partial(_stopped, evidence, edge, rule, rows, int(size)),
                )


def _stopped(evidence: Evidence, edge: Edge, rule: Rule, rows: Integers, size: int) -> Integers:
    near = np.minimum if edge.is_right else np.maximum
    stops = _outward(rows, size, is_right=edge.is_right)
    return near(rule(np.arange(len(rows))), stops).reshape(evidence.wrong.shape)


def _shaped(evidence: Evidence, made: Callable[[], Integers]) -> Integers:
    return made().reshape(evidence.wrong.shape)


def _outward(places: Integers, size: Integers | int, *, is_right: bool) -> Integers:
    """Return places rounded to blocks: up on the right, down on the left."""
    return -(-places // size) * size if is_right else places // size * size


def _blocks_of_rows(evidence: Evidence, edge: Edge) -> Iterator[tuple[Integers, str]]:
    """Yield the furthest edge in the block of each row, (N,), and how large blocks are."""
    spec = evidence.problem.spec
    batch, head, query = evidence.every
    group, own = spec.group, edge.with_limits(edge.limits, edge.others).ravel()
    orders = [(batch * spec.heads[0] + head, query, spec.queries, "queries")]
    if group > 1:
        packed = query * group + head % group
        words = "rows, the heads of a group one after the other for each query"
        orders.append((batch * spec.heads[1] + head // group, packed, spec.queries * group, words))
    further = np.maximum if edge.is_right else np.minimum
    for whose, number, most, words in orders:
        for size in block_sizes(most):
            block = whose * (most + 1) + number // size
            found = np.full(int(block.max()) + 1, -1 if edge.is_right else spec.keys)
            further.at(found, block, own)
            yield found[block], f"{size} {words}"
