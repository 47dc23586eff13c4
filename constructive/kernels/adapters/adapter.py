"""What an adapter has to say: how a library is called, and what it promises."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from constructive.kernels.problem import Problem
from constructive.kernels.spec import FullyMasked
from constructive.support.arrays import Array


class Adapter(ABC):
    """A problem in the words of one library.

    Attributes:
        name: of the adapter, a key of `ADAPTERS`
        library: whose arrays `Problem.tensors` makes: "numpy", "torch" or "jax"
        layout: of q, k, v and the output: "BHTd", "BTHd" or "packed"
        models: the row of the model of floating point that the library claims, by dtype
        fully_masked: what a row without a visible key is: "zeros", "nan" or "mean"
    """

    name: ClassVar[str]
    library: ClassVar[str]
    layout: ClassVar[str]
    models: ClassVar[Mapping[str, str]]
    fully_masked: ClassVar[FullyMasked]

    @abstractmethod
    def refuses(self, problem: Problem) -> str | None:
        """Return why the library cannot compute a problem, or None.

        Args:
            problem: the problem
        """

    @abstractmethod
    def options(self, problem: Problem) -> dict[str, Any]:
        """Return the keyword arguments for the library: mask, scale, soft cap and so on.

        Args:
            problem: the problem
        """

    @abstractmethod
    def run(self, problem: Problem, device: str = "cpu") -> Array:
        """Return the output in float64 in the layout (B, H, T_q, d_v).

        Args:
            problem: the problem, not refused
            device: where to compute
        """
