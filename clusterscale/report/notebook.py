"""Summary of results in notebooks: ``results.clusterscale``."""

from __future__ import annotations

from pathlib import Path

import xarray as xr

from clusterscale.html_tables import Cell, grid, list_facts
from clusterscale.report.notebook_summary import Short, shorten

__all__ = ["Findings"]


@xr.register_dataset_accessor("clusterscale")  # type: ignore[no-untyped-call]
class Findings:
    """Summary of the findings of an audit, a screen, traits or a recovery, with a report method.

    It is an accessor of :class:`xarray.Dataset`, available once ``clusterscale.report`` is
    imported. ``results.clusterscale`` as the last line of a cell shows the plan, the strongest
    attack in every setting, failed cases and broken guarantees. Values are read when it is
    displayed; it identifies no user.
    """

    def __init__(self, results: xr.Dataset) -> None:
        self._results = results

    def __repr__(self) -> str:
        short = shorten(self._results)
        facts = [f"{name}: {_line(value)}" for name, value in short.facts.items()]
        rows = ["  ".join(row) for row in (short.columns, *short.rows) if row]
        return "\n".join([short.title, *facts, *rows, *_rest(short)])

    def _repr_html_(self) -> str:
        short = shorten(self._results)
        parts = [list_facts(short.title, short.facts)]
        if short.rows:
            parts.append(grid("Strongest attacks", short.columns, short.rows))
        return "".join([*parts, *(f"<p>{text}</p>" for text in _rest(short))])

    def report(self, path: str | Path, *, title: str | None = None) -> str:
        """Write the report and return its location.

        Parameters and errors are those of :func:`clusterscale.report.write_report`.
        """
        from clusterscale.report.render import write_report

        return write_report(self._results, path, title=title)


def _line(value: Cell) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _rest(short: Short) -> list[str]:
    return [f"and {short.left_out:,} more lines"] if short.left_out else []
