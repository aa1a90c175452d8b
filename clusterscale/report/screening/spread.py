"""Distribution of exposure over all users."""

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
    Column("95th percentile", hint="Of the AUC over users"),
    *(Column(f"Users above {level}") for level in AUC_LEVELS),
    Column("±", hint="Half the 95 % interval of a user’s AUC, mean over users"),
)


def spread(places: Sequence[ScreenCase]) -> Section:
    """Build the distribution of AUC over all users, a curve per mechanism, and its numbers."""
    folds = [(place.label, _figure(place, i) + _table(place)) for i, place in enumerate(places)]
    return Section(
        "everyone",
        "Exposure of all users",
        "Each user was compared in the same groups, once counted and once replaced by another "
        "user, with attacks that need no training. Each curve shows the share of users that the "
        "strongest of these attacks recognises with at most the AUC on the axis; the dashed line "
        "is chance.",
        fill("folds.html.j2", folds=folds),
    )


def _figure(place: ScreenCase, index: int) -> Markup:
    names = [attack.mechanism for attack in place.exposures]
    lowest = min(float(attack.curve[0]) for attack in place.exposures)
    drawn = figures.distributions(
        {i: attack.curve for i, attack in enumerate(place.exposures)},
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
            breakable(attack.mechanism),
            attack.attack,
            number(attack.mean),
            number(attack.high),
            *(percent(share) for share in attack.above),
            number(attack.half),
        ]
        for attack in place.exposures
    ]
    who = "All users" if place.n_users == len(place.n_events) else "All users with an event"
    caption = f"{who} by mechanism, each compared in {place.n_groups:,} groups (median)"
    return Table(caption, _COLUMNS, [("", rows)]).html
