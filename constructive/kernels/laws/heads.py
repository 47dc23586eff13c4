"""Laws of KV heads and sequences: whose keys and values each head of each sequence reads."""

from functools import partial

import numpy as np

from constructive.kernels.laws.evidence import Evidence
from constructive.kernels.laws.row_maps import explicit, of_places
from constructive.kernels.laws.words import exchanged
from constructive.kernels.mistakes.bench import PARTS, Mistakes
from constructive.support.arrays import Array, Booleans, Integers


def heads(evidence: Evidence) -> Mistakes:
    """Yield heads and sequences that read those of others, as the sample has it."""
    spec = evidence.problem.spec
    batch, (count, kv) = spec.batch, spec.heads
    own = np.arange(count) // spec.group
    for what, changed in PARTS.items():
        table = _table(evidence, changed)  # (R, B, G)
        b, h, _ = evidence.places
        same_sequence = table[np.arange(len(b)), b]
        allowed = of_places(same_sequence, h, count)
        found = explicit(allowed, own)
        if found is not None and kv > 1:
            chosen, moved = found
            said = ", ".join(f"head {head} reads KV head {place}" for head, place in moved)
            yield (
                f"{what} are those of another KV head: {said}",
                partial(_read, evidence, changed, np.arange(batch)[:, None], chosen[None]),
            )
        same_head = table[np.arange(len(b)), :, h // spec.group]
        allowed = of_places(same_head, b, batch)
        found = explicit(allowed, np.arange(batch))
        if found is not None:
            chosen, moved = found
            yield (
                f"{what} are those of another sequence: {exchanged('sequence', moved)}",
                partial(_read, evidence, changed, chosen[:, None], own[None]),
            )
        allowed = of_places(table.reshape(len(b), -1), b * count + h, batch * count)
        right = (np.arange(batch)[:, None] * kv + own).ravel()
        found = explicit(allowed, right)
        if found is not None and batch > 1 and kv > 1:
            chosen, moved = found
            said = ", ".join(
                f"head {place % count} of sequence {place // count} reads KV head "
                f"{other % kv} of sequence {other // kv}"
                for place, other in moved[:3]
            )
            where = chosen.reshape(batch, count)
            yield (
                f"{what} are those of another sequence and KV head: {said}"
                + (", .." if len(moved) > 3 else ""),
                partial(_read, evidence, changed, where // kv, where % kv),
            )


def _table(evidence: Evidence, changed: tuple[bool, bool]) -> Booleans:
    """Return whether rows of the sample agree with keys and values of others, (R, B, G)."""
    problem, bench = evidence.problem, evidence.bench
    spec = problem.spec
    shape = len(evidence.sample), spec.batch, spec.heads[1]
    found = np.zeros(shape, dtype=np.bool_)
    q = problem.q[evidence.places]
    for row in range(shape[0]):
        batch, head, query = (int(place[row]) for place in evidence.places)
        scores = np.broadcast_to(evidence.scores[row], (*shape[1:], spec.keys))
        if changed[0]:
            raw = problem.k @ q[row]  # (B, G, T_k)
            cap = spec.soft_cap
            scores = raw * spec.factor
            scores = scores if cap is None else cap * np.tanh(scores / cap)
            if bench.bias is not None:
                scores = scores + bench.bias[batch, head, query]
        visible = np.broadcast_to(evidence.visible[row], scores.shape)
        weights, total = evidence.weighed(scores, visible, evidence.sinks[row, None])
        values = problem.v if changed[1] else evidence.values[row][None, None]
        with np.errstate(all="ignore"):
            out = np.einsum("bgk,bgkv->bgv", weights / total, np.broadcast_to(
                values, (*shape[1:], *problem.v.shape[2:])
            ))  # fmt: skip
        found[row] = evidence.is_same(row, out.reshape(-1, out.shape[-1])).reshape(shape[1:])
    return found


def _read(
    evidence: Evidence, changed: tuple[bool, bool], sequence: Integers, head: Integers
) -> Array:
    k, v = (
        array[sequence, head] if is_changed else None
        for array, is_changed in zip((evidence.problem.k, evidence.problem.v), changed, strict=True)
    )
    return evidence.bench.read(k=k, v=v)
