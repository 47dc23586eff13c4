"""The claims *labels* and *inseparable*: the largest output is that of the label; or never is.

*labels*. Let rows of Z be scaled by powers of two that bring contexts to size one, which scales
outputs by positive numbers. In float64 z is within a radius of Z, entry by entry, and u near the
effective readout U. So f = Z U is within gamma |z| |u| + radius sum |u| + |z| |u - U| (and terms of
second order) of z u, and that bounds by how much each label leads.

*inseparable*, by Proposition 32 (proofs/23-labels.md). The certificate carries B, as positive
integers -B_tj for each example t and each class j but its own, and vectors that show which columns
of Z are combinations of others whatever the weights are (`claims.rank`).
"""

from typing import ClassVar

import numpy as np
from flint import arb

from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.certificates.claims.rank import vectors_of
from constructive.certificates.claims.real import Evaluation, Evaluations, nearest_readout
from constructive.constructions.separation import separate
from constructive.data.dataset import Dataset
from constructive.exact import verified
from constructive.exact.directed import at_least
from constructive.exact.float_enclosure import BoundedReadout
from constructive.exact.upward import LONGEST, UNIT, gamma, up
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import floats_of
from constructive.support.arrays import Array, Integers
from constructive.support.verdict import Claim, Verdict, pack
from constructive.support.work import report
from constructive.theory.capacity import spans_of

_ROOM = 2.0  # What is claimed is this much less than what is shown, as a checker has other bounds
_MOST = (1 << 32) - 1  # Largest of the integers m_tj


def leads(
    z: Array, radius: float, readout: BoundedReadout, labels: Integers
) -> tuple[Array, Array]:
    """Bound by how much each label leads, below and above: (T,), in units of the rows of z.

    z: (T, H d), within `radius` of the true rows;  readout: U (1, H d, C)
    """
    numbers, errors = readout.numbers[0], readout.errors[0]
    rows = np.arange(len(z))
    with np.errstate(all="ignore"):  # what overflows, or is not a number, bounds nothing
        outputs = z @ numbers
        sizes = np.abs(z)
        off = gamma(z.shape[1] + 2) * up(sizes @ np.abs(numbers))
        off += up(radius * up((np.abs(numbers) + errors).sum(axis=0))) + up(sizes @ errors)
        off = up(off + 4.0 * UNIT * np.abs(outputs))  # and the differences
        if max(z.shape) > LONGEST:
            off = np.full_like(off, np.inf)
        own, own_off = outputs[rows, labels][:, np.newaxis], off[rows, labels][:, np.newaxis]
        least, most = own - outputs - up(own_off + off), own - outputs + up(own_off + off)
    least[rows, labels] = most[rows, labels] = np.inf
    return least.min(axis=1), most.min(axis=1)


class Labels(ClaimKind):
    """The claim *labels*, of data with one-hot targets."""

    name = "labels"
    statement = (
        "targets are one-hot, and the output of each label is larger than any other by {!r} or more"
    )
    # The statement where nothing is shown.
    unshown: ClassVar[str] = (
        "targets are one-hot, and the output of each label is larger than any other"
    )
    needs_rows = True

    def applies(self, weights: Memorizer) -> bool:
        """Return whether there are several outputs."""
        return weights.layer.target_dim > 1

    def is_usual(self, weights: Memorizer) -> bool:
        """Return whether labels are what was fit."""
        return weights.record.lead > 0.0

    def judge(self, subject: Subject[Memorizer, Dataset]) -> Claim:
        """Refute it where targets are not classes, else look at Z in float64."""
        targets = subject.data.target_matrix
        one_hot = ((targets == 0.0) | (targets == 1.0)).all(axis=1) & (targets.sum(axis=1) == 1.0)
        if not one_hot.all():
            wrong = int(np.argmin(one_hot))
            detail = f"the target of example {wrong} is not one-hot"
            statement = self.unshown.format(len(targets))
            return Claim(self.name, statement, Verdict.REFUTED, detail, wrong)
        evaluation = next(iter(Evaluations.of(subject)))  # of all examples
        return self.judged(subject, evaluation, targets.argmax(axis=1))

    def judged(
        self, subject: Subject[Memorizer, Dataset], evaluation: Evaluation, labels: Integers
    ) -> Claim:
        """Judge it from Z in float64, and the place of each label."""
        report("bound the leads of labels", 0, 1)
        layer = floats_of(subject.weights.layer)
        shape = 1, layer.leading.num_heads * layer.leading.width, layer.leading.target_dim
        readout = nearest_readout(layer, shape)
        least, most = leads(evaluation.rows, evaluation.radius, readout, labels)
        wrong = np.flatnonzero(most < 0.0)
        if len(wrong):
            example = int(wrong[0])
            detail = f"at example {example} another output is larger than that of its label"
            return Claim("labels", self.unshown, Verdict.REFUTED, detail, example)
        with np.errstate(over="ignore"):
            rounded = np.ldexp(least, evaluation.exponents).min()  # below 2^-1022
            shown = float(np.nextafter(rounded, -np.inf))
        claimed = float(f"{shown / _ROOM:.1e}") if 0.0 < shown < np.inf else 0.0
        if not claimed > 0.0:
            detail = (
                f"at example {int(np.argmin(least))} float64 does not show that the label leads; "
                "where outputs are near the targets, the claim error with an epsilon below 1/2 "
                "proves labels"
            )
            return Claim("labels", self.unshown, Verdict.UNDECIDED, detail)
        detail = f"labels lead by {at_least(arb(shown), claimed)} or more ({evaluation.how}, "
        detail += f"{len(labels)} examples)"
        statement, evidence = self.statement.format(claimed), {"bound": claimed.hex()}
        return Claim("labels", statement, Verdict.PROVED, detail, evidence=evidence)


