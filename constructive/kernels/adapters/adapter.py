"""What an adapter has to say: how a library is called, and what it promises."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, get_args

from constructive.exact.kernel_model import kernel_model_named
from constructive.kernels.inputs import LAYOUTS, Inputs, from_layout
from constructive.kernels.masks import Mask
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
# Logits are stored in the format of the inputs, too.
EAGER: Models = FLASH | {"float16": "eager float16", "bfloat16": "eager bfloat16"}

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

    def version(self) -> str:
        """Return the version of the library, or "" where there is none."""
        from importlib.metadata import version

        first = next(iter(self.packages.values()), None)
        return "" if first is None else version(first)


def called(module: str, name: str) -> Callable[..., Tensor]:
    """Return a function of a library, which is imported when it is called."""

    def attend(*arrays: Tensor, **options: Tensor) -> Tensor:
        return getattr(import_module(module), name)(*arrays, **options)

    return attend


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
