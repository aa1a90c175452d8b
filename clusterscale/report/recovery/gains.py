"""Privacy gain of each defence: how much it adds to the adversary's error."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.recovery.task import BASELINES
from clusterscale.report import figures
from clusterscale.report.recovery.errors import BARE, GOALS, Errors, read_errors
from clusterscale.report.section import Section, breakable, fill, number, quantity


def build(recovered: xr.Dataset) -> Section | None:
    """Build boxes of privacy gain by mechanism (PETS17 Figs 7 to 9); None without a defence."""
    if recovered.sizes["mechanism"] < 2:
        return None
    prices = recovered.relative_error.values
    folds = []
    for errors in (read_errors(recovered, goal) for goal in GOALS):
        for place, prior in enumerate(errors.priors):
            folds.append((f"{errors.goal.name}, {prior}", _boxes(errors, place, prices)))
    body = fill("folds.html.j2", folds=folds)
    return Section(
        "recovery-gains",
        "Privacy gain of each defence",
        "Privacy gain is how far a defence raises the error from that with raw counts towards 1: 0 "
        "if the adversary does as well as with raw counts, 1 if the error is 1. Boxes span the "
        "middle half of the users; the thick line is the median, the dot the mean. The relative "
        "error of the published values is the utility cost.",
        body,
    )


def _boxes(errors: Errors, prior: int, prices: figures.Floats) -> Markup:
    rows = [
        (
            breakable(name),
            quantity(float(prices[mechanism])),
            [
                _line(errors.gain[mechanism, prior, place], errors, place)
                for place in range(len(BASELINES), len(errors.strategies))
            ],
        )
        for mechanism, name in enumerate(errors.mechanisms)
        if mechanism != BARE
    ]
    return fill(
        "recovery_gains.html.j2",
        caption=f"Privacy gain of users, {errors.priors[prior]}",
        rows=rows,
    )


def _line(gains: figures.Floats, errors: Errors, strategy: int) -> dict[str, object]:
    return {
        "strategy": errors.strategies[strategy],
        "strip": figures.strip(gains, figures.colour(strategy)),
        "median": number(float(np.median(gains))),
        "mean": number(float(gains.mean())),
    }
