"""The smallest claim there is, how many targets are not zero; and two that break the rules."""

import dataclasses

import numpy as np

from constructive import Claim, Verdict
from constructive.certificates.claims.kind import ClaimKind
from constructive.support.progress import report


class Toy(ClaimKind):
    name = "toy"
    statement = "{} of the targets are not zero"
    usual = False

    def judge(self, subject):
        report("play", 0, 1)
        count = int(np.count_nonzero(subject.data.targets))
        if not count:
            statement = self.statement.format("some")
            return Claim("toy", statement, Verdict.REFUTED, "all are zero", 0)
        statement, evidence = self.statement.format(count), {"count": count}
        return Claim("toy", statement, Verdict.PROVED, "counted", evidence=evidence)


class Liar(Toy):
    """It calls everything PROVED."""

    def judge(self, subject):
        return dataclasses.replace(super().judge(subject), verdict=Verdict.PROVED, witness=None)


class Reckless(Toy):
    """It forgets what a checker needs."""

    def judge(self, subject):
        return dataclasses.replace(super().judge(subject), evidence={})


TOY, LIAR, RECKLESS = Toy(), Liar(), Reckless()
