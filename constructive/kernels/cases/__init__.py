"""Cases of problems by name: which key each query reads. A new case is a class and a line here."""

from constructive.kernels.cases.batch import Batch
from constructive.kernels.cases.case import Case
from constructive.kernels.cases.ends import First, Last
from constructive.kernels.cases.level import HIGH, LOW, LOWEST
from constructive.kernels.cases.random import LargeValues, Random
from constructive.kernels.cases.scale import Scale, SoftCap
from constructive.kernels.cases.ties import CappedTies, Ties
from constructive.kernels.cases.uniform import Orthogonal, Uniform

# In the order in which `battery` takes them.
CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Last(), First(), Random(), Ties(), Uniform(), Orthogonal(), HIGH, LOW, LOWEST, Scale(),
        SoftCap(), CappedTies(), LargeValues(), Batch(),
    )
}  # fmt: skip
