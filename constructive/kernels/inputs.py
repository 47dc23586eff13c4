"""What a kernel gets: q, k, v, the mask and what else shapes its logits."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from constructive.kernels import memory
from constructive.kernels.cases import Draft
from constructive.kernels.masks import Boolean, Causal, Window
from constructive.kernels.spec import Spec
from constructive.support.arrays import Array, Booleans


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of an attention kernel, as adapters hand them on; `Problem` says its fields."""

    spec: Spec
    case: str
    draft: Draft
    v: Array
    visible: Booleans
    slopes: Array | None
    sinks: Array | None

    @property
    def q(self) -> Array:
        """Queries, (B, H, T_q, d), in float64."""
        return self.draft.q

    @property
    def k(self) -> Array:
        """Keys, (B, G, T_k, d), in float64."""
        return self.draft.k

    @property
    def mask(self) -> Booleans | None:
        """Which keys may be seen, (B, 1 or H, T_q, T_k); None if all are."""
        return None if self.visible.all() else self.visible

    @cached_property
    def bias(self) -> Array | None:
        """What is added to logits for ALiBi, (B, H, T_q, T_k), or None."""
        return None if self.slopes is None else alibi(self.spec, self.slopes)

    @property
    def added(self) -> Array | None:
        """The additive mask: bias, and -inf at hidden keys; None if a boolean mask says it."""
        boolean = self.spec.mask(Boolean)
        if self.bias is None and (boolean is None or not boolean.additive):
            return None
        bias = np.zeros(()) if self.bias is None else self.bias
        found: Array = np.where(self.visible, bias, -np.inf)
        return found

    def tensors(
        self,
        library: str = "numpy",
        *,
        layout: str = "BHTd",
        device: str = "cpu",
        dtype: str | None = None,
        placed: str = "contiguous",
        poison: bool = False,
    ) -> tuple[Any, Any, Any]:
        """Return q, k and v.

        Args:
            library: "numpy", "torch" or "jax"
            layout: "BHTd" (batch, heads, tokens, d), "BTHd" (batch, tokens, heads, d), or "packed"
                (tokens of all sequences, heads, d)
            device: where tensors of torch and jax are
            dtype: another format than that of the spec
            placed: how arrays lie in memory, a key of `places.PLACES`
            poison: whether keys and values beyond the length of a sequence are NaN; for kernels
                that get lengths

        Raises:
            ParameterError: for another library, layout or place, or a format that does not hold
                the numbers

        Example:
            >>> from constructive.kernels import Problem
            >>> problem = Problem.build(Spec(queries=3, keys=5, heads=(4, 2), head_dim=16))
            >>> [array.shape for array in problem.tensors(layout="BTHd")]
            [(1, 3, 4, 16), (1, 5, 2, 16), (1, 5, 2, 16)]
        """
        name = self.spec.dtype if dtype is None else dtype
        return memory.tensors(
            self.spec, (self.q, self.k, self.v), library=library, layout=layout, device=device,
            dtype=name, placed=placed, poison=poison,
        )  # fmt: skip

    def mask_tensor(self, library: str = "numpy", *, additive: bool = False) -> Any:  # noqa: ANN401
        """Return the mask as an array, (B, 1 or H, T_q, T_k).

        Args:
            library: "numpy", "torch" or "jax"
            additive: as numbers to add, in the format of the inputs; else True is visible
        """
        if not additive:
            return memory.converted(np.ascontiguousarray(self.visible), library, "cpu", "bool")
        bias = np.zeros(()) if self.bias is None else self.bias
        numbers = np.where(self.visible, bias, -np.inf)
        return memory.converted(numbers, library, "cpu", self.spec.output.name)


def alibi(spec: Spec, slopes: Array) -> Array:
    """Return -slope |distance| of a key from the diagonal, (B, H, T_q, T_k)."""
    causal, window = spec.mask(Causal), spec.mask(Window)
    alignment = next((m.alignment for m in (causal, window) if m is not None), "bottom-right")
    queries, keys = spec.lengths
    shift = keys - queries if alignment == "bottom-right" else np.zeros_like(keys)
    diagonal = np.arange(spec.queries)[:, None] + shift[:, None, None, None]
    found: Array = -slopes[:, None, None] * np.abs(diagonal - np.arange(spec.keys))
    return found
