"""Tables, and those that Markdown declares: heading, content, look and hint of each column."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

Groups = Iterable[tuple[str, Iterable[Any]]]
"""Rows, which may be any objects, below a heading, which may be empty."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, the words of its look, its hint, and the expression of its cells."""

    heading: str
    look: Sequence[str] = ("",)
    hint: str = ""
    cell: str = ""

    @property
    def digits(self) -> int | None:
        """Decimals of the numbers of a long table; None for a column of words."""
        words = (word for word in self.look if word.startswith("digits "))
        return next((int(word.removeprefix("digits ")) for word in words), None)

    @property
    def is_number(self) -> bool:
        """Whether it has numbers, which are right-aligned: without a look, or with digits."""
        return not self.look[0] or self.digits is not None


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the caption, columns, lists of cells below headings, and a note."""

    caption: str
    columns: Sequence[Column]
    groups: Sequence[tuple[str, Sequence[Sequence[Any]]]]
    note: str = ""

    @property
    def headings(self) -> list[str]:
        """The headings of the columns."""
        return [column.heading for column in self.columns]

    @property
    def rows(self) -> list[Sequence[Any]]:
        """The rows of all groups."""
        return [row for _, rows in self.groups for row in rows]


class DeclaredTables:
    """The tables of a Markdown file.

    Each has a heading, ``## name: caption``, a table with a line for each column, and perhaps a
    note below. Caption, headings, hints and note are templates; a cell is an expression, in which
    ``row`` is the object of its row. A look is words with commas, of which ``if …`` says when the
    column is shown.
    """

    def __init__(self, text: str, environment: Environment) -> None:
        self._environment = environment
        _, *parts = re.split(r"^## ([\w-]+)(?:: (.+))?\n", text, flags=re.MULTILINE)
        self._parts = {
            name: (caption or "", *_parse(body))
            for name, caption, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
        }

    def fill(self, name: str, groups: Groups, /, **values: Any) -> Table:
        """Return a table with its rows; ``values`` are those that its templates use."""
        caption, declared, note = self._parts[name]
        columns = [
            replace(column, heading=self._text(column.heading, values))
            for column in declared
            if all(self._shows(word, values) for word in column.look)
        ]
        cells = _compile(self._environment, f"[{', '.join(column.cell for column in columns)}]")
        filled = [(title, [cells(row=row, **values) for row in rows]) for title, rows in groups]
        texts = (self._text(text, values) for text in (caption, note))
        return Table(next(texts), columns, filled, next(texts))

    def _text(self, text: str, values: Mapping[str, Any]) -> str:
        if "{" not in text:
            return text
        filled: str = _template(self._environment, text).render(values)
        return Markup(filled) if self._environment.autoescape else filled

    def _shows(self, word: str, values: Mapping[str, Any]) -> bool:
        if not word.startswith("if "):
            return True
        return bool(_compile(self._environment, word.removeprefix("if "))(values))


@cache
def _compile(environment: Environment, expression: str) -> Any:
    return environment.compile_expression(expression, undefined_to_none=False)


@cache
def _template(environment: Environment, text: str) -> Any:
    return environment.from_string(text)


def _parse(body: str) -> tuple[list[Column], str]:
    """Return the columns that a table in Markdown declares, and the note below it."""
    lines = body.strip().splitlines()
    table = [line for line in lines if line.startswith("|")]
    columns = []
    for line in table[2:]:
        parts = [part.strip() for part in line[1:-1].split("|")]
        heading, cell, look, hint = (*parts, "", "")[:4]
        columns.append(Column(heading, look.split(", "), hint, cell))
    return columns, " ".join(line for line in lines if line and line not in table)
