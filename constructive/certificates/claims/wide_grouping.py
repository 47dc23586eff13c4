"""The claim *wide_grouping*: what Theorem 10 asks of the data (`theory.wide_grouping`)."""

import numpy as np

from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.support.progress import report
from constructive.support.verdict import Claim
from constructive.theory import wide_grouping


def _judge(subject: Subject) -> Claim:
    report("check the groups", 0, 1)
    groups = tuple((head.start, head.stop) for head in subject.heads)
    order = np.array(subject.order or range(subject.dataset.num_examples), dtype=np.int64)
    return wide_grouping.prove(subject.dataset, groups, order, subject.rng)


WIDE_GROUPING = ClaimKind(_judge, grouped=True, wide=True, usual=True)
