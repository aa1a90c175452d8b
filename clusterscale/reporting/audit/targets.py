"""Sections on the targets: distributions of AUC and privacy loss, and the most exposed."""

from collections.abc import Iterator
from dataclasses import replace
from math import floor

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.reporting import figures
from clusterscale.reporting import section as html
from clusterscale.reporting.audit.cases import Cases, by_attack, mean
from clusterscale.reporting.audit.model import AuditReport
from clusterscale.validation_messages import find_ties, name_best, plural


def build_distributions(audit: AuditReport) -> html.Section | None:
    """Build a panel for each group size, as in NDSS18 Figs 2 and 4, one fold for each setting."""
    table = audit.cases
    if not table.finished:
        return None
    folds = [
        (
            table.label(setting),
            html.side_by_side(figure.html for figure in auc_figures(table, index)),
        )
        for index, setting in table.shown()
    ]
    body = figures.legend(table.attacks) + html.folded(folds)
    return html.section("distributions", body)


def auc_figures(table: Cases, setting: int) -> Iterator[figures.Figure]:
    """Yield the distribution of AUC over targets for each group size of a setting."""
    lowest = float(np.nanmin(table.auc))
    start = min(0.4, floor(lowest * 10) / 10)
    for size, group_size in enumerate(table.group_sizes):
        series = by_attack(table.auc[setting, size])
        if series:
            words = html.quartiles((table.attacks[i], values) for i, values in series.items())
            yield figures.Figure(
                figures.distributions(series, table.attacks, start=start),
                slug=f"auc-{setting + 1}-{group_size}",
                title=f"Groups of {group_size:,}",
                description="Cumulative distribution of AUC over targets in groups of "
                f"{group_size}. {words}",
                setting=table.label(table.settings[setting]),
            )


def build_losses(audit: AuditReport) -> html.Section | None:
    """Build box plots of the privacy loss, as in NDSS18 Fig. 3, one for each setting."""
    table = audit.cases
    if not np.isfinite(table.loss).any():
        return None
    folds = [
        (table.label(setting), loss_figure(table, index).html) for index, setting in table.shown()
    ]
    return html.section("losses", figures.legend(table.attacks, dashed=False) + html.folded(folds))


def loss_figure(table: Cases, setting: int) -> figures.Figure:
    """Return the box plots of privacy loss over targets by group size of a setting."""
    groups = []
    for size, group_size in enumerate(table.group_sizes):
        series = by_attack(table.loss[setting, size])
        if series:
            groups.append((group_size, series))
    return figures.Figure(
        figures.boxes(groups, table.attacks),
        slug=f"loss-{setting + 1}",
        title="Privacy loss of targets, by group size and attack",
        description=_describe_boxes("groups of", groups, table),
        setting=table.label(table.settings[setting]),
        names=table.attacks,
    )


def build_periods(audit: AuditReport) -> html.Section | None:
    """Build box plots of the privacy loss by period, as in NDSS18 Fig. 11; None for one period.

    There is a panel for each group size, and a fold for each prior and mechanism.
    """
    table = audit.cases
    periods = list(dict.fromkeys(setting.period for setting in table.settings))
    if len(periods) < 2 or not np.isfinite(table.loss).any():
        return None
    others = replace(table, varying=tuple(axis for axis in table.varying if axis != "period"))
    folds = []
    for setting in dict.fromkeys(replace(shown, period="") for _, shown in table.shown()):
        indices = [table.settings.index(replace(setting, period=name)) for name in periods]
        folds.append((others.label(setting), _period_panels(table, indices)))
    legend = figures.legend(table.attacks, dashed=False)
    legend += html.fill_part("legends.numbered", names=periods)
    return html.section("periods", legend + html.folded(folds))


def _period_panels(table: Cases, indices: list[int]) -> Markup:
    panels = []
    for size, group_size in enumerate(table.group_sizes):
        groups = [
            (period, series)
            for period, index in enumerate(indices, 1)
            if (series := by_attack(table.loss[index, size]))
        ]
        if not groups:
            continue
        drawn = figures.boxes(groups, table.attacks, across="period")
        panels.append(
            figures.plot(
                drawn,
                slug=f"periods-{indices[0] + 1}-{group_size}",
                title=f"Groups of {group_size:,}",
                description=_describe_boxes("period", groups, table),
            )
        )
    return html.side_by_side(panels)


