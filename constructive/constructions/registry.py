"""All constructions, by name. A new one is a file, and a line here."""

from typing import TYPE_CHECKING

from constructive.support.registry import Registry

if TYPE_CHECKING:
    from constructive.constructions.construction import Construction

HOMES = {
    "saturated": "constructive.constructions.dense:SATURATED",
    "rank_one": "constructive.constructions.rank_one:RANK_ONE",
    "generic": "constructive.constructions.generic:GENERIC",
    "narrow_values": "constructive.constructions.generic:NARROW_VALUES",
    "paired": "constructive.constructions.paired:PAIRED",
}

CONSTRUCTIONS: "Registry[Construction]" = Registry(HOMES)
