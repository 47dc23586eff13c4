"""paddle.nn.functional.scaled_dot_product_attention."""

from typing import Any, ClassVar

import numpy as np

from constructive.kernels.adapters.adapter import (
    BIAS,
    GROUPS,
    MASK,
    SCALE,
    WIDTH,
    Adapter,
    Models,
    Packages,
)  # fmt: skip
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal
from constructive.kernels.spec import FullyMasked


class Paddle(Adapter):
    """Causal masks by flag where it means the same, else booleans or numbers."""

    name: ClassVar[str] = "paddle"
    packages: ClassVar[Packages] = {"paddle": "paddlepaddle"}
    library: ClassVar[str] = "numpy"
    layout: ClassVar[str] = "BTHd"
    models: ClassVar[Models] = {"float32": "flash float32", "float64": "flash float64"}
    fully_masked: ClassVar[FullyMasked] = "nan"
    can: ClassVar[frozenset[str]] = frozenset({MASK, BIAS, SCALE, GROUPS, WIDTH})

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return is_causal, attn_mask, scale and enable_gqa."""
        if self.is_alone(problem, Causal("top-left")):
            return self.scaled(problem) | {"is_causal": True}
        mask = self.masked(problem, "attn_mask")
        return self.scaled(problem) | {name: _tensor(array) for name, array in mask.items()}

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, T_q, H, d_v)."""
        import paddle  # noqa: PLC0415 - an extra

        q, k, v = (_tensor(x) for x in (q, k, v))
        out = paddle.nn.functional.scaled_dot_product_attention(q, k, v, **options)
        return out.astype("float64").numpy()


def _tensor(array: Any) -> Any:  # noqa: ANN401
    import paddle  # noqa: PLC0415 - an extra

    return paddle.to_tensor(np.ascontiguousarray(array))
