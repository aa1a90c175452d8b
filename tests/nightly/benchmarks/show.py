"""Tables and lines on the terminal."""

import os
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version

from rich.console import Console
from rich.table import Table
from rich.text import Text
from threadpoolctl import threadpool_info

__all__ = ["at_least", "at_most", "environment", "out", "print_table", "sum_up"]

PACKAGES = ("numpy", "scipy", "scikit-learn", "tsfresh", "numba")
WIDTH = 100

out = Console(width=WIDTH, highlight=False)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], notes: str = ""
) -> None:
    """Print rows under headings, all but the first column to the right, then what to know."""
    table = Table()
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left")
    for row in rows:
        table.add_row(*row)
    out.print()
    out.print(Text(title, "bold"))
    out.print(table)
    if notes:
        out.print(Text(notes, "dim"))


def at_least(what: str, value: float, goal: float, unit: str = "") -> None:
    """Print a figure and whether it is as large as it should be."""
    _judge(
        what,
        f"{value:,.0f}{unit}" if value >= 100 else f"{value:.3g}{unit}",
        value >= goal,
        f"at least {goal:g}{unit}",
    )


def at_most(what: str, value: float, goal: float) -> None:
    """Print a figure and whether it is as small as it should be."""
    _judge(what, f"{value:.2g}", value <= goal, f"at most {goal:g}")


def _judge(what: str, value: str, good: bool, wanted: str) -> None:
    verdict = "[green]met[/]" if good else "[bold red]missed[/]"
    out.print(f"{what}: [bold]{value}[/] ({wanted} wanted: {verdict})")


def sum_up(script: str, *figures: str) -> None:
    """Print the last line of a benchmark: its name, and the figures to compare with others'."""
    print(f"{script}: {'; '.join(figures)}", flush=True)


def environment(threads: int) -> None:
    """Print what the figures depend on."""
    blas = {
        f"{library['internal_api']} {library['version']}"
        for library in threadpool_info()
        if library["user_api"] == "blas"
    }
    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    out.print(
        f"{os.cpu_count()} CPUs, {threads} BLAS thread(s) for everybody; {versions}; "
        + ", ".join(sorted(blas))
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
