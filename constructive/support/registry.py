"""Registries: kinds of things by name, each in a file of its own, imported when it is asked for."""

import importlib
from collections.abc import Iterator, Mapping
from typing import TypeVar

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry]):
    """Things by name; the names are known before anything is imported.

    A new kind is a file, and a line among the homes.
    """

    def __init__(self, homes: dict[str, str]) -> None:
        self._homes = homes

    def __getitem__(self, name: str) -> Entry:
        module, _, attribute = self._homes[name].partition(":")
        entry: Entry = getattr(importlib.import_module(module), attribute)
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)
