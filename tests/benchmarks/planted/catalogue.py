"""All planted bugs, by the file that they stand in; run, it lists them."""

import importlib
import re
from dataclasses import dataclass

MODULES = (
    *("masks", "heads", "memory", "blocks", "numerics", "scores", "sinks", "padding", "splits"),
    *("gradients", "second", "triton"),
)


@dataclass(frozen=True)
class Bug:
    """A bug: its kernel class, its group and what inputs need for it to show."""

    kernel: type
    group: str

    @property
    def name(self):
        return re.sub(
            r"(?<=[a-z0-9])(?=[A-Z])", "-", self.kernel.__name__.replace("NaN", "Nan")
        ).lower()

    @property
    def base(self):
        return self.kernel.__mro__[1]

    @property
    def needs(self):
        return frozenset(self.kernel.needs.split())

    @property
    def description(self):
        return " ".join(self.kernel.__doc__.split())

    @property
    def seen(self):
        """The address of a real bug of this kind, or an empty string."""
        return getattr(self.kernel, "seen", "")


def bugs():
    """Every planted bug; those in Triton only where Triton is installed."""
    planted = []
    for name in MODULES:
        try:
            module = importlib.import_module(f"bugs_{name}")
        except ImportError:
            if name != "triton":
                raise
            print("Triton is not installed: its bugs are left out")
            continue
        planted += [
            Bug(kernel, vars(kernel).get("group", name))
            for kernel in vars(module).values()
            if isinstance(kernel, type) and "needs" in vars(kernel)
        ]
    return planted


def main():
    """Print every bug: its group, its kernel, what it needs and what is wrong."""
    planted = bugs()
    for bug in planted:
        needs = " ".join(sorted(bug.needs))
        print(f"{bug.group:10} {bug.base.__name__:9} {bug.name:44} [{needs}] {bug.description}")
    print(len(planted), "bugs")


if __name__ == "__main__":
    main()
