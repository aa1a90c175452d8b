"""How exposure is spread over all users."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

import numpy as np
from markupsafe import Markup

from clusterscale.report import figures
from clusterscale.report.screening.exposure import AUC_LEVELS, ScreenCase, StrongestAttack
from clusterscale.report.section import Column, Section, Table, breakable, fill, number, percent

__all__ = ["spread"]

_COLUMNS = (
    Column("Mechanism", number=False, header=True, wide=True),
    Column("Strongest attack", number=False, hint="The one with the highest mean AUC"),
    Column("Mean AUC"),
    Column("95 % of users below"),
    *(Column(f"Users above {level}") for level in AUC_LEVELS),
    Column("±", hint="Half the 95 % interval of a user’s AUC, mean over users"),
)


def spread(places: Sequence[ScreenCase]) -> Section:
    """Build the distribution of AUC over all users, a curve a mechanism, and its numbers."""
    folds = [(place.label, _figure(place, i) + _table(place)) for i, place in enumerate(places)]
    return Section(
        "everyone",
        "How exposed everyone is",
        "Every user was compared in the same groups, once counted and once replaced by somebody "
        "else, by attacks that need no training. Each curve gives the share of users that the "
        "strongest of these recognises with at most the AUC below it; the dashed line is chance.",
        fill("folds.html.j2", folds=folds),
    )


def _figure(place: ScreenCase, index: int) -> Markup:
    names = [each.mechanism for each in place.exposures]
    lowest = min(float(each.curve[0]) for each in place.exposures)
    drawn = figures.distributions(
        {i: each.curve for i, each in enumerate(place.exposures)},
        names,
        start=min(0.4, floor(lowest * 10) / 10),
        axis="AUC of a user",
        among="users",
    )
    words = "; ".join(map(_in_words, place.exposures))
    return figures.legend(names) + figures.plot(
        drawn,
        slug=f"everyone-{index + 1}",
        title="AUC of all users, by mechanism",
        description=f"Cumulative distribution of AUC over users. {words}",
    )


def _in_words(exposure: StrongestAttack) -> str:
    quartiles = np.quantile(exposure.curve, (0.25, 0.5, 0.75))
    return f"{exposure.mechanism}: quartiles " + ", ".join(number(float(q)) for q in quartiles)


def _table(place: ScreenCase) -> Markup:
    rows: list[list[str | Markup]] = [
        [
            breakable(each.mechanism),
            each.attack,
            number(each.mean),
            number(each.high),
            *(percent(share) for share in each.above),
            number(each.half),
        ]
        for each in place.exposures
    ]
    who = "All users" if place.n_users == len(place.n_events) else "All users with an event"
    caption = f"{who} by mechanism, each compared in {place.n_groups:,} groups (median)"
    return Table(caption, _COLUMNS, [("", rows)]).html
