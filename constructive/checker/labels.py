"""The claim *labels*: the largest output is that of the label."""

import numpy as np

from .bounds import UNIT, below, up
from .claim import Claim, Refuted, Shown
from .files import require


def labels_of(targets):
    """The label of each one-hot target, and how many classes there are."""
    require(targets.ndim == 2 and targets.shape[1] > 1, "targets have no classes")
    one_hot = ((targets == 0) | (targets == 1)).all(axis=1) & (targets.sum(axis=1) == 1)
    if not one_hot.all():
        wrong = int(one_hot.argmin())
        raise Refuted(f"the target of example {wrong} is not one-hot", wrong)
    return targets.argmax(axis=1), targets.shape[1]


class Labels(Claim):
    """The output of each label leads any other by a bound, which is not zero."""

    name, of_lengths = "labels", True
    statement = (
        "targets are one-hot, and the output of each label is larger than any other by {!r} or more"
    )
    unshown = "targets are one-hot, and the output of each label is larger than any other"

    def needs(self, about):
        return about.real_needs()

    def check(self, about):
        labels, _ = labels_of(about.data["targets"])
        found, rows = about.floats, np.arange(len(labels))
        require(found is not None, "float64 does not show what outputs are")
        out = found.outputs
        off = up(found.off + 4 * UNIT * np.abs(out))  # and the differences
        apart, both = (out[rows, labels] - out.T).T, up((off[rows, labels] + off.T).T)
        least, most = apart - both, apart + both
        least[rows, labels] = most[rows, labels] = np.inf
        wrong = np.flatnonzero(most.min(axis=1) < 0)
        if len(wrong):
            detail = f"at example {wrong[0]} another output is larger than that of its label"
            raise Refuted(detail, int(wrong[0]))
        require("bound" in self.evidence and self.bound > 0, "labels which lead by nothing")
        leads = np.ldexp(least.min(axis=1), found.scales)  # rounded, below 2^-1022
        require((leads > self.bound).all(), f"a label is not shown to lead by {self.bound!r}")
        detail = f"labels lead by {below(float(leads.min()), 2, self.bound)} or more (float64 with "
        return Shown((self.bound,), f"{detail}a-priori bounds, {len(labels)} examples)")
