"""Laws of edges: up to which key a row reads, or from which on, inferred row by row.

Where visible keys lie side by side, a mask is a first key and a last one. Each sample row is tried
with every edge; a rule has to give an edge that fits for each row.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from constructive.kernels.laws.evidence import Evidence
from constructive.kernels.laws.row_maps import Source, explicit, of_places, row_maps
from constructive.kernels.laws.sizes import block_sizes
from constructive.kernels.laws.words import listed
from constructive.kernels.masks import Alignment, Causal, LeftPadding, Prefix, Window
from constructive.kernels.mistakes.bench import Mistakes
from constructive.kernels.spec import Spec
from constructive.support.arrays import Array, Booleans, Integers

Rule = Callable[[Integers], Integers]  # Limits of rows, from their numbers
# Sentences, each with a function that returns limits, (B, H, T_q).
Limits = Iterator[tuple[str, Callable[[], Integers]]]
Rules = Callable[[Evidence, "Edge", Booleans], Limits]


@dataclass(frozen=True, eq=False)
class Edge:
    """One end of what rows read, as one mask has it."""

    words: str  # its name
    limits: Integers  # (B, H, T_q) the first key that it hides on the right, or shows on the left
    others: Integers  # (B, H, T_q) the same of all other masks together
    is_right: bool  # which end it is

    def with_limits(self, limits: Integers, others: Integers) -> Integers:
        """Return the edge of all masks."""
        return np.minimum(limits, others) if self.is_right else np.maximum(limits, others)


def edges(evidence: Evidence) -> Mistakes:
    """Yield edges that are moved, rounded, or those of other rows."""
    yield from of_rules(evidence, _rules)


def of_rules(evidence: Evidence, rules: "Rules") -> Mistakes:
    """Yield edges by rules, on the right and on the left."""
    visible, keys = evidence.bench.visible, evidence.problem.spec.keys
    j = np.arange(keys)
    first = np.where(visible, j, keys).min(-1)
    end = np.where(visible, j + 1, 0).max(-1)
    if (visible.sum(-1) != np.maximum(end - first, 0)).any():
        return
    for is_right in (True, False):
        table = _table(evidence, first, end, is_right=is_right)
        for edge in _edges(evidence, is_right=is_right):
            for sentence, limits in rules(evidence, edge, table):
                yield sentence, partial(_made, evidence, edge, limits, first, end)


def _made(
    evidence: Evidence, edge: Edge, limits: "Callable[[], Integers]", first: Integers, end: Integers
) -> Array:
    j = np.arange(evidence.problem.spec.keys)
    found = edge.with_limits(limits(), edge.others)[..., None]
    if edge.is_right:
        seen = (j >= first[..., None]) & (j < found)
    else:
        seen = (j < end[..., None]) & (j >= found)
    return evidence.bench.averaged(visible=np.asarray(seen))


def _table(evidence: Evidence, first: Integers, end: Integers, *, is_right: bool) -> Booleans:
    """Return whether each row of the sample agrees with each edge, (R, T_k + 1)."""
    keys = evidence.problem.spec.keys
    j, every = np.arange(keys), np.arange(keys + 1)[:, None]
    low, high = evidence.of(first), evidence.of(end)
    found = np.zeros((len(evidence.sample), keys + 1), dtype=np.bool_)
    for row in range(len(found)):
        # One row at a time: (T_k + 1, T_k) weights.
        seen = (j >= low[row]) & (j < every) if is_right else (j < high[row]) & (j >= every)
        found[row] = evidence.agrees_at(row, evidence.scores[row], np.asarray(seen))
    return found


def _edges(evidence: Evidence, *, is_right: bool) -> Iterator[Edge]:
    """Yield what limits rows on a side."""
    spec, shape = evidence.problem.spec, evidence.wrong.shape
    queries, lengths = spec.lengths
    i = np.arange(spec.queries)[None, None]

    def diagonal(alignment: Alignment) -> Integers:
        shift = (lengths - queries)[:, None, None] if alignment == "bottom-right" else 0
        return np.asarray(i + shift)

    found = _of_masks(spec, diagonal, is_right=is_right)
    if is_right:
        found["the length of a sequence"] = lengths[:, None, None] + 0 * i
    elif not found:
        found["the first key that is read"] = 0 * i + 0 * lengths[:, None, None]
    whole = {words: np.broadcast_to(limits, shape) for words, limits in found.items()}
    for words, limits in whole.items():
        rest = [other for name, other in whole.items() if name != words]
        beyond = np.full(shape, spec.keys if is_right else 0)
        for other in rest:
            beyond = np.minimum(beyond, other) if is_right else np.maximum(beyond, other)
        yield Edge(words, limits, beyond, is_right)


def _of_masks(
    spec: Spec, diagonal: Callable[[Alignment], Integers], *, is_right: bool
) -> dict[str, Integers]:
    """Return the limits of masks on a side, by name."""
    found: dict[str, Integers] = {}
    causal, window = spec.mask(Causal), spec.mask(Window)
    prefix, padding = spec.mask(Prefix), spec.mask(LeftPadding)
    if is_right and causal is not None:
        found["the causal mask"] = diagonal(causal.alignment) + 1
    if is_right and prefix is not None:
        short = np.asarray(prefix.lengths)[:, None, None]
        found["the prefix mask"] = np.maximum(diagonal(prefix.alignment) + 1, short)
    if window is not None:
        size, name = (window.right, "right") if is_right else (window.left, "left")
        if size is not None:
            step = size + 1 if is_right else -size
            found[f"the {name} of the window"] = diagonal(window.alignment) + step
    if not is_right and padding is not None:
        starts = np.asarray(padding.starts)[:, None, None]
        found["left padding"] = starts + 0 * diagonal("top-left")
    return found


def _rules(evidence: Evidence, edge: Edge, table: Booleans) -> Limits:
    """Yield rules that fit, as a sentence and a function that returns limits, (B, H, T_q)."""
    sample, keys = evidence.sample, table.shape[1] - 1
    others = edge.others.ravel()[sample]
    index = np.arange(len(sample))

    def fits(limits: Integers) -> bool:
        found = np.clip(edge.with_limits(limits, others), 0, keys)
        return bool(table[index, found].all())

    for words, rule in (*sizes(evidence, edge), *diagonals(evidence, edge)):
        if fits(rule(sample)):
            yield f"{edge.words} {words}", partial(_of_every, evidence, rule)
    limits = edge.limits.ravel()
    for words, source in row_maps(evidence.problem.spec):
        rows = source(evidence.places)
        if (rows >= 0).all() and fits(limits[rows]):
            yield f"{edge.words} is that of {words}", partial(_mapped, evidence, edge, source)
    yield from _by_sequence(evidence, edge, table)


def _of_every(evidence: Evidence, rule: Rule) -> Integers:
    return rule(np.arange(evidence.wrong.size)).reshape(evidence.wrong.shape)


def _mapped(evidence: Evidence, edge: Edge, source: Source) -> Integers:
    rows = np.maximum(source(evidence.every), 0)
    return edge.limits.ravel()[rows].reshape(evidence.wrong.shape)


def sizes(evidence: Evidence, edge: Edge, most: int | None = None) -> Iterator[tuple[str, Rule]]:
    """Yield edges that are moved by a number, rounded to blocks, or at one place."""
    limits, keys = edge.limits.ravel(), evidence.problem.spec.keys
    end = "ends" if edge.is_right else "begins"
    far = keys if most is None else min(most, keys)
    for step in sorted(range(-far, far + 1), key=abs):
        side = "late" if step > 0 else "early"
        count = f"{abs(step)} key{'s' if abs(step) > 1 else ''}"
        if step:
            yield f"{end} {count} too {side}", lambda rows, step=step: limits[rows] + step  # type: ignore[misc]
    gone = keys if edge.is_right else 0
    yield "is ignored", lambda rows: 0 * rows + gone
    if most is not None:
        return
    for size in block_sizes(keys):
        yield (
            f"is rounded up to blocks of {size} keys",
            lambda rows, size=size: -(-limits[rows] // size) * size,  # type: ignore[misc]
        )
        yield (
            f"is rounded down to blocks of {size} keys",
            lambda rows, size=size: limits[rows] // size * size,  # type: ignore[misc]
        )
        yield (
            f"is that of the next block of {size} keys",
            lambda rows, size=size: (limits[rows] // size + 1) * size,  # type: ignore[misc]
        )
    for place in range(keys + 1):
        yield f"is key {place} in every row", lambda rows, place=place: 0 * rows + place  # type: ignore[misc]
        yield (
            f"is never beyond key {place}",
            lambda rows, place=place: np.minimum(limits[rows], place),  # type: ignore[misc]
        )
        yield (
            f"is never before key {place}",
            lambda rows, place=place: np.maximum(limits[rows], place),  # type: ignore[misc]
        )


def diagonals(evidence: Evidence, edge: Edge) -> Iterator[tuple[str, Rule]]:
    """Yield edges that follow another number than that of the query."""
    limits, spec = edge.limits.ravel(), evidence.problem.spec
    group, heads = spec.group, spec.heads[0]
    own = evidence.every[2]
    ways: dict[str, Callable[[Integers, Integers], Integers]] = {
        "follows i * group + the head's number in its group, not query i":
            lambda h, i: i * group + h % group,
        "follows (the head's number in its group) * queries + i, not query i":
            lambda h, i: h % group * spec.queries + i,
        "follows i * group, not query i": lambda _, i: i * group,
        "follows i // group, not query i": lambda _, i: i // group,
        "follows i * heads + h, not query i": lambda h, i: i * heads + h,
        "follows h * queries + i, not query i": lambda h, i: h * spec.queries + i,
        "follows i + h, not query i": lambda h, i: i + h,
        "follows i * 2, not query i": lambda _, i: 2 * i,
        "follows i // 2, not query i": lambda _, i: i // 2,
        "does not move with the query": lambda _, i: 0 * i,
        "moves against the query": lambda _, i: -i,
    }  # fmt: skip
    for words, way in ways.items():
        yield (
            words,
            lambda rows, way=way: (
                limits[rows]
                - own[rows]  # type: ignore[misc]
                + way(evidence.every[1][rows], own[rows])
            ),
        )


def _by_sequence(evidence: Evidence, edge: Edge, table: Booleans) -> Limits:
    """Yield the edge of each sequence, where it is one number."""
    limits, batch = edge.limits, evidence.places[0]
    if (limits != limits[:, :1, :1]).any():
        return
    sample, keys = evidence.sample, table.shape[1] - 1
    others = edge.others.ravel()[sample]
    every = np.arange(keys + 1)
    found = np.clip(edge.with_limits(every[None], others[:, None]), 0, keys)
    fits = np.take_along_axis(table, found, 1)
    allowed = of_places(fits, batch, evidence.problem.spec.batch)
    chosen = explicit(allowed, np.clip(limits[:, 0, 0], 0, keys))
    if chosen is None:
        return
    ends, changed = chosen
    which = listed(number for number, _ in changed)
    said = (
        listed([end for _, end in changed])
        if len(changed) == 1
        else ", ".join(str(end) for _, end in changed)
    )
    was = ", ".join(str(int(limits[number, 0, 0])) for number, _ in changed)
    end = "ends at" if edge.is_right else "begins at"
    yield (
        f"{edge.words} {end} key {said}, not {was}, in sequence {which}",
        lambda: np.broadcast_to(ends[:, None, None], evidence.wrong.shape),
    )
