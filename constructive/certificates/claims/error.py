"""The claim *error*: `max |f(E_t, e_t) - y_t| <= epsilon` for stored weights in real arithmetic.

Every operation is enclosed (`claims.evaluation`). An example surely beyond epsilon refutes it; one
whose ball straddles it asks for more bits. Whoever checks the claim has arithmetic of his own, so
an error has to be a little below epsilon (`ROOM`), and epsilon more than 0 (but for a readout of
zeros, where nothing is rounded).
"""

from flint import arb

from constructive.certificates.claims.evaluation import Evaluation
from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.exact.directed import at_least, at_most
from constructive.exact.precision import working_precision
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


def _of(subject: Subject) -> Claim:
    return subject.evaluations.judged_by(lambda evaluation: judge(evaluation, subject.epsilon))


ERROR = ClaimKind(_of, usual=True)
