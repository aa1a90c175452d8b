"""Sections of a recovery: errors of an adversary who infers locations, and gains of defences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.analyses.recovery import privacy_loss
from clusterscale.analyses.recovery.task import BASELINES
from clusterscale.reporting import figures
from clusterscale.reporting import section as html
from clusterscale.reporting.figures import Floats
from clusterscale.validation_messages import name_best

_RAW, _PRIOR = 0, 0  # indices of the mechanism of raw counts, and of the strategy without a release


GOALS = {
    "profiling": "Profiling: the probability that a user is in each region",
    "localization": "Localization: the regions where a user is",
}
"""Titles of the adversary's goals, whose errors are the Jensen–Shannon distance, mean over epochs,
and 1 − F1 over all epochs."""


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """Errors for one goal, of those in :data:`GOALS`.

    Arrays have the axes (mechanism, prior, strategy, user), ``of_epoch`` (…, epoch) instead. For
    localization, each strategy uses the decision rule with the lower mean error.
    """

    goal: str
    mechanisms: tuple[str, ...]
    priors: tuple[str, ...]
    strategies: tuple[str, ...]
    error: Floats
    loss: Floats
    gain: Floats
    of_epoch: Floats


def read_errors(recovered: xr.Dataset, goal: str) -> Errors:
    """Return the errors of a recovery for one goal."""
    names = ["error", "loss", "gain", "error_of_epoch"]
    arrays = [recovered[f"{goal}_{name}"].values.astype(np.float64) for name in names]
    if goal == "localization":
        best = arrays[0].mean(axis=-1).argmin(axis=-1)
        rule = best[..., None, None]
        arrays = [np.take_along_axis(array, rule, axis=-2)[..., 0, :] for array in arrays]
    mechanisms, priors, strategies = (
        tuple(map(str, recovered[dim].values)) for dim in ("mechanism", "prior", "strategy")
    )
    return Errors(goal, mechanisms, priors, strategies, *arrays)


def find_best(errors: Errors) -> dict[str, object]:
    """Return the lowest mean error of an adversary with raw counts, and without any release.

    ``without`` names the priors with the lowest mean error without the release, ``known``;
    ``within`` the strategies and priors with the lowest from raw counts, ``left``. Several are
    named if equal to three digits. ``share`` is the relative reduction of the error, 0 if raw
    counts do not help; ``affected`` the share of users whose error decreases, ``much_affected`` of
    those whose error decreases by a quarter or more.
    """
    alone, raw = errors.error[_RAW, :, _PRIOR], errors.error[_RAW, :, _PRIOR + 1 :]
    names = [
        f"{strategy} with {prior}"
        for prior in errors.priors
        for strategy in errors.strategies[_PRIOR + 1 :]
    ]
    known, left = alone.mean(axis=-1), raw.mean(axis=-1).ravel()
    reduction = privacy_loss(alone[known.argmin()], raw.reshape(-1, raw.shape[-1])[left.argmin()])
    return {
        "without": name_best(errors.priors, known, lowest=True),
        "known": float(known.min()),
        "within": name_best(names, left, lowest=True),
        "left": float(left.min()),
        "share": float(privacy_loss(known.min(), left.min())),
        "affected": float((reduction > 0).mean()),
        "much_affected": float((reduction >= 0.25).mean()),
    }


def render_sections(recovered: xr.Dataset) -> tuple[Markup, list[html.Section]]:
    """Return a recovery's part of the first screen of a page, and its sections."""
    recovered = recovered.compute()
    errors = [read_errors(recovered, goal) for goal in GOALS]
    sections = [_spread(errors), _hours(errors[0], recovered.epoch.values)]
    if recovered.sizes["mechanism"] > 1:
        sections.append(_gains(errors, recovered.relative_error.values))
    return _findings(recovered, errors), [*sections, _all_errors(*errors)]