class Inseparable(Labels):
    """The claim *inseparable*, of the same data."""

    name = "inseparable"
    statement = unshown = (
        "targets are one-hot, and no readout of these heads, the stored W_Q and W_K, makes the "
        "output of the label the largest one at all of {} examples"
    )
    usual = False

    def is_usual(self, weights: Memorizer) -> bool:  # noqa: ARG002
        """Return False, whatever was fit."""
        return False

    def judged(
        self, subject: Subject[Memorizer, Dataset], evaluation: Evaluation, labels: Integers
    ) -> Claim:
        """Look for a readout, or for a combination that excludes it."""
        statement = self.statement.format(len(labels))

        def said(verdict: Verdict, detail: str, **more: object) -> Claim:
            return Claim(self.name, statement, verdict, detail, **more)  # type: ignore[arg-type]

        dataset, classes = subject.data, subject.weights.layer.target_dim
        contexts = dataset.filled.contexts
        spans = spans_of(contexts[np.newaxis] if dataset.shared_context else contexts)
        vectors = vectors_of(spans, spans.orthogonal)
        # Columns of Z that span all, whatever the weights are, as the vectors show.
        heads = floats_of(subject.weights.layer).leading.num_heads
        kept = np.ones((heads, dataset.width), dtype=bool)
        kept[0, list(spans.pivots[: vectors["zeros"]])] = False
        kept[1:, list(spans.pivots)] = False
        z = evaluation.rows[:, kept.ravel()]
        found = separate(z, labels, classes)
        if found.effective is not None:
            exact = BoundedReadout(found.effective[None], 0.0 * found.effective[None])
            least = leads(z, evaluation.radius, exact, labels)[0].min()
            if least > 0.0:
                detail = "some readout of these heads has the labels; fit='labels' builds one"
                return said(Verdict.REFUTED, detail, witness={"lead": float(least)})
        if found.combination is None:
            return said(Verdict.UNDECIDED, "float64 finds no combination that shows it")
        multipliers = _integers(found.combination, labels)
        report("a right inverse of Z^T", 0, 1)
        kappa = verified.right_inverse_bound(z.T, evaluation.radius)
        allowed = up(kappa * rest(z, evaluation.radius, combination(multipliers, labels)))
        others = multipliers > 0
        if not (others.sum(axis=1) == classes - 1).all() or not (
            _ROOM * allowed < multipliers[others].min()
        ):
            detail = f"float64 shows no combination: {allowed:.1e} of 2^32 may be lost, and the "
            detail += f"least coefficient is {multipliers.min(where=others, initial=_MOST):.1e}"
            return said(Verdict.UNDECIDED, detail)
        detail = "a combination of leads with positive coefficients is zero for every readout, by "
        detail += f"Gordan; kappa <= {kappa:.1e}"
        return said(Verdict.PROVED, detail, evidence={"multipliers": pack(multipliers)} | vectors)


def _integers(found: Array, labels: Integers) -> Integers:
    """Return -B as integers of 32 bits, and zeros at labels."""
    sizes = -found
    sizes[np.arange(len(labels)), labels] = 0.0
    rounded: Integers = np.rint(sizes * (_MOST / sizes.max())).astype(np.int64)
    return rounded


def combination(multipliers: Integers, labels: Integers) -> Array:
    """Return B (T, C): integers, with rows that sum to zero."""
    whole = -multipliers.astype(np.float64)
    whole[np.arange(len(labels)), labels] = multipliers.sum(axis=1)
    return whole


def rest(z: Array, radius: float, whole: Array) -> Array:
    """Bound all entries of Z^T B, for Z within `radius` of z."""
    with np.errstate(all="ignore"):
        sizes = np.abs(whole)
        off = gamma(len(z) + 2) * up(np.abs(z).T @ sizes)
        off += up(radius * up(sizes.sum(axis=0)))
        bound: Array = up(np.abs(z.T @ whole) + off).max()
    return bound


LABELS, INSEPARABLE = Labels(), Inseparable()
