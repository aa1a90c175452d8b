"""Sections of a recovery: errors of an adversary who infers locations, and gains of defences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.recovery import privacy_loss
from clusterscale.recovery.task import BASELINES
from clusterscale.report import figures
from clusterscale.report.figures import Floats
from clusterscale.report.section import (
    Build,
    Column,
    Section,
    Table,
    breakable,
    build_all,
    fill,
    folded,
    json_attribute,
    number,
    percent,
    plural,
    quantity,
    side_by_side,
)
from clusterscale.validation_messages import name_best

__all__ = ["GOALS", "Best", "Errors", "Goal", "find_best", "read_errors", "render_sections"]


BARE, PRIOR = 0, 0  # indices of the mechanism of raw counts, and of the strategy without a release


@dataclass(frozen=True, slots=True)
class Goal:
    """Goal of the adversary: ``profiling`` or ``localization``, with a title and its error."""

    name: str
    title: str
    error: str


GOALS = (
    Goal(
        "profiling",
        "Profiling: the probability that a user is in each region",
        "Jensen–Shannon distance, mean over epochs",
    ),
    Goal("localization", "Localization: the regions where a user is", "1 − F1 over all epochs"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """Errors for one goal.

    Arrays have the axes (mechanism, prior, strategy, user), ``of_epoch`` (…, epoch) instead. For
    localization, each strategy uses the decision rule with the lower mean error.
    """

    goal: Goal
    mechanisms: tuple[str, ...]
    priors: tuple[str, ...]
    strategies: tuple[str, ...]
    error: Floats
    loss: Floats
    gain: Floats
    of_epoch: Floats


def read_errors(recovered: xr.Dataset, goal: Goal) -> Errors:
    """Return the errors of a recovery for one goal."""
    names = ["error", "loss", "gain", "error_of_epoch"]
    arrays = [recovered[f"{goal.name}_{name}"].values.astype(np.float64) for name in names]
    if goal.name == "localization":
        best = arrays[0].mean(axis=-1).argmin(axis=-1)
        arrays = [_pick(array, best) for array in arrays]
    mechanisms, priors, strategies = (
        tuple(map(str, recovered[dim].values)) for dim in ("mechanism", "prior", "strategy")
    )
    return Errors(goal, mechanisms, priors, strategies, *arrays)


def _pick(array: Floats, reading: Any) -> Floats:
    """Return the chosen decision rule of each mechanism, prior and strategy."""
    return np.take_along_axis(array, reading[..., None, None], axis=-2)[..., 0, :]


@dataclass(frozen=True, slots=True)
class Best:
    """Lowest mean error of an adversary with raw counts, and without any release.

    ``without`` names the priors with the lowest mean error without the release, ``known``;
    ``within`` the strategies and priors with the lowest from raw counts, ``left``. Several are
    named if equal to three digits. ``share`` is the relative reduction of the error, 0 if raw
    counts do not help; ``hit`` the share of users whose error decreases, ``hard`` the share of
    users whose error decreases by a quarter or more.
    """

    without: str
    known: float
    within: str
    left: float
    share: float
    hit: float
    hard: float


def find_best(errors: Errors) -> Best:
    """Return the best with raw counts and without, over all priors and strategies."""
    alone, raw = errors.error[BARE, :, PRIOR], errors.error[BARE, :, PRIOR + 1 :]
    names = [
        f"{strategy} with {prior}"
        for prior in errors.priors
        for strategy in errors.strategies[PRIOR + 1 :]
    ]
    known, left = alone.mean(axis=-1), raw.mean(axis=-1).ravel()
    reduction = privacy_loss(alone[known.argmin()], raw.reshape(-1, raw.shape[-1])[left.argmin()])
    return Best(
        without=name_best(errors.priors, known, lowest=True),
        known=float(known.min()),
        within=name_best(names, left, lowest=True),
        left=float(left.min()),
        share=float(privacy_loss(known.min(), left.min())),
        hit=float((reduction > 0).mean()),
        hard=float((reduction >= 0.25).mean()),
    )


def _findings(recovered: xr.Dataset) -> Markup:
    """Build the findings."""
    source = json_attribute(recovered, "cube").get("source")
    plan = json_attribute(recovered, "plan")
    goals = [(goal, find_best(read_errors(recovered, goal))) for goal in GOALS]
    return fill(
        "recovery.html.j2",
        users=plural(recovered.sizes["user"], "user"),
        source=source if isinstance(source, str) else "",
        observed=plan.get("observed", ""),
        epochs=plural(recovered.sizes["epoch"], "epoch"),
        goals=goals,
        priors=plural(recovered.sizes["prior"], "prior"),
        n_mechanisms=recovered.sizes["mechanism"],
    )


def _spread(recovered: xr.Dataset) -> Section:
    """Build the distribution of errors over users, a panel per prior (PETS17 Figs 1 to 5)."""
    read = [read_errors(recovered, goal) for goal in GOALS]
    folds = [(errors.goal.title, _panels(errors)) for errors in read]
    body = figures.legend(read[0].strategies) + folded(folds)
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
        words = _quartiles(errors, place)
        panels.append(
            figures.plot(drawn, slug=f"{name}-{place + 1}", title=prior, description=words)
        )
    return side_by_side(panels)


def _quartiles(errors: Errors, prior: int) -> str:
    parts = [
        f"{strategy}: quartiles "
        + ", ".join(number(float(q)) for q in np.quantile(values, (0.25, 0.5, 0.75)))
        for strategy, values in zip(errors.strategies, errors.error[BARE, prior], strict=True)
    ]
    return "Cumulative distribution of errors over users. " + "; ".join(parts)


def _hours(recovered: xr.Dataset) -> Section:
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
    body = figures.legend(errors.strategies) + side_by_side(panels)
    return Section(
        "hours",
        "Errors over time",
        "The mean profiling error over all users in each epoch, from raw counts. The further a "
        "curve is below that of the prior, the more the release discloses.",
        body,
    )


def _gains(recovered: xr.Dataset) -> Section | None:
    """Build boxes of privacy gain by mechanism (PETS17 Figs 7 to 9); None without a defence."""
    if recovered.sizes["mechanism"] < 2:
        return None
    prices = recovered.relative_error.values
    folds = []
    for errors in (read_errors(recovered, goal) for goal in GOALS):
        for place, prior in enumerate(errors.priors):
            folds.append((f"{errors.goal.name}, {prior}", _boxes(errors, place, prices)))
    body = folded(folds)
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


_COLUMNS = (
    Column("Strategy", number=False, header=True),
    Column("Profiling error", hint="Mean over users"),
    Column("Loss", hint="Mean privacy loss in profiling"),
    Column("Users affected", hint="Users whose profiling error decreases"),
    Column("Gain", hint="Mean privacy gain in profiling"),
    Column("Localization error", hint="Mean over users, with the better decision rule"),
    Column("Loss", hint="Mean privacy loss in localization"),
    Column("Gain", hint="Mean privacy gain in localization"),
)


def _all_errors(recovered: xr.Dataset) -> Section:
    """Build a row for each mechanism, prior and strategy."""
    profiling, localization = (read_errors(recovered, goal) for goal in GOALS)
    groups = []
    for i, mechanism in enumerate(profiling.mechanisms):
        for j, prior in enumerate(profiling.priors):
            rows = [
                [name, *_cells(profiling, i, j, k), *_cells(localization, i, j, k)]
                for k, name in enumerate(profiling.strategies)
            ]
            groups.append((f"{mechanism} · {prior}", rows))
    return Section(
        "recovery-results",
        "All errors",
        "Losses are relative to the prior alone, gains relative to raw counts; both are means over "
        "users.",
        Table("Errors by mechanism, prior and strategy", _COLUMNS, groups).html,
    )


def _cells(errors: Errors, mechanism: int, prior: int, strategy: int) -> list[str]:
    at = mechanism, prior, strategy
    cells = [number(float(errors.error[at].mean())), number(float(errors.loss[at].mean()))]
    if errors.goal.name == "profiling":
        cells.append(percent(float((errors.loss[at] > 0).mean())))
    return [*cells, number(float(errors.gain[at].mean()))]


_SECTIONS: tuple[Build, ...] = (_spread, _hours, _gains, _all_errors)


def render_sections(recovered: xr.Dataset) -> tuple[Markup, list[Section]]:
    """Return a recovery's part of the first screen of a page, and its sections."""
    recovered = recovered.compute()
    return _findings(recovered), build_all(recovered, _SECTIONS)
