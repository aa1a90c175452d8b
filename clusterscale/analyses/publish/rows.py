"""The rows of a release: the places of a public list, or those of the cube."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.publish.counting import Counted
from clusterscale.analyses.publish.plan import PublishPlan
from clusterscale.cube import TraceCube
from clusterscale.cube.regions import NULL_ROI
from clusterscale.errors import ConfigError
from clusterscale.reading.tables import read_column

_OTHER = "other places"
_SELECTED = (
    "publish.mechanism: this cube was ingested with {option} {value}, so one {unit} more or less "
    "can change who is counted, and its guarantee would be false: ingest without {option}"
)


def rows_are_public(plan: PublishPlan, cube: TraceCube) -> bool:
    """Return whether places and epochs of a release were stated, and not taken from records."""
    return "calendar" in cube.public and (plan.places is not None or "places" in cube.public)


def require_public(plan: PublishPlan, cube: TraceCube) -> None:
    """Check that a guarantee also holds for the rows of a release, and for who is counted.

    Raises
    ------
    ConfigError
        If a record can add or remove a row, or a user other than its own; says how to avoid it.
    """
    unit = plan.mechanism.guarantee.unit
    if unit == "none":
        return
    if "calendar" not in cube.public:
        raise ConfigError(
            "publish.period: the epochs of this cube may be those of its records, and then its "
            "beginning depends on them, which no noise hides: if they are public, write the cube "
            "again with `clusterscale pack --public calendar`"
        )
    if not rows_are_public(plan, cube):
        raise ConfigError(
            "publish.places: missing; the places of this cube were taken from its records, so one "
            "event more can add a row, which no noise hides: state the public list of all places, "
            "e.g. places: places.csv, with a column name; or write the cube again with public "
            "places (`clusterscale ingest --points FILE`, `clusterscale pack --public places`)"
        )
    about = cube.attributes["provenance"]
    for option, unsafe in (("top_users", True), ("min_events", unit != "user")):
        value = about.get(option) or 0
        if unsafe and value > (option == "min_events"):
            words = {"option": f"--{option.replace('_', '-')}", "value": value, "unit": unit}
            raise ConfigError(_SELECTED.format(**words))


def row_names(plan: PublishPlan, cube: TraceCube) -> tuple[str, ...]:
    """Return the names of the rows before trace steps, without the null ROI.

    Raises
    ------
    ConfigError
        If the list of places is not one, or names none of the cube's.
    """
    if plan.places is None:
        return cube.regions.names
    names = tuple(name.strip() for name in read_column(plan.places, "name"))
    if n_twice := len(names) - len(set(names)):
        raise ConfigError(f"publish.places: {plan.places} lists {n_twice:,} places twice")
    if reserved := {"", _OTHER, NULL_ROI}.intersection(names):
        raise ConfigError(f"publish.places: {plan.places} has a place named {min(reserved)!r}")
    if not set(names).intersection(cube.regions.names):
        raise ConfigError(
            f"publish.places: {plan.places} names no place of the cube, such as "
            f"{cube.regions.names[0]!r}"
        )
    others = (_OTHER,) if plan.other_places == "one_row" else ()
    return tuple(sorted((*names, *others)))  # the order says nothing, and tables keep it


def arrange(plan: PublishPlan, cube: TraceCube, counted: Counted) -> tuple[Counted, int]:
    """Return counts on the rows of the release, and the number of visits to places not listed.

    Each visit stays in one row or in none, so nobody changes the counts by more than before.
    """
    if plan.places is None:
        return counted, 0
    names = row_names(plan, cube)
    row_of = {name: row for row, name in enumerate(names)}
    rest = row_of.get(_OTHER, -1)
    rows = np.array([row_of.get(name, rest) for name in cube.regions.names])
    n_elsewhere = int(counted.counts[: len(rows)][rows == rest].sum())
    if plan.null_roi:
        rows = np.append(rows, len(names))
    kept, n_rows = rows >= 0, len(names) + plan.null_roi

    def move(values: NDArray[Any]) -> NDArray[Any]:
        moved = np.zeros((n_rows, values.shape[1]), values.dtype)
        np.add.at(moved, rows[kept], values[kept])
        return moved

    sums = counted.sums
    moved = replace(counted, counts=move(counted.counts), sums=None if sums is None else move(sums))
    return moved, n_elsewhere
