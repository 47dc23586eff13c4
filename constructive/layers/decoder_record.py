"""How a decoder was built: its record, and how files are read for one."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from constructive.exact.float_model import STORAGES
from constructive.layers.record import is_size
from constructive.support.arguments import is_integer, require_known
from constructive.support.errors import shown


@dataclass(frozen=True)
class DecoderRecord:
    """How a decoder was built, and what was measured then.

    Attributes:
        seed: of all random choices
        num_positions: R, the different contexts which it memorized
        condition: estimated condition number of Z
        margin: the smallest margin of the next token, as float64 found it, of float32 weights
        share: of the margin which rounding in float32 may take, at worst; less than one where
            every program of the model "float32, pairwise" recites
        storage: the format in which weights are stored: "float32", "bfloat16" or "float16"

    Raises:
        ParameterError: for another storage
    """

    seed: int
    num_positions: int
    condition: float
    margin: float
    share: float
    storage: str = "float32"

    def __post_init__(self) -> None:
        require_known("storage", self.storage, STORAGES)


def read_record(content: dict[str, Any]) -> DecoderRecord:
    """The record of a file. Raises what a file may make it raise."""
    wanted = {field.name for field in dataclasses.fields(DecoderRecord)}
    if set(content) != wanted:
        raise ValueError(f"its record is about {shown(sorted(content))}")
    counts = [content[name] for name in ("seed", "num_positions")]
    sizes = [content[name] for name in ("condition", "share")]  # infinite where nothing bounds them
    margin = content["margin"]  # below zero where rounding may take more than all of it
    known = all(is_integer(count) and count >= 0 for count in counts)
    known = known and all(is_size(size, unknown=True) for size in sizes)
    if not known or type(margin) not in (int, float) or math.isnan(margin):
        raise ValueError("its record has numbers that are none")
    return DecoderRecord(**content)
