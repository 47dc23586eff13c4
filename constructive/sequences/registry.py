"""All constructions of sequence memorizers, by name. A new one is a file, and a line here."""

from typing import TYPE_CHECKING

from constructive.support.registry import Registry

if TYPE_CHECKING:
    from constructive.sequences.constructions import SequenceConstruction

HOMES = {
    "product_hash": "constructive.sequences.constructions:PRODUCT_HASH",
    "separating_set": "constructive.sequences.constructions:SEPARATING_SET",
    "float_separating_set": "constructive.sequences.constructions:FLOAT_SEPARATING_SET",
    "float_power_hash": "constructive.sequences.constructions:FLOAT_POWER_HASH",
}

CONSTRUCTIONS: "Registry[SequenceConstruction]" = Registry(HOMES)
