"""The claim *impossible*: no weights of H heads memorize all labellings of these examples.

It is Theorem 8 for a set J of more different examples than its rows of Z can have rank: that with
the least bound that was found (`theory.context_capacity`). Any such J is a proof.
The evidence is J, and integer vectors: the first are orthogonal to all tokens of J, the others
constant within each of its contexts; entry `pivots[i]` of vector i is zero in all later ones, so
that they are independent, and the tokens span d dimensions less the first ones, differences d less
all. Where tokens are so few that counting them says the same, J alone is the proof.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.data.dataset import Dataset
from constructive.support.verdict import Claim, Verdict, pack
from constructive.support.work import report
from constructive.theory.context_capacity import Spans, Vectors, context_capacity, count_spans


@dataclass(frozen=True)
class AllWeights:
    """All weights of some heads, of which *impossible* speaks."""

    num_heads: int  # H


def vectors_of(spans: Spans, vectors: Vectors) -> dict[str, Any]:
    """Return evidence of what contexts span: vectors, or none of them, and their pivots."""
    return {
        "vectors": [[hex(x) for x in vector] for vector in vectors],
        "pivots": list(spans.pivots[: len(vectors)]),
        "zeros": len(vectors) - (spans.tokens - spans.differences) if vectors else 0,
    }


class Impossible(ClaimKind):
    """The claim *impossible*."""

    name = "impossible"
    statement = (
        "for all weights of H = {} heads rank Z <= {} on {} different examples: "
        "none memorize every labelling"
    )
    options = frozenset({"seed"})

    def judge(self, subject: Subject[AllWeights, Dataset]) -> Claim:
        """Prove that some examples are too many for all weights, or leave it undecided."""
        report("eliminate, and look for vectors", 0, 1)
        dataset, num_heads = subject.data, subject.weights.num_heads
        found = context_capacity(dataset, num_heads, subject.rng)
        blamed = found.blamed
        if not len(blamed):
            statement = f"no weights of H = {num_heads} heads memorize every labelling"
            detail = f"contexts allow all {found.upper} different inputs, for almost all queries"
            if not found.exact:
                detail = f"contexts allow {found.lower} inputs or more; no obstacle was found"
            return Claim("impossible", statement, Verdict.UNDECIDED, detail)
        spans, shared = found.spans, dataset.shared_context
        contexts = dataset.contexts[np.newaxis] if shared else dataset.contexts[blamed]
        counted = count_spans(contexts) == (spans.tokens, spans.differences)
        evidence = {
            "heads": num_heads,
            "count": len(blamed),
            "examples": pack(blamed),
            **vectors_of(spans, () if counted else spans.orthogonal),
        }
        bound = spans.tokens + (num_heads - 1) * spans.differences
        statement = self.statement.format(num_heads, bound, len(blamed))
        return Claim("impossible", statement, Verdict.PROVED, str(found), evidence=evidence)


IMPOSSIBLE = Impossible()
