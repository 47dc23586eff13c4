"""What can be asked of a construction, as data; and the one place that refuses what it has not.

A construction lists the names of the options it takes, for each arithmetic it has. An option that
is not asked for is never refused.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from constructive.layers.shapes import FLOAT64
from constructive.support.errors import ParameterError

FLOAT, RATIONAL = "float", "rational"
"""Kinds of arithmetic."""

WIDE, NARROW = "value_dim >= d_out", "value_dim < d_out"
"""Values that any readout fits into (Lemma 5.1), which is what is built where nobody asks for d_v;
and narrower ones."""

USUAL = frozenset({WIDE, "value_dim", "shared_keys", "saturated_fraction", "precision"})
"""What a construction in floats takes, or has no use for."""

PLANNED = frozenset({WIDE, NARROW, "exact_logits", "lengths"})
"""What planning asks for; the others say how a plan is built."""

PIECES = frozenset({"executor", "checkpoint"})
"""What a construction takes that is built in independent pieces."""

Takes = Mapping[str, frozenset[str]]
"""The options of a construction, for each arithmetic that it has."""


@dataclass(frozen=True)
class Options:
    """What is asked of a construction, beside the number of heads.

    Attributes:
        head_dim: d_h, or None for what suits the construction
        value_dim: d_v, or None for d_out
        arithmetic: "float" or "rational"
        exact_logits: W_Q and W_K of so few bits that float32 makes no error in logits
        shared_keys: all heads score tokens along one key direction
        saturated_fraction: share of the examples off its group on which a head has to saturate
        precision: bits of the readout; those beyond a float are added to what is built
        executor: where pieces of the work are done, or None for here
        checkpoint: a folder in which finished pieces are kept, or None
        lengths: contexts have different lengths
    """

    head_dim: int | None = None
    value_dim: int | None = None
    arithmetic: str = FLOAT
    exact_logits: bool = False
    shared_keys: bool = False
    saturated_fraction: float = 0.99
    precision: int | str = FLOAT64
    executor: Executor | None = None
    checkpoint: Path | None = None
    lengths: bool = False

    @property
    def inner_dim(self) -> int:
        """d_h, by default that of heads of rank one."""
        return 1 if self.head_dim is None else self.head_dim

    def asked(self, target_dim: int) -> Iterator[tuple[str, object]]:
        """Yield the names of the options that are asked for, and their values.

        Args:
            target_dim: d_out

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


class Named(Protocol):
    """What has a name, and says which options it takes."""

    @property
    def name(self) -> str:
        """What users ask for."""

    @property
    def options(self) -> Takes:
        """The options, for each arithmetic."""


def refusal(
    construction: Named,
    options: Options,
    target_dim: int,
    known: Mapping[str, Named],
    *,
    planning: bool = False,
) -> ParameterError | None:
    """Return the error about the first option that a construction does not take, or None.

    Args:
        construction: which is to be built
        options: what is asked of it
        target_dim: d_out
        known: all constructions, among which others may take it
        planning: whether only what planning asks for counts
    """
    name, takes = construction.name, construction.options.get(options.arithmetic)
    if takes is None:
        return ParameterError(
            f"construction={name!r} has no {options.arithmetic} weights",
            witness=name,
            suggestion=f"construction='auto', or arithmetic={FLOAT!r}",
        )
    refused = {
        option: value
        for option, value in options.asked(target_dim)
        if option not in takes and (option in PLANNED or not planning)
    }
    if not refused:
        return None
    first, witness = next(iter(refused.items()))
    suggestion = f"no {first}=, or construction='auto'"
    match first:
        case _ if first == NARROW:
            problem = f"value_dim={witness} is less than the d_out={target_dim} of the targets, "
            problem += f"which construction={name!r} does not support"
            suggestion = f"value_dim={target_dim} or more, or construction='auto'"
        case _ if first == WIDE:
            problem = f"construction={name!r} is for value_dim= below d_out={target_dim}"
            suggestion = "construction='auto'"
        case "lengths":
            problem = f"construction={name!r} needs contexts of one length"
            witness = name
            suggestion = "construction='auto', or dataset.take(...) of examples of one length"
        case "exact_logits":
            problem = f"construction={name!r} has no exact logits: "
            problem += "its W_Q and W_K need all their bits"
            witness = name
            suggestion = "construction='generic', whose heads are random, or exact_logits=False"
        case "executor" | "checkpoint":
            words = {"executor": "executor= (--jobs)", "checkpoint": "checkpoint="}
            names = " and ".join(words[option] for option in refused if option in PIECES)
            problem = f"construction={name!r} is not built in pieces, and has no {names}"
            others = [repr(other) for other, each in known.items() if first in each.options[FLOAT]]
            witness, suggestion = name, f"construction={' or '.join(others)}, or no {names}"
        case _ if options.arithmetic != FLOAT:
            problem = f"{refused} do not apply to {options.arithmetic} weights, which are exact"
            witness = refused
            suggestion = f"none of {', '.join(refused)}, or arithmetic={FLOAT!r}"
        case "precision":
            problem = f"precision={witness!r} is for readouts that W_V holds, and d_v < d_out"
            suggestion = f"precision={FLOAT64}, or value_dim={target_dim}"
        case _:
            problem = f"construction={name!r} has no {first}={witness!r}"
    return ParameterError(problem, witness=witness, suggestion=suggestion)