def _findings(recovered: xr.Dataset, errors: Sequence[Errors]) -> Markup:
    return html.fill(
        "recovery.html.j2",
        sizes=recovered.sizes,
        cube=html.json_attribute(recovered, "cube"),
        observed=html.json_attribute(recovered, "plan").get("observed", ""),
        goals=[(GOALS[of_goal.goal], find_best(of_goal)) for of_goal in errors],
    )


def _spread(errors: Sequence[Errors]) -> html.Section:
    """Build the distribution of errors over users, a panel per prior (PETS17 Figs 1 to 5)."""
    folds = [(GOALS[of_goal.goal], _panels(of_goal)) for of_goal in errors]
    return html.section("spread", figures.legend(errors[0].strategies) + html.folded(folds))


def _panels(errors: Errors) -> Markup:
    panels = []
    for i, (prior, values) in enumerate(zip(errors.priors, errors.error[_RAW], strict=True), 1):
        drawn = figures.distributions(
            dict(enumerate(values)),
            errors.strategies,
            start=0.0,
            axis=f"{errors.goal} error of a user",
            among="users",
            chance=None,
        )
        words = html.quartiles(zip(errors.strategies, values, strict=True))
        description = f"Cumulative distribution of errors over users. {words}"
        slug = f"{errors.goal}-{i}"
        panels.append(figures.plot(drawn, slug=slug, title=prior, description=description))
    return html.side_by_side(panels)


def _hours(errors: Errors, epochs: NDArray[Any]) -> html.Section:
    """Build the mean profiling error of each epoch, a panel per prior (PETS17 Fig. 6)."""
    names, panels = errors.strategies, []
    for i, (prior, lines) in enumerate(zip(errors.priors, errors.of_epoch[_RAW], strict=True), 1):
        words = "; ".join(
            f"{name}: from {html.number(float(line.min()))} to {html.number(float(line.max()))}"
            for name, line in zip(names, lines, strict=True)
        )
        drawn = figures.curves(epochs, dict(enumerate(lines)), names)
        description = f"Mean profiling error by epoch. {words}"
        panels.append(figures.plot(drawn, slug=f"hours-{i}", title=prior, description=description))
    return html.section("hours", figures.legend(names) + html.side_by_side(panels))


def _gains(errors: Sequence[Errors], relative_errors: Floats) -> html.Section:
    """Build boxes of privacy gain by mechanism (PETS17 Figs 7 to 9)."""
    folds = [
        (f"{of_goal.goal}, {prior}", _boxes(of_goal, i, relative_errors))
        for of_goal in errors
        for i, prior in enumerate(of_goal.priors)
    ]
    return html.section("recovery-gains", html.folded(folds))


def _boxes(errors: Errors, prior: int, relative_errors: Floats) -> Markup:
    rows = [
        (
            html.breakable(name),
            html.quantity(float(relative_errors[mechanism])),
            [
                {"key": errors.strategies[i], "title": ""}
                | figures.boxed(errors.gain[mechanism, prior, i], figures.colour(i))
                for i in range(len(BASELINES), len(errors.strategies))
            ],
        )
        for mechanism, name in enumerate(errors.mechanisms)
        if mechanism != _RAW
    ]
    caption = f"Privacy gain of users, {errors.priors[prior]}"
    return html.fill("gains.html.j2", caption=caption, has_price=True, key="Strategy", rows=rows)


def _all_errors(profiling: Errors, localization: Errors) -> html.Section:
    """Build a row for each mechanism, prior and strategy."""
    groups = [
        (
            f"{mechanism} · {prior}",
            [
                {"strategy": name, "profiling": profiling, "localization": localization}
                | {"at": (i, j, k)}
                for k, name in enumerate(profiling.strategies)
            ],
        )
        for i, mechanism in enumerate(profiling.mechanisms)
        for j, prior in enumerate(profiling.priors)
    ]
    return html.section("recovery-results", html.table("errors", groups))
