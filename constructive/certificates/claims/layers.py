"""What `certify` proposes of layers: evidence, found in any way, which the checker then judges.

Nothing here is believed. A proposal that is wrong, or none, leaves a claim undecided.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from constructive import checker
from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.certificates.claims.rank import challenge
from constructive.data.dataset import Dataset
from constructive.exact import modular
from constructive.layers import residues
from constructive.layers.memorizer import Memorizer
from constructive.support.verdict import Claim, Verdict, pack
from constructive.support.work import report, workers
from constructive.theory import grouping
from constructive.theory.capacity import Spans, Vectors, context_capacity, count_spans

Evidence = dict[str, Any]


class Proposed(ClaimKind):
    """A claim that the checker judges, by evidence that is proposed here."""

    @abstractmethod
    def propose(self, subject: Subject[Any, Dataset]) -> Evidence:
        """Return evidence; without what it would need, and with `advice`, where there is none."""

    def judge(self, subject: Subject[Any, Any]) -> Claim:
        """Let the checker judge what is proposed."""
        about, given = layer_of(subject), self.propose(subject)
        found = checker.verify(self.name, given, about)
        verdict = Verdict[found.verdict]
        if verdict is Verdict.UNDECIDED:
            detail = given.get("advice", found.detail)
            return Claim(self.name, found.statement, verdict, detail)
        proof = given if verdict is Verdict.PROVED else {}
        return Claim(self.name, found.statement, verdict, found.detail, found.witness, proof)


def layer_of(subject: Subject[Any, Dataset]) -> checker.Layer:
    """Return the layer on the data as the checker has it, with what it has computed of them."""
    return subject.once(
        checker.Layer,
        lambda: checker.layer(
            subject.weights.layer.tensors if isinstance(subject.weights, Memorizer) else {},
            subject.data.arrays,
            hashes=subject.fingerprints,
            bits=subject.options.max_prec,
            jobs=workers(),
            tell=report,
        ),
    )


class Grouping(ClaimKind):
    """The claim *grouping*, of heads that have groups."""

    name = "grouping"
    options = frozenset({"seed"})

    def applies(self, weights: Memorizer) -> bool:
        """Return whether heads have groups, as neither paired heads nor trained weights have."""
        return weights.record.grouped

    def judge(self, subject: Subject[Memorizer, Dataset]) -> Claim:
        """Let the checker judge the groups on record."""
        groups = tuple((head.start, head.stop) for head in subject.weights.record.heads)
        evidence = grouping.propose(subject.data, groups, subject.rng)
        return grouping.judged(subject.data, evidence, layer_of(subject))


class LayerRank(Proposed):
    """The claim *rank* of a layer, with a row for each example."""

    name = "rank"
    options = frozenset({"seed"})

    def propose(self, subject: Subject[Memorizer, Dataset]) -> Evidence:
        """Return a prime, a point and columns at which Z has rank T; a solution for `--quick`."""
        layer = subject.weights.layer.leading
        found = residues.search(layer, subject.data, subject.rng)
        if found.point is None or found.factors is None:
            return {"advice": f"softmax denominators vanish at all {found.retries} points"}
        if found.rank < subject.data.num_examples:
            return {
                "advice": f"rank Z >= {found.rank}, and probably equal: that is the rank modulo "
                f"{found.tried} primes at random x; try fewer examples or more heads"
            }
        sides = challenge(subject.fingerprints, found.point, found.columns)
        solution = modular.solve(found.factors, sides).astype(np.int64) % found.point.prime
        return {
            "prime": found.point.prime,
            "value": found.point.value,
            "retries": found.retries,
            "columns": pack(found.columns),
            "solution": pack(solution),
        }


class Error(Proposed):
    """The claim *error*: `max |f(E_t, e_t) - y_t| <= epsilon`."""

    name = "error"
    options = frozenset({"epsilon", "max_prec"})

    def propose(self, subject: Subject[Memorizer, Dataset]) -> Evidence:
        """Return epsilon."""
        return {"bound": epsilon_of(subject).hex()}


def epsilon_of(subject: Subject[Memorizer, Dataset]) -> float:
    """Return the epsilon that was given, or a millionth of the largest target, to one digit."""
    if subject.options.epsilon is not None:
        return subject.options.epsilon
    largest = float(np.abs(subject.data.targets).max()) or 1.0
    return float(f"{1e-6 * largest:.0e}") or math.ulp(0.0)


class Labels(Proposed):
    """The claim *labels*, of data with one-hot targets."""

    name = "labels"
    usual = False

    def applies(self, weights: Memorizer) -> bool:
        """Return whether there are several outputs."""
        return weights.layer.target_dim > 1

    def propose(self, subject: Subject[Memorizer, Dataset]) -> Evidence:
        """Return half the least lead of a label, as floats have it."""
        floats = layer_of(subject).floats
        if floats is None:
            return {}
        is_label, outputs = subject.data.target_matrix == 1.0, floats.outputs
        own = np.where(is_label, outputs, -np.inf).max(axis=1, keepdims=True)
        leads = (own - np.where(is_label, -np.inf, outputs)).min(axis=1)
        claimed = float(f"{np.ldexp(leads, floats.scales).min() / 2:.1e}")
        return {"bound": claimed.hex()} if 0 < claimed < np.inf else {}


# *impossible*: no H heads have a readout for all targets of these examples. The heads come before
# the targets: those that depend on the targets may memorize each of them (proofs/24).
#
# It is Theorem 8 for a set J of more different examples than its rows of Z can have rank: that with
# the least bound that was found (`theory.capacity`). Any such J is a proof.
# The evidence is J, and integer vectors: the first are orthogonal to all tokens of J, the others
# constant within each of its contexts; entry `pivots[i]` of vector i is zero in all later ones, so
# that they are independent, and the tokens span d dimensions less the first ones, differences d
# less all. Where tokens are so few that counting them says the same, J alone is the proof.


@dataclass(frozen=True)
class AllWeights:
    """All W_Q and W_K of some heads, of which *impossible* speaks."""

    num_heads: int  # H


def vectors_of(spans: Spans, vectors: Vectors) -> dict[str, Any]:
    """Return evidence of what contexts span: vectors, or none of them, and their pivots."""
    return {
        "vectors": [[hex(x) for x in vector] for vector in vectors],
        "pivots": list(spans.pivots[: len(vectors)]),
        "zeros": len(vectors) - (spans.tokens - spans.differences) if vectors else 0,
    }


class Impossible(Proposed):
    """The claim *impossible*."""

    name = "impossible"
    options = frozenset({"seed"})

    def propose(self, subject: Subject[AllWeights, Dataset]) -> Evidence:
        """Return the examples that are too many for any fixed heads, and what their tokens span."""
        report("eliminate, and look for vectors", 0, 1)
        dataset, heads = subject.data, {"heads": subject.weights.num_heads}
        found = context_capacity(dataset, subject.weights.num_heads, subject.rng)
        blamed = found.blamed
        if not len(blamed):
            advice = f"contexts allow all {found.upper} different inputs, for almost all queries"
            if not found.exact:
                advice = f"contexts allow {found.lower} inputs or more; no obstacle was found"
            return heads | {"advice": advice}
        spans, shared = found.spans, dataset.shared_context
        contexts = dataset.contexts[np.newaxis] if shared else dataset.contexts[blamed]
        counted = count_spans(contexts) == (spans.tokens, spans.differences)
        vectors = vectors_of(spans, () if counted else spans.orthogonal)
        return heads | {"count": len(blamed), "examples": pack(blamed)} | vectors


GROUPING, RANK, ERROR, LABELS = Grouping(), LayerRank(), Error(), Labels()
IMPOSSIBLE = Impossible()
