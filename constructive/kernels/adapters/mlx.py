"""mlx.core.fast.scaled_dot_product_attention."""

from typing import Any, ClassVar

import numpy as np

from constructive.kernels.adapters.adapter import ALL, SOFT_CAP, Adapter, Models, Packages
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal
from constructive.kernels.spec import FullyMasked, numpy_dtype


class Mlx(Adapter):
    """A causal mask by name where it ends at the last key, all others as booleans or numbers."""

    name: ClassVar[str] = "mlx"
    packages: ClassVar[Packages] = {"mlx.core": "mlx"}
    library: ClassVar[str] = "numpy"
    layout: ClassVar[str] = "BHTd"
    models: ClassVar[Models] = {
        "float32": "flash float32",
        "float16": "eager float16",
        "bfloat16": "eager bfloat16",
    }
    fully_masked: ClassVar[FullyMasked] = "mean"
    can: ClassVar[frozenset[str]] = ALL - {SOFT_CAP}

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return scale, mask and sinks."""
        found: dict[str, Any] = {"scale": problem.spec.factor}
        if problem.sinks is not None:
            found["sinks"] = _array(problem.sinks.astype(numpy_dtype(problem.spec.dtype)))
        if self.is_alone(problem, Causal("bottom-right")):
            return found | {"mask": "causal"}
        mask = self.masked(problem, "mask")
        return found | {name: _array(array) for name, array in mask.items()}

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output in float32, (B, H, T_q, d_v)."""
        import mlx.core as mx  # noqa: PLC0415 - an extra

        q, k, v = (_array(x) for x in (q, k, v))
        out = mx.fast.scaled_dot_product_attention(q, k, v, **options)
        return np.asarray(out.astype(mx.float32))


def _array(array: Any) -> Any:  # noqa: ANN401
    """Return an array of mlx of the same format."""
    import mlx.core as mx  # noqa: PLC0415 - an extra

    if array.dtype == np.bool_:
        return mx.array(array)
    return mx.array(array.astype(np.float32)).astype(getattr(mx, str(array.dtype)))
