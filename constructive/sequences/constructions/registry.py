"""All constructions of sequence memorizers, by name. A new one is a file, and a line here."""

from typing import TYPE_CHECKING

from constructive.support.registry import Registry

if TYPE_CHECKING:
    from constructive.sequences.constructions.construction import SequenceConstruction

_HERE = "constructive.sequences.constructions"
HOMES = {
    "product_hash": f"{_HERE}.product_hash:PRODUCT_HASH",
    "separating_set": f"{_HERE}.separating_set:SEPARATING_SET",
    "float_separating_set": f"{_HERE}.separating_set:FLOAT_SEPARATING_SET",
    "float_power_hash": f"{_HERE}.power_hash:FLOAT_POWER_HASH",
}

CONSTRUCTIONS: "Registry[SequenceConstruction]" = Registry(HOMES)
