"""All figures, by name. A new one is a file, and a line here."""

from typing import TYPE_CHECKING

from constructive.support.registry import Registry

if TYPE_CHECKING:
    from constructive.figures.figure import Figure

HOMES = {
    "kruskal-rank": "constructive.figures.independence:KRUSKAL",
    "capacity": "constructive.figures.capacity:CAPACITY",
    "saturation": "constructive.figures.saturation:SATURATION",
    "general-position": "constructive.figures.capacity:GENERAL_POSITION",
    "tokens-in-general-position": "constructive.figures.independence:TOKENS",
    "assumptions": "constructive.figures.assumption_table:ASSUMPTIONS",
    "recital": "constructive.figures.recital:RECITAL",
    "curve": "constructive.figures.curve:CURVE",
    "sequences": "constructive.figures.sequences:SEQUENCES",
}

FIGURES: "Registry[Figure]" = Registry(HOMES)
