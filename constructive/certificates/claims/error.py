"""The claim *error*: `max |f(E_t, e_t) - y_t| <= epsilon` for stored weights in real arithmetic.

Every operation is enclosed (`claims.evaluation`). An example surely beyond epsilon refutes it; one
whose ball straddles it asks for more bits. A checker has arithmetic of its own, so
an error has to be a little below epsilon (`ROOM`), and epsilon more than 0 (but for a readout of
zeros, where nothing is rounded).
"""

import math

import numpy as np
from flint import arb

from constructive.certificates.claims.evaluation import Evaluation, Evaluations
from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.data.dataset import Dataset
from constructive.exact.directed import at_least, at_most, working_precision
from constructive.layers.memorizer import Memorizer
from constructive.support.verdict import Claim, Verdict

STATEMENT = "max |f(E_t, e_t) - y_t| <= {!r}"
ROOM = 1 + 2.0**-30


def judge(evaluation: Evaluation, epsilon: float) -> Claim:
    """Compare every residual with epsilon."""
    with working_precision(evaluation.prec):
        return _judge(evaluation, epsilon)


def _judge(evaluation: Evaluation, epsilon: float) -> Claim:
    statement = STATEMENT.format(epsilon)
    allowed, straddling = arb(epsilon), None
    room = epsilon > 0 or evaluation.readout == 0
    rows, columns = evaluation.residuals.nrows(), evaluation.residuals.ncols()
    for index, residual in enumerate(evaluation.residuals.entries()):
        size = abs(residual)
        if room and size * ROOM <= allowed:
            continue
        example, entry = divmod(index, columns)
        if size > allowed and size.is_finite():
            least = at_least(size, epsilon)
            detail = f"at example {example}, |f - y| is {least} or more"
            witness = (example, entry) if columns > 1 else example
            return Claim("error", statement, Verdict.REFUTED, detail, witness)
        straddling = example if straddling is None else straddling
    if straddling is not None:
        detail = (
            f"at example {straddling} the enclosure straddles epsilon ({evaluation.how}); raise "
            "max_prec= or epsilon="
        )
        return Claim("error", statement, Verdict.UNDECIDED, detail)
    bound = at_most(evaluation.largest_residual, epsilon)
    detail = f"max |f - y| <= {bound} ({evaluation.how}, {rows} examples)"
    evidence = {"bound": epsilon.hex()}
    return Claim("error", statement, Verdict.PROVED, detail, evidence=evidence)


class Error(ClaimKind):
    """The claim *error*."""

    name = "error"
    statement = STATEMENT
    options = frozenset({"epsilon", "max_prec", "executor"})

    def judge(self, subject: Subject[Memorizer, Dataset]) -> Claim:
        """Compare every residual with epsilon, with as many bits as that takes."""
        epsilon = epsilon_of(subject)
        return Evaluations.of(subject).judged_by(lambda evaluation: judge(evaluation, epsilon))


def epsilon_of(subject: Subject[Memorizer, Dataset]) -> float:
    """Return the epsilon that was given, or a millionth of the largest target, to one digit."""
    if subject.options.epsilon is not None:
        return subject.options.epsilon
    largest = float(np.abs(subject.data.targets).max()) or 1.0
    return float(f"{1e-6 * largest:.0e}") or math.ulp(0.0)


ERROR = Error()
