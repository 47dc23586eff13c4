"""The claim *grouping*: what the construction asks of the data, exactly (`theory.grouping`)."""

from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.support.progress import report
from constructive.support.verdict import Claim
from constructive.theory import grouping


def _judge(subject: Subject) -> Claim:
    report("check the groups", 0, 1)
    groups = tuple((head.start, head.stop) for head in subject.heads)
    if subject.order:
        return grouping.reordered(subject.dataset, groups)
    return grouping.prove(subject.dataset, groups, subject.rng)


GROUPING = ClaimKind(_judge, grouped=True, usual=True)