def _describe_boxes(
    across: str, groups: list[tuple[int, dict[int, figures.Floats]]], table: Cases
) -> str:
    medians = (
        f"{across} {value}: "
        + ", ".join(
            f"{table.attacks[index]} {html.number(float(np.median(values)))}"
            for index, values in series.items()
        )
        for value, series in groups
    )
    return "Box plots of privacy loss; medians. " + "; ".join(medians)


_MOBILITY = "Tertile of users by number of events: high, mild or some"
_TERTILES = {"high": 0, "mild": 1, "some": 2}


def build_exposed(audit: AuditReport) -> html.Section | None:
    """Build the list of targets by highest AUC, one table for each setting."""
    table = audit.cases
    if not table.finished:
        return None
    targets, tertiles = (audit.results[name].values for name in ("pseudonym", "tertile"))
    people = [
        html.LongColumn("Target", targets),
        html.LongColumn("Mobility", tertiles, hint=_MOBILITY),
        html.LongColumn(
            "Events", audit.results["n_events"].values, 0, hint="In the audited periods"
        ),
    ]
    folds = [
        (table.label(setting), _table(table, index, people)) for index, setting in table.shown()
    ]
    return html.section("exposed", _tertiles(table, tertiles.astype(object)) + html.folded(folds))


def _tertiles(table: Cases, tertiles: NDArray[np.object_]) -> Markup:
    names = sorted(set(tertiles), key=lambda name: (_TERTILES.get(name, len(_TERTILES)), name))
    columns = [html.Column("Group size", number=False, header=True)]
    columns += [html.Column("Strongest attack", number=False)]
    columns += [html.Column(f"{name} ({(tertiles == name).sum()})") for name in names]
    groups: list[tuple[str, list[list[str | Markup]]]] = []
    for setting, what in table.shown():
        rows: list[list[str | Markup]] = []
        for size, group_size in enumerate(table.group_sizes):
            attack = table.strongest(setting, size)
            if attack is not None:
                auc = table.auc[setting, size, attack]
                means = [html.number(mean(auc[tertiles == name])) for name in names]
                name = table.name_strongest(setting, size)
                rows.append([f"{group_size:,}", name, *means])
        groups.append((table.label(what), rows))
    caption = "Mean AUC of the strongest attack by mobility (number of targets)"
    return html.Table(caption, columns, groups).html


def _table(table: Cases, setting: int, people: list[html.LongColumn]) -> Markup:
    auc = table.auc[setting].reshape(-1, table.n_targets)
    known = [target for target in range(table.n_targets) if np.isfinite(auc[:, target]).any()]
    # ties are broken by the mean AUC over attacks and group sizes
    order = np.array(sorted(known, key=lambda t: (-np.nanmax(auc[:, t]), -mean(auc[:, t]))))
    best, attack = _best_attacks(table, setting, order)
    size = best // len(table.attacks)
    columns = [
        replace(column, values=np.asarray(column.values, dtype=object)[order]) for column in people
    ]
    columns += [
        html.LongColumn("Best attack", attack),
        html.LongColumn("Group size", np.array(table.group_sizes)[size], 0),
        html.LongColumn("AUC", auc[best, order], 3),
        html.LongColumn("Privacy loss", table.loss[setting].reshape(auc.shape)[best, order], 3),
    ]
    caption = f"Targets by their highest AUC, {plural(len(order), 'target')}"
    return html.long_table(caption, columns, file=f"targets-{setting + 1}.csv")


def _best_attacks(
    table: Cases, setting: int, targets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[str]]:
    """Return, for each target, the case with the highest AUC, and the names of its attacks.

    Cases are indices into (group size, attack) as one axis, shape (target,). Among group sizes with
    equal AUC, the largest is chosen.
    """
    n_attacks = len(table.attacks)
    best, names = [], []
    for target in targets:
        ties = find_ties(table.auc[setting, :, :, target].ravel())
        best.append(first := next(i for i in ties if i // n_attacks == ties[-1] // n_attacks))
        tied = [table.attacks[i % n_attacks] for i in ties if i // n_attacks == first // n_attacks]
        names.append(name_best(tied, np.ones(len(tied))))
    return np.array(best, np.int64), names
