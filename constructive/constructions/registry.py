"""All constructions, by name. A new one is a file, and a line here."""

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from constructive.constructions.construction import Construction

HOMES = {
    "saturated": "constructive.constructions.dense:SATURATED",
    "rank_one": "constructive.constructions.dense:RANK_ONE",
    "paired": "constructive.constructions.paired:PAIRED",
    "schur": "constructive.constructions.schur:SCHUR",
}
"""Where each lives, so that names are known before anything is imported."""


class _Registry(Mapping[str, "Construction"]):
    """Constructions, imported when they are asked for."""

    def __getitem__(self, name: str) -> "Construction":
        module, _, attribute = HOMES[name].partition(":")
        found: Construction = getattr(importlib.import_module(module), attribute)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


CONSTRUCTIONS = _Registry()
