"""Distributions of errors over users, and mean errors over time."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report import figures
from clusterscale.report.recovery.errors import BARE, GOALS, Errors, read_errors
from clusterscale.report.section import Section, fill, join, number


def spread(recovered: xr.Dataset) -> Section:
    """Build the distribution of errors over users, a panel per prior (PETS17 Figs 1 to 5)."""
    read = [read_errors(recovered, goal) for goal in GOALS]
    folds = [(errors.goal.title, _panels(errors)) for errors in read]
    body = figures.legend(read[0].strategies) + fill("folds.html.j2", folds=folds)
    return Section(
        "spread",
        "Errors over users",
        "Each curve shows the share of users for whom the adversary’s error is at most the number "
        "on the axis. The further left a curve is, the more the adversary knows. “prior” uses only "
        "the prior, “release” assumes the profile of the whole crowd for every user; the others "
        "combine both, from raw counts.",
        body,
    )


def _panels(errors: Errors) -> Markup:
    name = errors.goal.name
    panels = []
    for place, prior in enumerate(errors.priors):
        series = dict(enumerate(errors.error[BARE, place]))
        drawn = figures.distributions(
            series,
            errors.strategies,
            start=0.0,
            axis=f"{name} error of a user",
            among="users",
            chance=None,
        )
        words = _in_words(errors, place)
        panels.append(
            figures.plot(drawn, slug=f"{name}-{place + 1}", title=prior, description=words)
        )
    return fill("panels.html.j2", panels=join(panels))


def _in_words(errors: Errors, prior: int) -> str:
    parts = [
        f"{strategy}: quartiles "
        + ", ".join(number(float(q)) for q in np.quantile(values, (0.25, 0.5, 0.75)))
        for strategy, values in zip(errors.strategies, errors.error[BARE, prior], strict=True)
    ]
    return "Cumulative distribution of errors over users. " + "; ".join(parts)


def hours(recovered: xr.Dataset) -> Section:
    """Build the mean profiling error of each epoch, a panel per prior (PETS17 Fig. 6)."""
    errors = read_errors(recovered, GOALS[0])
    epochs = recovered.epoch.values
    panels = [
        figures.plot(
            figures.curves(epochs, dict(enumerate(errors.of_epoch[BARE, place])), names),
            slug=f"hours-{place + 1}",
            title=prior,
            description="Mean profiling error by epoch. "
            + "; ".join(
                f"{name}: from {number(float(line.min()))} to {number(float(line.max()))}"
                for name, line in zip(names, errors.of_epoch[BARE, place], strict=True)
            ),
        )
        for names in [errors.strategies]
        for place, prior in enumerate(errors.priors)
    ]
    body = figures.legend(errors.strategies) + fill("panels.html.j2", panels=join(panels))
    return Section(
        "hours",
        "Errors over time",
        "The mean profiling error over all users in each epoch, from raw counts. The further a "
        "curve is below that of the prior, the more the release discloses.",
        body,
    )
