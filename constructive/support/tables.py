"""Tables as plain text, which notebooks show as it is."""

import html
import io
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from rich.console import Console
from rich.table import Table


def new_table(*headings: str, left: Collection[str] | None = None, fold: bool = False) -> Table:
    """Return a table without lines and rows."""
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(
            heading,
            justify="left" if left is None or heading in left else "right",
            overflow="fold" if fold else "ellipsis",
        )
    return table


def lines(table: Table, width: int) -> list[str]:
    """Return the lines of a table, at most `width` characters each, without colours or markup."""
    text = io.StringIO()
    console = Console(
        file=text,
        width=width,
        color_system=None,
        legacy_windows=False,
        markup=False,
        force_jupyter=False,  # else rich displays the table in a notebook, and writes nothing here
    )
    console.print(table)
    return [line.rstrip() for line in text.getvalue().splitlines()]


@dataclass(frozen=True, eq=False)
class Sheet:
    """A title, a few named facts and a table: what an object shows of itself."""

    title: str
    facts: tuple[tuple[str, str], ...]
    table: Table

    def text(self, width: int) -> str:
        """Return plain text, its table at most `width` characters wide."""
        space = max((len(name) for name, _ in self.facts), default=0) + 2
        facts = [f"  {name:<{space}}{value}" for name, value in self.facts]
        body = [f"  {line}" for line in lines(self.table, width)] if self.table.row_count else []
        return "\n".join([self.title, *facts, *([""] if facts and body else []), *body])


class Shown(ABC):
    """What shows itself as a sheet, as text and in notebooks."""

    sheet_width: ClassVar[int] = 100  # characters of a line of its table

    @abstractmethod
    def _sheet(self) -> Sheet:
        """What it shows."""

    def __str__(self) -> str:
        return self._sheet().text(self.sheet_width)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"
