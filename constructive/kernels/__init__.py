"""Tests of attention kernels without guessed tolerances.

>>> import numpy as np
>>> from constructive.kernels import battery, check
>>> def kernel(q, k, v):
...     weights = np.exp(q @ k.swapaxes(-1, -2) / 8)
...     return weights / weights.sum(-1, keepdims=True) @ v
>>> for problem in battery(heads=(2, 2), queries=5, keys=9, cases=["last", "random"]):
...     check(problem, kernel(*problem.tensors("numpy")))

Needs numpy alone. Tensors of torch and jax, pictures and strategies import what they need when they
are asked for. The imports below are for those who read them; each name is imported when it is first
used.
"""

from typing import TYPE_CHECKING

from constructive.support.lazy import attach

if TYPE_CHECKING:
    from constructive.kernels.adapters import ADAPTERS as ADAPTERS
    from constructive.kernels.backward import Backward as Backward
    from constructive.kernels.batteries import battery as battery
    from constructive.kernels.batteries import problems as problems
    from constructive.kernels.batteries import union as union
    from constructive.kernels.cases import CASES as CASES
    from constructive.kernels.checking import KernelError as KernelError
    from constructive.kernels.checking import Report as Report
    from constructive.kernels.checking import check as check
    from constructive.kernels.checking import diagnose as diagnose
    from constructive.kernels.checking import examine as examine
    from constructive.kernels.encodings import Gathered as Gathered
    from constructive.kernels.encodings import Latent as Latent
    from constructive.kernels.encodings import Paged as Paged
    from constructive.kernels.encodings import Quantized as Quantized
    from constructive.kernels.encodings import Rotated as Rotated
    from constructive.kernels.encodings import packed_four_bits as packed_four_bits
    from constructive.kernels.encodings import packed_mask as packed_mask
    from constructive.kernels.intervals import Intervals as Intervals
    from constructive.kernels.intervals import bounds as bounds
    from constructive.kernels.problem import Problem as Problem
    from constructive.kernels.spec import Spec as Spec
else:
    __getattr__, _, __all__ = attach(__name__, __file__)

    def __dir__() -> list[str]:
        return __all__
