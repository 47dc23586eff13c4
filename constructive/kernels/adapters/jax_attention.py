"""jax.nn.dot_product_attention, and those of Flax and Keras."""

from typing import Any, ClassVar

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
from constructive.kernels.adapters.torch_attention import EAGER, FLASH
from constructive.kernels.inputs import Inputs
from constructive.kernels.masks import Causal, RightPadding, VariableLengths, Window
from constructive.kernels.spec import FullyMasked, numpy_dtype
from constructive.support.arrays import Array


class Jax(Adapter):
    """Masks in words where jax has them, else as booleans. Its softmax is in float32 at most."""

    name: ClassVar[str] = "jax"
    packages: ClassVar[Packages] = {"jax": "jax"}
    library: ClassVar[str] = "jax"
    layout: ClassVar[str] = "BTHd"
    models: ClassVar[Models] = {name: model for name, model in FLASH.items() if name != "float64"}
    fully_masked: ClassVar[FullyMasked] = "mean"
    can: ClassVar[frozenset[str]] = frozenset({MASK, BIAS, SCALE, GROUPS})
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def run(self, problem: Inputs, device: str = "cpu") -> Array:
        """Return the output; float64 is enabled for a problem in float64 alone."""
        import jax  # noqa: PLC0415 - an extra

        with jax.enable_x64(problem.spec.dtype == "float64"):
            return super().run(problem, device)

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return is_causal, local_window_size, lengths, mask, bias and scale."""
        spec, found = problem.spec, self.scaled(problem)
        left = []
        for mask in spec.masks:
            if mask == Causal("top-left"):
                found["is_causal"] = True
            elif (
                isinstance(mask, Window)
                and None not in {mask.left, mask.right}
                and (mask.alignment == "top-left" or spec.queries == spec.keys)
            ):
                found["local_window_size"] = (mask.left, mask.right)
            elif isinstance(mask, (RightPadding, VariableLengths)):
                found["key_value_seq_lengths"] = spec.lengths[1].astype("int32")
            else:
                left.append(mask)
        return found | masked(problem, everything=bool(left))

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, T_q, H, d_v)."""
        import jax  # noqa: PLC0415 - an extra

        return jax.nn.dot_product_attention(q, k, v, **options)


class Flax(Jax):
    """flax.linen.dot_product_attention: softmax in the format of the inputs."""

    name: ClassVar[str] = "flax"
    packages: ClassVar[Packages] = {"flax": "flax", "jax": "jax"}
    models: ClassVar[Models] = EAGER
    can: ClassVar[frozenset[str]] = frozenset({MASK, BIAS, WIDTH})

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return mask and bias."""
        return masked(problem, everything=problem.mask is not None)

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, T_q, H, d_v)."""
        from flax import linen  # noqa: PLC0415 - an extra

        return linen.dot_product_attention(q, k, v, **options)


class FlaxNnx(Flax):
    """flax.nnx.dot_product_attention, which calls that of jax."""

    name: ClassVar[str] = "flax-nnx"
    models: ClassVar[Models] = Jax.models
    can: ClassVar[frozenset[str]] = frozenset({MASK, BIAS})

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, T_q, H, d_v)."""
        from flax import nnx  # noqa: PLC0415 - an extra

        return nnx.dot_product_attention(q, k, v, **options)


class Keras(Jax):
    """keras.ops.dot_product_attention; its arrays are those of jax, so KERAS_BACKEND is jax."""

    name: ClassVar[str] = "keras"
    packages: ClassVar[Packages] = {"keras": "keras", "jax": "jax"}

    def refuses(self, problem: Inputs) -> str | None:
        """Return why: Keras computes with another backend."""
        import keras  # noqa: PLC0415 - an extra

        other = keras.backend.backend() != "jax"
        return "KERAS_BACKEND is not jax" if other else super().refuses(problem)

    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return is_causal, mask, bias and scale."""
        spec, found = problem.spec, self.scaled(problem)
        if spec.masks == (Causal("top-left"),):
            return found | {"is_causal": True} | masked(problem, everything=False)
        return found | masked(problem, everything=problem.mask is not None)

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return the output, (B, T_q, H, d_v)."""
        import keras  # noqa: PLC0415 - an extra

        return keras.ops.dot_product_attention(q, k, v, **options)


def masked(problem: Inputs, *, everything: bool) -> dict[str, Any]:
    """Return mask and bias as arrays of numpy."""
    found: dict[str, Any] = {}
    if problem.bias is not None:
        found["bias"] = problem.bias.astype(numpy_dtype(problem.spec.output.name))
    return found | ({"mask": problem.mask_tensor()} if everything else {})
