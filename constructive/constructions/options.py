"""What can be asked of a construction, as data.

A construction lists the names of the options it takes, for each arithmetic it has. An option that
is not asked for is never refused (`refusals`).
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from constructive.layers.shapes import FLOAT64_BITS

FLOAT, RATIONAL = "float", "rational"  # Kinds of arithmetic

# Values that any readout fits into (Lemma 5.1), which is what is built where nobody asks for d_v;
# and narrower ones.
WIDE, NARROW = "value_dim >= d_out", "value_dim < d_out"

# What a construction in floats takes, or has no use for.
USUAL = frozenset({WIDE, "value_dim", "shared_keys", "saturated_fraction", "precision"})

# What planning asks for; the others say how a plan is built.
PLANNED = frozenset({WIDE, NARROW, "exact_logits", "lengths"})

# What a construction takes that is built in independent pieces.
PIECES = frozenset({"executor", "checkpoint"})

# The options of a construction, for each arithmetic that it has.
Takes = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Options:
    """What is asked of a construction, beside the number of heads."""

    head_dim: int | None = None  # d_h, or None for what suits the construction
    value_dim: int | None = None  # d_v, or None for d_out
    arithmetic: str = FLOAT  # "float" or "rational"
    exact_logits: bool = False  # W_Q and W_K of so few bits that float32 makes no error in logits
    shared_keys: bool = False  # all heads score tokens along one key direction
    # share of the examples off its group on which a head has to saturate
    saturated_fraction: float = 0.99
    # bits of the readout; those beyond a float are added to what is built
    precision: int | str = FLOAT64_BITS
    executor: Executor | None = None  # where pieces of the work are done, or None for here
    checkpoint: Path | None = None  # a folder in which finished pieces are kept, or None
    lengths: bool = False  # contexts have different lengths

    @property
    def inner_dim(self) -> int:
        """d_h, by default that of heads of rank one."""
        return 1 if self.head_dim is None else self.head_dim

    def asked(self, target_dim: int) -> Iterator[tuple[str, object]]:
        """Yield names and values of the options that are asked for, for targets of d_out.

        Example:
            >>> dict(Options(value_dim=2, shared_keys=True).asked(target_dim=1))
            {'value_dim >= d_out': 2, 'shared_keys': True, 'value_dim': 2}
        """
        narrow = self.value_dim is not None and self.value_dim < target_dim
        yield NARROW if narrow else WIDE, self.value_dim
        for name in (
            "lengths", "exact_logits", "executor", "checkpoint", "shared_keys",
            "saturated_fraction", "value_dim", "precision",
        ):  # fmt: skip
            value = getattr(self, name)
            if value != getattr(Options, name):
                yield name, value
