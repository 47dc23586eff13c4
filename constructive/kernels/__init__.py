"""Tests of attention kernels without guessed tolerances.

>>> import numpy as np
>>> from constructive.kernels import battery, check
>>> def kernel(q, k, v):
...     weights = np.exp(q @ k.swapaxes(-1, -2) / 8)
...     return weights / weights.sum(-1, keepdims=True) @ v
>>> for problem in battery(heads=(2, 2), queries=5, keys=9, cases=["last", "random"]):
...     check(problem, kernel(*problem.tensors("numpy")))

Needs numpy alone. Tensors of torch and jax import what they need when they are asked for.
"""

from constructive.kernels.adapters import ADAPTERS
from constructive.kernels.backward import Backward
from constructive.kernels.batteries import battery, problems, union
from constructive.kernels.cases import CASES
from constructive.kernels.checking import KernelError, Report, check, examine
from constructive.kernels.comparing import diagnose
from constructive.kernels.encodings import (
    Gathered,
    Latent,
    Paged,
    Quantized,
    Rotated,
    packed_four_bits,
)
from constructive.kernels.intervals import Intervals, bounds
from constructive.kernels.invariance import Guarded, invariance
from constructive.kernels.merging import Merge, cut_keys, merges
from constructive.kernels.problem import Problem
from constructive.kernels.spec import TAKES, Spec
from constructive.kernels.writing import Append, Selection, selections

__all__ = [
    "ADAPTERS",
    "CASES",
    "TAKES",
    "Append",
    "Backward",
    "Gathered",
    "Guarded",
    "Intervals",
    "KernelError",
    "Latent",
    "Merge",
    "Paged",
    "Problem",
    "Quantized",
    "Report",
    "Rotated",
    "Selection",
    "Spec",
    "battery",
    "bounds",
    "check",
    "cut_keys",
    "diagnose",
    "examine",
    "invariance",
    "merges",
    "packed_four_bits",
    "problems",
    "selections",
    "union",
]
