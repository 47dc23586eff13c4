"""What `certify` proposes of capacities: *impossible* of fixed heads, and others of free ones.

Fixed heads are chosen before the targets. *impossible* is Theorem 8 for a set J of more different
examples than its rows of Z can have rank, and *almost_impossible* Theorem 36 for a set whose
outputs move in fewer dimensions than they have, at all weights. Both carry J, and integer vectors:
the first are orthogonal to all tokens of J, the others constant within each of its contexts; entry
`pivots[i]` of vector i is zero in all later ones, so that they are independent, and the tokens span
d dimensions less the first ones, differences d less all. Where tokens are so few that counting them
says the same, J alone is the proof.

*onto* carries a zero point, and *near* a unit of readouts and a distance.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from constructive import checker
from constructive.certificates.claims.kind import Subject
from constructive.certificates.claims.layers import Proposed, layer_of
from constructive.data.dataset import Dataset, first_of_each
from constructive.exact import modular
from constructive.layers.memorizer import Memorizer
from constructive.support.arrays import Array
from constructive.support.verdict import Evidence, pack
from constructive.support.work import report
from constructive.theory.capacity import Spans, Vectors, context_capacity, count_spans, spans_of
from constructive.theory.free_heads import Dimensions, draw_zero_point, free_capacity, zero_point


@dataclass(frozen=True)
class AllWeights:
    """All weights of some heads: W_Q and W_K alone, where d_h is not given."""

    num_heads: int  # H
    head_dim: int | None = None  # d_h


def vectors_of(spans: Spans, vectors: Vectors) -> Evidence:
    """Return evidence of what contexts span: vectors, or none of them, and their pivots."""
    return {
        "vectors": [[hex(x) for x in vector] for vector in vectors],
        "pivots": list(spans.pivots[: len(vectors)]),
        "zeros": len(vectors) - (spans.tokens - spans.differences) if vectors else 0,
    }


def _spanned(contexts: Array) -> Evidence:
    """Return the same of these contexts."""
    spans = spans_of(contexts)
    counted = count_spans(contexts) == (spans.tokens, spans.differences)
    return vectors_of(spans, () if counted else spans.orthogonal)


class Impossible(Proposed):
    """The claim *impossible*: no fixed heads have a readout for all targets of these examples."""

    name = "impossible"
    options = frozenset({"seed"})

    def applies(self, weights: AllWeights) -> bool:
        """Return whether d_h does not matter."""
        return weights.head_dim is None

    def propose(self, subject: Subject[AllWeights, Dataset]) -> Evidence:
        """Return the examples with the least bound that was found."""
        report("eliminate, and look for vectors", 0, 1)
        data, heads = subject.data, subject.weights.num_heads
        found = context_capacity(data, heads, subject.rng)
        given: Evidence = {"heads": heads, "count": len(found.blamed), **_NOTHING}
        if not len(found.blamed):
            told = f"contexts allow all {found.upper} different inputs, for almost all queries"
            if not found.exact:
                told = f"contexts allow {found.lower} inputs or more; no obstacle was found"
            return given | {"advice": told}
        contexts = data.contexts[np.newaxis] if data.shared_context else data.contexts[found.blamed]
        return given | {"examples": pack(found.blamed), **_spanned(contexts)}


_NOTHING: Evidence = {"examples": "", "vectors": [], "pivots": [], "zeros": 0}


class AlmostImpossible(Proposed):
    """The claim *almost_impossible*: almost no targets are returned by any weights."""

    name = "almost_impossible"
    options = frozenset({"seed"})

    def applies(self, weights: AllWeights) -> bool:
        """Return whether d_h is known."""
        return weights.head_dim is not None

    def propose(self, subject: Subject[AllWeights, Dataset]) -> Evidence:
        """Return the examples with the least bound, and what their tokens and queries span."""
        report("eliminate, and look for vectors", 0, 1)
        data, heads = subject.data, subject.weights.num_heads
        head_dim = subject.weights.head_dim or 0
        different = np.unique(first_of_each(data))
        # Wider heads and more of them than that have the same bound, or none below T.
        sizes = min(heads, len(different) + 1), min(head_dim, data.width)
        found = free_capacity(data, *sizes, subject.rng, different=different)
        blamed = found.blamed
        if blamed is None or found.at_most >= len(different):
            blamed = different[:0]
        given: Evidence = {"heads": heads, "head_dim": head_dim, "count": len(blamed), **_NOTHING}
        given |= {"of_queries": {"vectors": [], "pivots": [], "zeros": 0}}
        if not len(blamed):
            return given | {"advice": "no examples were found that are too many"}
        contexts = data.filled.contexts
        contexts = contexts[np.newaxis] if data.shared_context else contexts[blamed]
        queries = spans_of(data.queries[blamed, np.newaxis])
        queries = replace(queries, differences=queries.tokens)  # no vectors but orthogonal ones
        orthogonal = queries.orthogonal[: data.width - queries.tokens]
        of_queries = vectors_of(queries, orthogonal)
        return given | {"examples": pack(blamed), **_spanned(contexts), "of_queries": of_queries}


class OfFreeHeads(Proposed):
    """A claim about outputs that are numbers, usual of heads that were built for their targets."""

    def is_usual(self, weights: Memorizer) -> bool:
        """Return whether heads may depend on the targets, which are numbers."""
        return weights.record.free and not weights.record.classes


class Onto(OfFreeHeads):
    """The claim *onto*: for all targets some weights of as many heads return them."""

    name = "onto"

    def propose(self, subject: Subject[Memorizer, Dataset]) -> Evidence:
        """Return integers at the zero point with the largest rank for almost all data."""
        data, layer = subject.data, subject.weights.layer
        point = zero_point(layer.num_heads, layer.head_dim, Dimensions.of_data(data))
        base = draw_zero_point(point, data.width, layer.head_dim, data.target_dim, subject.rng)
        sizes = [group.stop - group.start for group in base.groups]
        uniform = bool(point.uniform)
        firsts = [group.start for group in base.groups]
        asked = [*range(sizes[0] if uniform else 0), *firsts[uniform:]]
        others = np.setdiff1d(np.arange(sum(sizes)), [group.stop - 1 for group in base.groups])
        prime = next(modular.safe_primes())
        return {
            "head_dim": layer.head_dim,
            "groups": sizes,
            "uniform": uniform,
            "query": pack(base.query_weights[asked].astype(np.int64)),
            "key": pack(base.key_weights[firsts[uniform:]].astype(np.int64)),
            "readout": pack(base.readouts[others].astype(np.int64)),
            "prime": prime,
            "value": int(subject.rng.integers(2, prime)),
        }


_ROOM = 2.0  # Directions that the claim *near* looks at, for each output


class Near(OfFreeHeads):
    """The claim *near*: exact weights are as near to the stored ones as is shown."""

    name = "near"

    def propose(self, subject: Subject[Memorizer, Dataset]) -> Evidence:
        """Return the size of readouts, so many blocks of directions, and twice what is shown."""
        layer, data, about = subject.weights.layer, subject.data, layer_of(subject)
        # of readouts beyond half of the largest float, the unit is their largest power of two
        exponent = math.frexp(np.abs(layer.effective_readout).max() or 1.0)[1]
        unit = math.ldexp(1.0, min(exponent, 1023))
        rows, heads, width = data.num_examples * data.target_dim, layer.num_heads, layer.width
        readouts, block = heads * width * data.target_dim, width * layer.head_dim
        few = min(2 * heads, math.ceil(max(_ROOM * rows - readouts, 0) / block))
        for blocks in dict.fromkeys((few, 2 * heads)):  # all, where these are not independent
            given: Evidence = {"unit": unit.hex(), "blocks": blocks}
            try:
                distance, _ = next(checker.distances(about, unit, blocks))
            except (ValueError, StopIteration) as failure:
                told = str(failure) or "no exact weights are shown to be near"
                given |= {"bound": (0.0).hex(), "advice": told}
            else:
                return given | {"bound": float(f"{2.0 * distance:.0e}").hex()}
        return given


IMPOSSIBLE, ALMOST_IMPOSSIBLE, ONTO, NEAR = Impossible(), AlmostImpossible(), Onto(), Near()
