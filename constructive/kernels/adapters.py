"""Adapters: problems in the words of PyTorch; `tests/benchmarks/kernels` has other libraries."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from constructive.exact.kernel_model import kernel_model_named
from constructive.kernels.inputs import LAYOUTS, Inputs, from_layout
from constructive.kernels.masks import Causal, Mask
from constructive.kernels.spec import DTYPES, FullyMasked, as_float64, needs
from constructive.support.arrays import Array, Tensor
from constructive.support.errors import require_known, require_packages

# Names of `spec.TAKES`, and two more.
MASK, BIAS, SCALE, SOFT_CAP, SINK = "mask", "bias", "scale", "soft cap", "sink"
GROUPS, WIDTH = "grouped heads", "values of another width than keys"
# What a problem may need beyond q, k, v and a format, and not every library has.
ALL = frozenset({SOFT_CAP, SINK, BIAS, MASK, SCALE, GROUPS, WIDTH})

Models = dict[str, str]
# Logits and sums in float32 or more; weights in the format of the inputs; one rounding.
FLASH: Models = {name: f"flash {name}" for name in ("float64", "float32", "float16", "bfloat16")}

Options = dict[str, Any]


class Refused(Exception):  # noqa: N818 - a library that refuses is not at fault
    """The library itself said that it does not compute such a problem."""


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """A problem in the words of one library."""

    attend: Callable[..., Tensor]  # what the library computes, of q, k, v and options
    options: Callable[[Inputs], Options]  # keyword arguments of `attend`: mask, scale and so on
    models: Models  # the row of the model of floating point that the library claims, by dtype
    can: frozenset[str]  # what the library has of `ALL`
    library: str = "numpy"  # whose arrays `attend` gets: "numpy", "torch" or "jax"
    layout: str = "BHTd"  # of q, k, v and the output: also "BTHd" or "packed"
    placed: str | None = None  # how arrays lie in memory: "contiguous" if it takes no other
    fully_masked: FullyMasked = "zeros"  # what a row without a visible key is: also "nan", "mean"
    # names of distributions by the modules that it imports; the first has the version
    packages: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ("cpu",)  # where it runs
    # why it cannot compute a problem though its format and features are there, or None
    excludes: Callable[[Inputs], str | None] = lambda _: None

    def refuses(self, problem: Inputs) -> str | None:
        """Return why the library cannot compute a problem, or None."""
        reason = self.excludes(problem)
        if reason is not None:
            return reason
        if problem.spec.dtype not in self.models:
            return f"no {problem.spec.dtype}"
        spec = problem.spec
        missing = {min(names & ALL) for names in needs(spec) if not names & self.can}
        beside = {GROUPS: spec.group > 1, WIDTH: spec.d_v != spec.head_dim}
        missing |= {name for name, is_needed in beside.items() if is_needed} - self.can
        return f"no {', no '.join(sorted(missing))}" if missing else None

    def run(self, problem: Inputs, device: str = "cpu") -> Array:
        """Return the output in float64 in the layout (B, H, T_q, d_v)."""
        if self.library != "jax":
            return self._computed(problem, device)
        import jax

        with jax.enable_x64(problem.spec.dtype == "float64"):
            return self._computed(problem, device)

    def _computed(self, problem: Inputs, device: str) -> Array:
        q, k, v = problem.tensors(
            self.library, layout=self.layout, device=device, placed=self.placed
        )
        found = self.options(problem)
        if self.library == "torch":
            found = {
                name: value.to(device) if hasattr(value, "to") else value
                for name, value in found.items()
            }
        return from_layout(problem.spec, as_float64(self.attend(q, k, v, **found)), self.layout)

    def require_known_names(self) -> None:
        """Raise ParameterError for a field with a word that nothing knows."""
        require_known("library", self.library, ("numpy", "torch", "jax"))
        require_known("layout", self.layout, LAYOUTS)
        require_known("fully_masked", self.fully_masked, get_args(FullyMasked))
        for dtype, model in self.models.items():
            require_known("models", dtype, DTYPES)
            kernel_model_named(model)
        for feature in self.can:
            require_known("can", feature, sorted(ALL))

    def require(self) -> None:
        """Import the library."""
        require_packages(self.packages, purpose="this adapter")


def masked(
    problem: Inputs, name: str, library: str = "numpy", *, additive: bool = False
) -> Options:
    """Return the mask as an option; {} if all keys are seen and nothing is added."""
    if problem.added is None and problem.mask is None:
        return {}
    return {name: problem.mask_tensor(library, additive=additive or problem.added is not None)}


def scaled(problem: Inputs) -> Options:
    """Return the scale as an option; {} where it is the usual one."""
    return {} if problem.spec.scale is None else {"scale": problem.spec.scale}


def is_alone(problem: Inputs, mask: Mask) -> bool:
    """Return whether a mask is the only one of a problem, and no numbers are added."""
    return problem.added is None and problem.spec.masks == (mask,)


# torch.nn.functional.scaled_dot_product_attention: masks by flag, as booleans, as numbers to add.


def _by_flag(problem: Inputs) -> Options:
    """Return causal masks by flag where it means the same, all others as booleans or numbers."""
    if is_alone(problem, Causal("top-left")):
        return {"is_causal": True} | _grouped(problem)
    return _as_booleans(problem)


def _as_booleans(problem: Inputs) -> Options:
    return masked(problem, "attn_mask", "torch") | _grouped(problem)


def _as_numbers(problem: Inputs) -> Options:
    return masked(problem, "attn_mask", "torch", additive=True) | _grouped(problem)


def _grouped(problem: Inputs) -> Options:
    return scaled(problem) | ({"enable_gqa": True} if problem.spec.group > 1 else {})


def sdpa(*arrays: Tensor, **options: Tensor) -> Tensor:
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention(*arrays, **options)


def _backend(name: str) -> Callable[..., Tensor]:
    """Return one of torch's implementations, as `sdpa_kernel` selects it."""

    def attend(q: Tensor, k: Tensor, v: Tensor, **options: Tensor) -> Tensor:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel([getattr(SDPBackend, name)]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns why it refuses; `Refused` says it
            try:
                return sdpa(q, k, v, **options)
            except RuntimeError as error:
                if "No viable backend" in str(error) or "No available kernel" in str(error):
                    raise Refused(f"torch has no kernel of {name} for it") from error
                raise

    return attend


_SDPA = Adapter(
    attend=sdpa,
    options=_by_flag,
    packages={"torch": "torch"},
    library="torch",
    models=FLASH,
    can=ALL - {SOFT_CAP, SINK},
    devices=("cpu", "cuda"),
)

_FUSED = replace(_SDPA, placed="contiguous")


ADAPTERS: dict[str, Adapter] = {
    "torch": _SDPA,
    "torch-boolean": replace(_SDPA, options=_as_booleans),
    "torch-additive": replace(_SDPA, options=_as_numbers),
    "torch-math": replace(_SDPA, attend=_backend("MATH")),
    "torch-flash": replace(_FUSED, attend=_backend("FLASH_ATTENTION")),
    "torch-efficient": replace(_FUSED, attend=_backend("EFFICIENT_ATTENTION"), devices=("cuda",)),
    "torch-cudnn": replace(_FUSED, attend=_backend("CUDNN_ATTENTION"), devices=("cuda",)),
}
