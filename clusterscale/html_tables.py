"""Small HTML tables for notebooks, without colours so that they suit light and dark themes."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_LEFT = ' style="text-align: left"'

Cell = str | Sequence[str]


def list_facts(title: str, facts: Mapping[str, Cell]) -> str:
    """Return a two-column table of names and values; all texts are escaped.

    Each text of a cell with several is on its own line.
    """
    rows = "".join(
        f'<tr><th scope="row"{_LEFT}>{escape(name)}</th><td{_LEFT}>{_cell(value)}</td></tr>'
        for name, value in facts.items()
    )
    return f"<table>{_caption(title)}<tbody>{rows}</tbody></table>"


def grid(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table with a header; all texts are escaped."""
    head = "".join(f'<th scope="col"{_LEFT}>{escape(name)}</th>' for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td{_LEFT}>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table>{_caption(title)}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _caption(title: str) -> str:
    return f"<caption{_LEFT}><strong>{escape(title)}</strong></caption>"


def _cell(cell: Cell) -> str:
    return escape(cell) if isinstance(cell, str) else "<br>".join(map(escape, cell))
