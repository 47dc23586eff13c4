"""The claim *error*: max |f(E_t, e_t) - y_t| <= epsilon, for the stored weights in real arithmetic.

Every operation is enclosed (`exact.ball`). An example surely beyond epsilon refutes the claim; one
whose ball straddles it asks for more bits.
"""

from flint import arb

from constructive.claims.evaluation import Evaluation
from constructive.verdict import Claim, Verdict


def judge(evaluation: Evaluation, epsilon: float) -> Claim:
    """Compare every residual with epsilon."""
    statement = f"max |f(E_t, e_t) - y_t| <= {epsilon!r}"
    allowed = arb(epsilon)
    straddling = None
    rows, columns = evaluation.residuals.nrows(), evaluation.residuals.ncols()
    for index, residual in enumerate(evaluation.residuals.entries()):
        size = abs(residual)
        if size <= allowed:
            continue
        example, entry = divmod(index, columns)
        if size > allowed:
            detail = f"at example {example}, |f - y| is {downwards(float(size.lower()))} or more"
            witness = (example, entry) if columns > 1 else example
            return Claim("error", statement, Verdict.REFUTED, detail, witness)
        straddling = example if straddling is None else straddling
    bits = f"balls of {evaluation.prec} bits"
    if straddling is not None:
        detail = (
            f"at example {straddling} the enclosure straddles epsilon ({bits}); raise max_prec="
        )
        return Claim("error", statement, Verdict.UNDECIDED, detail)
    bound = evaluation.largest_residual
    detail = f"max |f - y| <= {_short(bound)} ({bits}, {rows} examples)"
    evidence = {"bound": float(epsilon).hex()}
    return Claim("error", statement, Verdict.PROVED, detail, evidence=evidence)


def _short(bound: arb) -> str:
    """A few digits of an exact number, rounded up, for people to read."""
    return upwards(float(bound))


def downwards(value: float) -> str:
    """Two digits of a positive number, rounded down.

    >>> downwards(0.482), downwards(0.486)
    ('4.8e-01', '4.6e-01')
    """
    text = f"{value:.1e}"
    return text if float(text) <= value else f"{value * 0.95:.1e}"


def upwards(value: float) -> str:
    """Two digits of a positive number, rounded up.

    >>> upwards(1.21e-9), upwards(0.0)
    ('1.3e-09', '0')
    """
    if value == 0:
        return "0"
    text = f"{value:.1e}"
    return text if float(text) >= value else f"{value * 1.05:.1e}"
