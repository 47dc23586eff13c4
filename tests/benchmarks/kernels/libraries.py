"""The rows of `released.py`: which kernel, in which formats, and what it takes."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from packed import Packed

from constructive.kernels.batteries import Battery, shapes
from constructive.kernels.cases import CASES
from constructive.kernels.masks import Causal, VariableLengths, Window
from constructive.kernels.spec import needs

SHORT = ("bfloat16", "float16")
OF_FLASH = ("bottom-right", "window", "lengths", "variable lengths", "scale")


@dataclass(frozen=True)
class Row:
    """A kernel of a library."""

    name: str
    package: str  # the distribution that has the version
    # of a backward pass, merge, cache or problem and a device; of `Packed` if that is its layout
    run: Callable[..., Any]
    modules: tuple[str, ...] = ("torch",)  # that have to be there
    kind: str = "forward"
    on_cuda: tuple[str, ...] = SHORT  # formats
    on_cpu: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    given: dict[str, Any] = field(default_factory=dict)  # of all problems, such as head_dim=64
    has_groups: bool = True  # fewer KV heads than heads
    has_width: bool = True  # values of another width than keys
    layout: str | None = "BHTd"
    heads_first: bool = False  # whether packed log-sum-exps are (H, tokens), not (tokens, H)
    says: dict[str, Any] = field(default_factory=dict)  # of log-sum-exps: base and so on
    models: dict[str, str] | None = field(default_factory=dict)  # of intervals; None: none
    why_not: Callable[..., str | None] = lambda _: None
    only: Callable[[Any], bool] = lambda _: True
    d_lse: bool = False  # whether the backward pass takes the gradient of log-sum-exps
    states: int = 4  # that are merged
    forms: tuple[tuple[str, str, str], ...] = ()  # of caches: form, scales of keys and of values
    parts: int = 1  # processes that share its shapes
    patience: float = 1.0  # times the seconds of a row
    prepare_with: Callable[[str], None] | None = None
    become: Callable[[Any], Any] = lambda problem: problem

    def dtypes_on(self, device: str) -> tuple[str, ...]:
        return self.on_cuda if device == "cuda" else self.on_cpu

    def version(self) -> str:
        try:
            return version(self.package)
        except PackageNotFoundError:
            return "?"

    def missing(self, device: str) -> str:
        """Return why a row is left out, or ""."""
        if not self.dtypes_on(device):
            return f"not on {device}"
        for name in self.modules:
            if importlib.util.find_spec(name) is None:
                return f"{name} is not installed"
        return ""

    def prepare(self, device: str) -> None:
        """Import what is needed, in the process that runs the row."""
        if self.prepare_with is not None:
            self.prepare_with(device)

    def compute(self, given: Any, device: str) -> Any:
        """Return what the kernel does."""
        if self.layout == "packed" and self.kind == "forward":
            return self.run(Packed(given, device))
        return self.run(given, device)

    def battery(self, dtype: str) -> Battery:
        given = {"dtype": dtype} | self.given
        if not self.has_groups:
            given.setdefault("heads", (4, 4))
        if not self.has_width:
            given["value_dim"] = None
        takes = frozenset(self.takes)
        found = {n: spec for n, spec in shapes(given, (), takes).items() if self.only(spec)}
        return Battery(found, tuple(CASES), takes, "the kernel does not take it")

    def fixed(self, _: Any) -> dict[str, Any]:
        """Return fields of specs of random inputs."""
        more = {} if self.has_groups else {"heads": (4, 4)}
        return more | {name: self.given[name] for name in self.given if name != "value_dim"}

    def applies(self, spec: Any) -> bool:
        takes = frozenset(self.takes)
        return self.only(spec) and all(need & takes for need in needs(spec))

    def refuses(self, problem: Any) -> str | None:
        return self.why_not(problem)

    def model(self, dtype: str, device: str) -> str | None:
        """Return the model of intervals, or None."""
        if self.models is None or "float8" in dtype:
            return None
        name = self.models.get(dtype, f"flash {dtype}" if dtype != "tf32" else "tf32")
        if device == "cuda" and name in ("flash bfloat16", "flash float16"):
            return name.replace("flash", "tensor")
        return name


def has_keys(problem: Any) -> str | None:
    """Return why a problem is left out: outputs of such rows are what was in memory."""
    return "a sequence without keys" if (problem.spec.lengths[1] == 0).any() else None


def windows_are_causal(problem: Any) -> str | None:
    window = problem.spec.mask(Window)
    if window is not None and (problem.spec.mask(Causal) is None or window.left is None):
        return "its windows are causal and have a left end"
    return None


def one_query(spec: Any) -> bool:
    return bool((spec.lengths[0] == 1).all())


def as_many_keys(spec: Any) -> bool:
    return spec.queries == spec.keys or spec.mask(VariableLengths) is not None


def _of_adapters() -> list[Row]:
    """Return a row for each adapter."""
    import of_onnx
    import of_others

    from constructive.kernels.adapters import ADAPTERS
    from constructive.kernels.running import suite_for

    class Adapted(Row):
        def battery(self, dtype: str) -> Battery:
            return suite_for(self.adapter, dtype)

        def fixed(self, _: Any) -> dict[str, Any]:
            more = {} if "grouped heads" in self.adapter.can else {"heads": (4, 4)}
            return more | {"fully_masked": self.adapter.fully_masked}

        def applies(self, _: Any) -> bool:
            return True

        def refuses(self, problem: Any) -> str | None:
            return self.adapter.refuses(problem)

    found = []
    for name, adapter in (ADAPTERS | of_onnx.ADAPTERS | of_others.ADAPTERS).items():
        modules = {module.split(".")[0] for module in adapter.packages}
        formats = tuple(adapter.models)
        on_cuda = tuple(d for d in formats if d != "float64") if "cuda" in adapter.devices else ()
        row = Adapted(
            name, next(iter(adapter.packages.values())), adapter.run, tuple(modules),
            on_cuda=on_cuda, on_cpu=formats if "cpu" in adapter.devices else (),
            layout="BHTd", models=dict(adapter.models),
        )  # fmt: skip
        object.__setattr__(row, "adapter", adapter)
        found.append(row)
    return found


def every_row() -> list[Row]:
    """Return the rows of all libraries, also of those that are not installed."""
    found = []
    for library in ("torch", "flash", "servers", "triton", "jax"):
        found += import_module(f"of_{library}").rows()
    return found + _of_adapters()
