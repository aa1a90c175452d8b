"""Paged tables: the page contains thousands of rows and shows some at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.report.section import Column, Table, embedded, number

__all__ = ["LongColumn", "long_table"]

_SHOWN = 20  # rows that are shown without a script


@dataclass(frozen=True, slots=True, eq=False)
class LongColumn:
    """A column of words, or of numbers with ``digits`` decimals, where NaN is shown as a dash.

    A wide column leaves room for long words. ``links`` are addresses, one per row, empty for none;
    ``looks`` maps words to classes of the style sheet.
    """

    name: str
    values: NDArray[Any] | Sequence[str]
    digits: int | None = None
    hint: str = ""
    wide: bool = False
    links: Sequence[str] = ()
    looks: Mapping[str, str] = field(default_factory=dict)

    def cell(self, row: int) -> str | Markup:
        """Return the content of a cell."""
        value = self.values[row]
        if self.digits is not None:
            return number(float(value), self.digits) if self.digits else f"{int(value):,}"
        if self.links and self.links[row]:
            return Markup('<a href="{}">{}</a>').format(self.links[row], value)
        if look := self.looks.get(str(value)):
            return Markup('<span class="{}">{}</span>').format(look, value)
        return str(value)

    def held(self) -> dict[str, Any]:
        """Return the column in the format of the page's script.

        To keep it small, numbers are integer multiples of the last digit, and each word is stored
        once.
        """
        about: dict[str, Any] = {"name": self.name, "digits": self.digits}
        about |= {"links": list(self.links)} if self.links else {}
        about |= {"looks": dict(self.looks)} if self.looks else {}
        if self.digits is None:
            texts = [str(value) for value in self.values]
            words = sorted(set(texts))
            if 2 * len(words) > len(texts):
                return about | {"values": texts}
            positions = {word: index for index, word in enumerate(words)}
            return about | {"words": words, "values": [positions[word] for word in texts]}
        scaled = np.asarray(self.values, dtype=np.float64) * 10**self.digits
        known = np.isfinite(scaled)
        whole = np.round(np.where(known, scaled, 0)).astype(np.int64).tolist()
        if known.all():
            return about | {"values": whole}
        pairs = zip(whole, known.tolist(), strict=True)
        return about | {"values": [value if is_known else None for value, is_known in pairs]}


def long_table(caption: str, columns: Sequence[LongColumn], *, file: str) -> Markup:
    """Return a table that shows its first rows; a script pages, sorts, filters and saves the rest.

    Parameters
    ----------
    caption
        Caption of the table.
    columns
        Columns of equal length; the first has the row headers.
    file
        File name under which the rows are saved as CSV.
    """
    n_shown = min(_SHOWN, len(columns[0].values))
    rows = [[column.cell(row) for column in columns] for row in range(n_shown)]
    heads = [
        Column(
            column.name,
            number=column.digits is not None,
            header=i == 0,
            hint=column.hint,
            wide=column.wide,
        )
        for i, column in enumerate(columns)
    ]
    data = {"file": file, "columns": [column.held() for column in columns]}
    script = Markup('<script type="application/json" class="rows">{}</script>')
    return Table(caption, heads, [("", rows)]).html + script.format(embedded(data))
