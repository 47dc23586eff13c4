"""What an adapter has to say: how a library is called, and what it promises."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, ClassVar, get_args

from constructive.exact.kernel_model import kernel_model_named
from constructive.kernels.inputs import LAYOUTS, Inputs, from_layout
from constructive.kernels.masks import Mask
from constructive.kernels.spec import DTYPES, FullyMasked, Spec, as_float64
from constructive.support.arguments import require_known
from constructive.support.arrays import Array
from constructive.support.errors import require_packages

# Names of `spec.TAKES`, and two more.
MASK, BIAS, SCALE, SOFT_CAP, SINK = "mask", "bias", "scale", "soft cap", "sink"
GROUPS, WIDTH = "grouped heads", "values of another width than keys"
# What a problem may need beyond q, k, v and a format, and not every library has.
ALL = frozenset({SOFT_CAP, SINK, BIAS, MASK, SCALE, GROUPS, WIDTH})

Models = Mapping[str, str]
Packages = Mapping[str, str]


class Refused(Exception):  # noqa: N818 - a library that refuses is not at fault
    """The library itself said that it does not compute such a problem."""


class Adapter(ABC):
    """A problem in the words of one library."""

    name: ClassVar[str]  # of the adapter, a key of `ADAPTERS`
    # names of distributions by the modules that it imports; the first has the version. {} for a
    # kernel of your own
    packages: ClassVar[Packages]
    library: ClassVar[str]  # whose arrays `attend` gets: "numpy", "torch" or "jax"
    layout: ClassVar[str]  # of q, k, v and the output: "BHTd", "BTHd" or "packed"
    # the row of the model of floating point that the library claims, by dtype
    models: ClassVar[Models]
    # what a row without a visible key is, if `convention` says nothing else
    fully_masked: ClassVar[FullyMasked]
    can: ClassVar[frozenset[str]]  # what the library has of `ALL`
    devices: ClassVar[tuple[str, ...]] = ("cpu",)  # where it runs

    @abstractmethod
    def options(self, problem: Inputs) -> dict[str, Any]:
        """Return the keyword arguments of `attend`: mask, scale, soft cap and so on."""

    @abstractmethod
    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        """Return what the library computes."""

    def refuses(self, problem: Inputs) -> str | None:
        """Return why the library cannot compute a problem, or None."""
        if problem.spec.dtype not in self.models:
            return f"no {problem.spec.dtype}"
        missing = sorted(needs(problem) - self.can)
        return f"no {', no '.join(missing)}" if missing else None

    def masked(self, problem: Inputs, name: str, *, additive: bool = False) -> dict[str, Any]:
        """Return the mask as an option; {} if all keys are seen and nothing is added."""
        if problem.added is None and problem.mask is None:
            return {}
        is_added = additive or problem.added is not None
        return {name: problem.mask_tensor(self.library, additive=is_added)}

    def scaled(self, problem: Inputs) -> dict[str, Any]:
        """Return the scale as an option; {} where it is the usual one."""
        return {} if problem.spec.scale is None else {"scale": problem.spec.scale}

    def is_alone(self, problem: Inputs, mask: Mask) -> bool:
        """Return whether a mask is the only one of a problem, and no numbers are added."""
        return problem.added is None and problem.spec.masks == (mask,)

    def convention(self, spec: Spec) -> FullyMasked:
        """Return what a row without a visible key is for a spec: "zeros", "nan" or "mean"."""
        del spec
        return self.fully_masked

    def run(self, problem: Inputs, device: str = "cpu") -> Array:
        """Return the output in float64 in the layout (B, H, T_q, d_v)."""
        q, k, v = problem.tensors(self.library, layout=self.layout, device=device)
        found = self.options(problem)
        if self.library == "torch":
            found = {
                name: value.to(device) if hasattr(value, "to") else value
                for name, value in found.items()
            }
        out = self.attend(q, k, v, **found)
        return from_layout(problem.spec, as_float64(out), self.layout)

    def require_known_names(self) -> None:
        """Raise ParameterError for a class attribute with a word that nothing knows."""
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
        require_packages(self.packages, purpose=f"the adapter {self.name}")

    def version(self) -> str:
        """Return the version of the library, or "" where there is none."""
        first = next(iter(self.packages.values()), None)
        return "" if first is None else version(first)


def needs(problem: Inputs) -> frozenset[str]:
    """Return what a problem needs of a library beyond q, k, v and a format."""
    spec = problem.spec
    found = {
        SOFT_CAP: spec.soft_cap is not None,
        SINK: spec.sink,
        BIAS: problem.added is not None,  # of ALiBi, or a mask that is numbers to add
        MASK: problem.mask is not None,
        SCALE: spec.scale is not None,
        GROUPS: spec.group > 1,
        WIDTH: spec.d_v != spec.head_dim,
    }
    return frozenset(name for name, needed in found.items() if needed)
