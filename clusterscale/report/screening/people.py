"""The most exposed of all users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.report.paged_table import LongColumn, long_table
from clusterscale.report.screening.exposure import ScreenCase
from clusterscale.report.section import Section, fill

__all__ = ["people"]

_ROWS = 10_000  # of a table on the page
_CELLS = 600_000  # of all tables: about three megabytes


def people(places: Sequence[ScreenCase]) -> Section:
    """Build the tables of the most exposed users, one for each period and group size."""
    cells = sum(2 + len(place.exposures) for place in places)
    n_rows = min(_ROWS, _CELLS // max(1, cells))
    folds = [
        (place.label, _table(place, min(n_rows, place.n_users), f"users-{i + 1}.csv"))
        for i, place in enumerate(places)
    ]
    return Section(
        "people",
        "Most exposed users",
        "Users by mean AUC over mechanisms, each with the mechanism’s strongest attack. Users are "
        "identified by their row in the cube, by which a config can list targets. The results "
        "have all users; clusterscale report --format parquet writes them as a table.",
        fill("folds.html.j2", folds=folds),
    )


def _table(place: ScreenCase, n_rows: int, file: str) -> Markup:
    rows = _most_exposed(place, n_rows)
    columns = [
        LongColumn("User", [f"row {row}" for row in rows]),
        LongColumn("Events", place.n_events[rows], 0, hint="In the period"),
        *(LongColumn(attack.mechanism, attack.auc[rows], 3) for attack in place.exposures),
    ]
    if n_rows < place.n_users:
        few = f"The {n_rows:,} most exposed of {place.n_users:,} users"
    else:
        few = "All users" if n_rows == len(place.n_events) else "All users with an event"
    where = f"{place.label}: {few[0].lower()}{few[1:]}" if place.label else few
    return long_table(f"{where}, by AUC under each mechanism", columns, file=file)


def _most_exposed(place: ScreenCase, n_rows: int) -> NDArray[np.int64]:
    """Return the rows with the highest mean AUC, descending; users with unknown AUC are last."""
    total = np.zeros(len(place.exposures[0].auc))
    for attack in place.exposures:
        total += np.where(np.isfinite(attack.auc), attack.auc, -np.inf)
    order: NDArray[np.int64] = np.argsort(-total, kind="stable")[:n_rows]
    return order
