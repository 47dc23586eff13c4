"""All constructions of sequence memorizers, by name. A new one is a file, and a line here."""

from typing import TYPE_CHECKING

from constructive.support.registry import Registry

if TYPE_CHECKING:
    from constructive.sequences.constructions.construction import SequenceConstruction

HOMES = {
    "product_hash": "constructive.sequences.constructions.product_hash:PRODUCT_HASH",
    "separating_set": "constructive.sequences.constructions.separating_set:SEPARATING_SET",
    "float_separating_set": "constructive.sequences.constructions.separating_set:FLOAT_SEPARATING_SET",
    "float_power_hash": "constructive.sequences.constructions.power_hash:FLOAT_POWER_HASH",
}

CONSTRUCTIONS: "Registry[SequenceConstruction]" = Registry(HOMES)
