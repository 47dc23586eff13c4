"""What `certify` proposes of layers: *grouping*, *rank*, *error*, *labels*, and those of pairs.

Nothing here is believed. A proposal that is wrong, or none, leaves a claim undecided. What a claim
states, and its proof, is in the checker's file: `checker/rank.py` (*grouping*, too),
`checker/error.py` (*labels*, too), `checker/paired.py`.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from constructive import checker
from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.data.dataset import Dataset
from constructive.exact import modular
from constructive.layers import residues
from constructive.layers.memorizer import Memorizer
from constructive.layers.residues import Search
from constructive.support.errors import ParameterError
from constructive.support.verdict import Claim, Evidence, Verdict, pack
from constructive.support.work import report, workers
from constructive.theory.assumptions import judged_grouping, propose_grouping


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
        evidence = propose_grouping(subject.data, groups, subject.rng)
        return judged_grouping(subject.data, evidence, layer_of(subject))


class LayerRank(ClaimKind):
    """The claim *rank* of a layer, with a row for each example."""

    name = "rank"
    options = frozenset({"seed"})

    def is_usual(self, weights: Memorizer) -> bool:
        """Return whether heads are fixed, so that a readout has to return any targets."""
        return not weights.record.free

    def judge(self, subject: Subject[Memorizer, Dataset]) -> Claim:
        """Let the checker eliminate."""
        data, layer, rng = subject.data, subject.weights.layer, subject.rng
        rows = data.num_examples, (layer.num_heads, layer.width)

        def search() -> Search:
            return residues.search(layer, data, rng)

        more = "fewer examples or more heads"
        return claim_of(*judged_rank(layer_of(subject), rows, rng, search, more))


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
    """Return whether outputs of free heads are scores of classes."""
    return weights.record.free and bool(weights.record.classes)


GROUPING, RANK, ERROR, LABELS = Grouping(), LayerRank(), Error(), Labels()


# *rank*: all rows of Z are independent, so these heads have a readout for all targets.
#
# Proof by one prime p and one value a at which Z has rank T modulo p (`layers.residues`). What a
# certificate carries:
#
# - p, a, and T columns C of Z that are independent modulo p. To eliminate Z(a)[:, C] again proves
#   the claim.
# - The solution X of Z(a)[:, C] X = B modulo p for `ROUNDS` columns B that nobody can choose: they
#   are the SHAKE-256 stream of the hashes of data and weights, of p, a and C. If Z(a)[:, C] were
#   singular, a random column would lie in its range with probability at most 1/p, and so no X would
#   exist but with probability p^-ROUNDS < 2^-250. An attacker who tries 2^128 certificates in
#   search of an accident still fails but for 2^-122. To check Z(a)[:, C] X = B costs O(T^2).
#
# The second is the certificate of Kaltofen, Nehring and Saunders (*Quadratic-time certificates in
# linear algebra*, ISSAC 2011), with the verifier's random vectors drawn from a hash function (Fiat
# and Shamir), which is modelled as random.

Rows = tuple[int, tuple[int, int]]  # How many, and how many parts of columns, of how many each
Ranked = checker.Layer | checker.Decoder
Judged = tuple[checker.Found, Evidence]  # What the checker finds, and of what


def judged_rank(
    about: Ranked,
    rows: Rows,
    rng: np.random.Generator,
    search: Callable[[], Search],
    more: str,
) -> Judged:
    """Let the checker eliminate columns that are probably independent, or else those of a search.

    `more` says what to try where a search finds too few.
    """
    found, given = _at_random(about, rows, rng)
    if found.verdict == checker.UNDECIDED:
        given = _evidence_of(search(), rows[0], more)
        found = checker.verify("rank", given, about)
    if found.verdict == checker.PROVED:
        given["solution"] = pack(about.solution)
    return found, given


def _at_random(about: Ranked, rows: Rows, rng: np.random.Generator) -> Judged:
    """Try random points until no denominator vanishes; REFUTED where no W_Q, W_K have the rank."""
    columns, prime = residues.likely_columns(*rows, rng), next(modular.safe_primes())
    for retries in range(residues.VANISHING):
        if len(columns) > rows[0]:
            break  # a search has to choose
        given = {
            "prime": prime,
            "value": int(rng.integers(2, prime - 1)),
            "retries": retries,
            "columns": pack(columns),
        }
        found = checker.verify("rank", given, about)
        if found.verdict == checker.PROVED:
            return found, given
        if found.witness != checker.VANISHES:
            break
    return checker.verify("rank", {}, about), {}


def _evidence_of(found: Search, total: int, more: str) -> Evidence:
    """Return a prime, a point and columns at which Z has rank T, or why there are none."""
    if found.point is None:
        return {"advice": f"softmax denominators vanish at all {found.retries} points"}
    if found.rank < total:
        return {
            "advice": f"rank Z >= {found.rank}, and probably equal: that is the rank modulo "
            f"{found.tried} primes at random x; try {more}"
        }
    return {
        "prime": found.point.prime,
        "value": found.point.value,
        "retries": found.retries,
        "columns": pack(found.columns),
    }


# Heads in pairs, whose proof takes no T x T matrix: what is proposed is the order in which pairs
# take the examples. What the checker makes of it is in the last section of
# proofs/12-paired-heads.md.

PAIRED_CLAIMS = "rank", "error"  # Those of certificates of paired heads, in their order
# Examples up to which paired heads are judged as any others, where this proof fails, or is asked
# for together with other claims: its certificates have no place for those.
_LARGEST_DENSE = 2000


def attempt_paired(
    subject: Subject[Memorizer, Dataset], asked: tuple[str, ...]
) -> tuple[Claim, ...] | None:
    """Return the claims, or None where they are to be judged as those of any other heads.

    That is where these are not paired, or other claims are asked for, too, or some are undecided
    and the examples are few. Raises ParameterError where other claims are asked for, and a large
    matrix would be needed.
    """
    total = subject.data.num_examples
    order = order_of(subject.weights, subject.data)
    about = None if order is None else paired_layer(subject.weights, subject.data, order)
    if order is None or about is None:
        return None
    others = [name for name in asked if name not in PAIRED_CLAIMS]
    if "rank" in asked and others and total > _LARGEST_DENSE:
        raise ParameterError(
            f"rank beside {', '.join(others)} would take a T x T matrix for "
            f"T={total} examples; alone, the proof of paired heads takes none",
            witness=total,
            suggestion="two certificates: one of "
            f"{','.join(x for x in asked if x in PAIRED_CLAIMS)}, and one of {','.join(others)}",
        )
    if others:
        return None
    proposed = {"rank": order, "error": {"bound": epsilon_of(subject).hex()}}
    claims = tuple(
        claim_of(checker.verify(name, proposed[name], about), proposed[name])
        for name in PAIRED_CLAIMS
        if name in asked
    )
    decided = all(claim.verdict is not Verdict.UNDECIDED for claim in claims)
    return claims if decided or total > _LARGEST_DENSE else None


def order_of(memorizer: Memorizer, dataset: Dataset) -> Evidence | None:
    """Return the order on record, and where the examples of each pair end, if it is of these."""
    record, pairs = memorizer.record, memorizer.layer.num_heads // 2
    if set(record.order) != set(range(dataset.num_examples)):
        return None
    stops = [head.stop for head in record.heads[1 : 2 * pairs : 2]]
    return {"order": pack(record.order), "stops": pack(stops)}


def paired_layer(
    memorizer: Memorizer, dataset: Dataset, order: Evidence
) -> checker.PairedLayer | None:
    """Return the layer as the checker has it, or None for others than pairs along one key."""
    if dataset.lengths is not None:
        return None
    arrays = {
        "contexts": dataset.on_disk or dataset.contexts,
        "queries": dataset.queries,
        "targets": dataset.targets,
    }
    tensors = memorizer.layer.tensors
    try:
        about: checker.PairedLayer = checker.paired_layer(
            tensors, arrays, jobs=workers(), tell=report
        )
        about.arrange(order)
    except ValueError:
        return None
    return about
