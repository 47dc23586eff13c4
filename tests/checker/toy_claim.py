"""The smallest claim there is: how many targets are not zero."""

import numpy as np

from constructive import Claim, Verdict
from constructive.certificates.claims.kind import ClaimKind
from constructive.support.progress import report

STATEMENT = "{} of the targets are not zero"


def judge(subject):
    report("play", 0, 1)
    count = int(np.count_nonzero(subject.dataset.targets))
    if not count:
        return Claim("toy", STATEMENT.format("some"), Verdict.REFUTED, "all are zero", 0)
    return Claim(
        "toy", STATEMENT.format(count), Verdict.PROVED, "counted", evidence={"count": count}
    )


TOY = ClaimKind(judge)
