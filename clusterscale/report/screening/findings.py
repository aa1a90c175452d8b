"""The first screen of a page, for the screen of all users."""

from __future__ import annotations

from collections.abc import Sequence

import xarray as xr
from markupsafe import Markup

from clusterscale.report.screening.exposure import AUC_LEVELS, ScreenCase
from clusterscale.report.section import absent_users, fill, json_attribute, number, percent, plural

__all__ = ["findings"]


def findings(screened: xr.Dataset, places: Sequence[ScreenCase]) -> Markup:
    """Build the findings; they exist even if no user could be compared."""
    source = json_attribute(screened, "cube").get("source")
    worst = max(places, key=lambda place: place.worst.mean, default=None)
    best = min(places, key=lambda place: place.best.mean, default=None)
    alone = sum(len(place.exposures) for place in places) < 2
    return fill(
        "screen.html.j2",
        users=plural(screened.sizes["user"], "user"),
        source=source if isinstance(source, str) else "",
        worst=worst,
        best=None if alone else best,
        levels=AUC_LEVELS,
        absent=absent_users(screened),
        number=number,
        percent=percent,
        plural=plural,
    )
