"""Matrices that are made one at a time: those of a block of queries would not fit into memory."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Made = TypeVar("Made")


class PerQuery(Generic[Made]):
    """What `make` returns for the number of each query of a block, whenever it is taken.

    Example:
        >>> squares = PerQuery(3, lambda query: query**2)
        >>> len(squares), squares[2], list(squares)
        (3, 4, [0, 1, 4])
    """

    def __init__(self, count: int, make: Callable[[int], Made]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, query: int) -> Made:
        return self._make(query)

    def __iter__(self) -> Iterator[Made]:
        return map(self._make, range(self._count))

    def group(self, query: int, groups: int) -> int:
        """Return which group of tokens a query sees; all groups have as many queries."""
        return query * groups // self._count
