"""What `certify` proposes of layers: evidence, found in any way, which the checker then judges.

Nothing here is believed. A proposal that is wrong, or none, leaves a claim undecided.
"""

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from constructive import checker
from constructive.certificates.claims import rank
from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.data.dataset import Dataset
from constructive.layers import residues
from constructive.layers.memorizer import Memorizer
from constructive.layers.residues import Search
from constructive.support.verdict import Claim, Evidence, Verdict
from constructive.support.work import report, workers
from constructive.theory import grouping


class Proposed(ClaimKind):
    """A claim that the checker judges, by evidence that is proposed here."""

    @abstractmethod
    def propose(self, subject: Subject[Any, Any]) -> Evidence:
        """Return evidence; without what it would need, and with `advice`, where there is none."""

    def about(self, subject: Subject[Any, Any]) -> checker.About:
        """Return weights and data as the checker has them, with what it has computed."""
        return layer_of(subject)

    def judge(self, subject: Subject[Any, Any]) -> Claim:
        """Let the checker judge what is proposed."""
        about, given = self.about(subject), self.propose(subject)
        return claim_of(checker.verify(self.name, given, about), given)


def claim_of(found: checker.Found, given: Evidence) -> Claim:
    """Return what the checker found with this evidence as a claim."""
    verdict = Verdict[found.verdict]
    if verdict is Verdict.UNDECIDED:
        detail = given.get("advice", found.detail)
        return Claim(found.name, found.statement, verdict, detail, found.witness)
    proof = given if verdict is Verdict.PROVED else {}
    return Claim(found.name, found.statement, verdict, found.detail, found.witness, proof)


def layer_of(subject: Subject[Any, Dataset]) -> checker.Layer:
    """Return the layer, or none, on the data as the checker has it, with what it has computed."""
    weights = subject.weights
    return subject.once(
        checker.Layer,
        lambda: checker.layer(
            weights.layer.tensors if isinstance(weights, Memorizer) else {},
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


class LayerRank(ClaimKind):
    """The claim *rank* of a layer, with a row for each example."""

    name = "rank"
    options = frozenset({"seed"})

    def is_usual(self, weights: Memorizer) -> bool:
        """Return whether heads are fixed, so that a readout has to return any targets."""
        return weights.record.construction != "tangent"

    def judge(self, subject: Subject[Memorizer, Dataset]) -> Claim:
        """Let the checker eliminate."""
        data, layer, rng = subject.data, subject.weights.layer, subject.rng
        rows = data.num_examples, (layer.num_heads, layer.width)

        def search() -> Search:
            return residues.search(layer, data, rng)

        more = "fewer examples or more heads"
        return claim_of(*rank.prove(layer_of(subject), rows, rng, search, more))


class Error(Proposed):
    """The claim *error*: `max |f(E_t, e_t) - y_t| <= epsilon`."""

    name = "error"
    options = frozenset({"epsilon", "max_prec"})

    def is_usual(self, weights: Memorizer) -> bool:
        """Return whether outputs are numbers of the targets, and not scores of classes."""
        return not _scores(weights)

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

    def applies(self, weights: Memorizer) -> bool:
        """Return whether there are several outputs."""
        return weights.layer.target_dim > 1

    def is_usual(self, weights: Memorizer) -> bool:
        """Return whether only the largest output says something."""
        return _scores(weights)

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


def _scores(weights: Memorizer) -> bool:
    """Return whether outputs of tangent heads are scores of classes."""
    return weights.record.construction == "tangent" and bool(weights.record.classes)


GROUPING, RANK, ERROR, LABELS = Grouping(), LayerRank(), Error(), Labels()
