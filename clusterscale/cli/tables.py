"""Tables for a terminal of 80 columns, whose names wrap; what is too long for that has a letter."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.reporting.declared import DeclaredTables


LONGEST = 15
"""Maximal length of a label shown in full: that of any attack without settings."""

NAME = 60
"""Maximal length of the name of a mechanism, which takes two or three lines of a column."""

_GAP = "   "
_NARROW = 8  # characters in the name of a column of numbers


class Key:
    """Letters for labels that are too long for a table: A to Z, then AA, AB and so on.

    Parameters
    ----------
    longest
        Maximal length of a label shown in full.
    name
        The same of the name of a mechanism, whose column wraps between words.
    """

    def __init__(self, longest: int = LONGEST, name: int = NAME) -> None:
        self._longest, self._name = longest, name
        self._letters: dict[str, str] = {}

    def letter(self, label: str) -> str:
        """Return the letter of a label, regardless of its length."""
        return self._letters.setdefault(label, _count_in_letters(len(self._letters)))

    def plain(self, label: object) -> str:
        """Return a label if it is short, else its letter."""
        text = str(label)
        return text if len(text) <= self._longest else self.letter(text)

    def name(self, mechanism: object) -> str:
        """Return the name of a mechanism if it can fit, else its letter, escaped for rich."""
        text = str(mechanism)
        fits = len(text) <= self._name and max(map(len, text.split()), default=0) <= LONGEST
        return escape(text if fits else self.letter(text))

    def names(self, mechanisms: Sequence[str], most: int = NAME) -> str:
        """Return a list of names, at most so many."""
        shown = [*map(self.name, mechanisms[:most]), *(["…"] if mechanisms[most:] else [])]
        return ("; " if "," in "".join(shown) else ", ").join(shown)

    def short(self, label: object) -> str:
        """Return a label if it is short, else its letter, escaped for rich."""
        return escape(self.plain(label))

    def table(self, width: int) -> RenderableType:
        """Return the legend of the letters, in two columns where ``width`` allows it."""
        wide = max(map(len, self._letters.values()), default=0)
        entries = [f"{letter:{wide}}  {label}" for label, letter in self._letters.items()]
        half = (width - len(_GAP)) // 2
        lines: list[str] = []
        while entries:
            first = entries.pop(0)
            if len(first) > half:
                lines += _wrap(first, width, indent=wide + 2)
            elif entries and len(entries[0]) <= half:
                lines.append(f"{first:{half}}{_GAP}{entries.pop(0)}")
            else:
                lines.append(first)
        return Group(*map(Text, lines))

    def show(self, console: Console) -> None:
        """Print the key, if there is any letter."""
        if self._letters:
            console.print(self.table(console.width), soft_wrap=True)


def new_table(*names: str) -> Table:
    """Return a table without lines between columns; of its first columns, only names wrap."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    add_names(table, *names)
    return table


def add_names(table: Table, *names: str) -> None:
    """Add columns of labels, of which only names of mechanisms wrap."""
    for name in names:
        table.add_column(name, no_wrap=name not in ("mechanism", "candidate"), overflow="fold")


def add_numbers(table: Table, *names: str) -> None:
    """Add columns of numbers; long names are broken after their first word."""
    for name in names:
        lines = name.replace(" ", "\n", 1) if len(name) > _NARROW else name
        table.add_column(escape(lines), justify="right", no_wrap=False, overflow="fold")


def show_table(console: Console, name: str, rows: Iterable[Any], /, **values: Any) -> None:
    """Print a table that ``tables.md`` declares, between its caption and its note."""
    for part in declared_table(name, rows, **values):
        console.print(part)


def declared_table(name: str, rows: Iterable[Any], /, **values: Any) -> Iterator[RenderableType]:
    """Yield caption, table and note of a table that ``tables.md`` declares.

    Columns without a look are numbers; with the look ``name``, only names of mechanisms wrap.
    """
    found = _declared().fill(name, [("", rows)], escape=escape, **values)
    if found.caption:
        yield Text(found.caption)
    table = new_table()
    for column in found.columns:
        if "name" in column.look:
            add_names(table, column.heading)
        elif "text" in column.look:
            table.add_column(
                escape(column.heading), min_width=14 if "wide" in column.look else None
            )
        else:
            add_numbers(table, column.heading)
    for cells in found.rows:
        table.add_row(*cells)
    yield table
    if found.note:
        yield f"[dim]{found.note}[/]"


@cache
def _declared() -> DeclaredTables:
    from clusterscale.reporting.declared import DeclaredTables
    from clusterscale.reporting.section import TEMPLATES

    text = Path(__file__).with_name("templates").joinpath("tables.md").read_text("utf-8")
    return DeclaredTables(text, TEMPLATES.overlay(autoescape=False))


def show_pairs(console: Console, title: str, rows: Mapping[str, str]) -> None:
    """Print one name and value per line; long values wrap between words only."""
    console.print(Text(title, "bold"), soft_wrap=True)
    wide = max(map(len, rows)) + len(_GAP)
    for name, value in rows.items():
        first, *more = _wrap(value, console.width - wide) or [""]
        if max(map(len, (first, *more))) > console.width - wide:  # a long path or hash
            first, more = "", [f"  {line}" for line in _wrap(value, console.width - 2)]
        else:
            more = [f"{'':{wide}}{line}" for line in more]
        console.print(Text(f"{name:{wide}}{first}".rstrip()), soft_wrap=True)
        for line in more:
            console.print(Text(line), soft_wrap=True)


def several(
    results: xr.Dataset, dims: Sequence[str], values: Sequence[object], key: Key
) -> Iterator[str]:
    """Yield name and value of each dimension with several values."""
    for dim, value in zip(dims, values, strict=True):
        if results.sizes[dim] > 1:
            yield f"{dim} {key.short(value)}"


def fits(console: Console, part: RenderableType) -> bool:
    """Return whether a table fits the width of a console without splitting a word."""
    return Measurement.get(console, console.options, part).minimum <= console.width


def lines_of(console: Console, parts: Iterable[RenderableType]) -> int:
    """Return the number of lines that ``parts`` take on a console."""
    return sum(len(console.render_lines(part, pad=False)) for part in parts)


def _wrap(text: str, width: int, *, indent: int = 0) -> list[str]:
    return textwrap.wrap(
        text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def _count_in_letters(number: int) -> str:
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, len(ascii_uppercase))
        text = ascii_uppercase[rest] + text
    return text
