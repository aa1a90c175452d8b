"""Sections on the targets: distributions of AUC and privacy loss, and the most exposed."""

from collections.abc import Iterator
from dataclasses import replace
from math import floor
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from clusterscale.reporting import figures
from clusterscale.reporting import section as html
from clusterscale.reporting.audit.cases import Cases, by_attack, mean
from clusterscale.reporting.audit.model import AuditReport
from clusterscale.reporting.declared import Column
from clusterscale.validation_messages import find_ties, name_best


def build_distributions(audit: AuditReport) -> Iterator[html.Section]:
    """Build a panel for each group size, as in NDSS18 Figs 2 and 4, one fold for each setting."""
    table = audit.cases
    folds = [
        (
            table.label(setting),
            html.side_by_side(figure.html for figure in auc_figures(table, index)),
        )
        for index, setting in table.shown()
    ]
    return html.folds_section("distributions", folds, figures.legend(table.attacks))


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


def build_losses(audit: AuditReport) -> Iterator[html.Section]:
    """Build box plots of the privacy loss, as in NDSS18 Fig. 3, one for each setting."""
    table = audit.cases
    if np.isfinite(table.loss).any():
        shown = table.shown()
        folds = [(table.label(one), loss_figure(table, index).html) for index, one in shown]
        legend = figures.legend(table.attacks, dashed=False)
        yield html.section("losses", legend + html.folded(folds))


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


def build_periods(audit: AuditReport) -> Iterator[html.Section]:
    """Build box plots of the privacy loss by period, as in NDSS18 Fig. 11; none for one period.

    There is a panel for each group size, and a fold for each prior and mechanism.
    """
    table = audit.cases
    periods = list(dict.fromkeys(setting.period for setting in table.settings))
    if len(periods) < 2 or not np.isfinite(table.loss).any():
        return
    others = replace(table, varying=tuple(axis for axis in table.varying if axis != "period"))
    folds = []
    for setting in dict.fromkeys(replace(shown, period="") for _, shown in table.shown()):
        indices = [table.settings.index(replace(setting, period=name)) for name in periods]
        folds.append((others.label(setting), _period_panels(table, indices)))
    legend = figures.legend(table.attacks, dashed=False)
    legend += html.fill_part("legends.numbered", names=periods)
    yield html.section("periods", legend + html.folded(folds))


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


_TERTILES = {"high": 0, "mild": 1, "some": 2}


def build_exposed(audit: AuditReport) -> Iterator[html.Section]:
    """Build the list of targets by highest AUC, one table for each setting."""
    table = audit.cases
    folds = [(table.label(setting), _table(audit, index)) for index, setting in table.shown()]
    tertiles = _tertiles(table, audit.results["tertile"].values.astype(object))
    return html.folds_section("exposed", folds, tertiles)


def _tertiles(table: Cases, tertiles: NDArray[np.object_]) -> Markup:
    names = sorted(set(tertiles), key=lambda name: (_TERTILES.get(name, len(_TERTILES)), name))
    columns = [Column("Group size", ("header",)), Column("Strongest attack", ("text",))]
    columns += [Column(f"{name} ({(tertiles == name).sum()})") for name in names]
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
    return html.draw_table(caption, columns, groups)


def _table(audit: AuditReport, setting: int) -> Markup:
    table = audit.cases
    auc = table.auc[setting].reshape(-1, table.n_targets)
    known = [target for target in range(table.n_targets) if np.isfinite(auc[:, target]).any()]
    loss = table.loss[setting].reshape(auc.shape)
    rows = []
    # ties are broken by the mean AUC over attacks and group sizes
    for target in sorted(known, key=lambda t: (-np.nanmax(auc[:, t]), -mean(auc[:, t]))):
        best, attack = _best_attack(table, setting, target)
        size = table.group_sizes[best // len(table.attacks)]
        case = {"attack": attack, "group_size": size, "auc": auc[best, target]}
        rows.append(case | {"target": target, "loss": loss[best, target]})
    names = ("pseudonym", "tertile", "n_events")
    about: dict[str, Any] = {name: audit.results[name].values for name in names}
    return html.long_table("targets", rows, file=f"targets-{setting + 1}.csv", n=len(rows), **about)


def _best_attack(table: Cases, setting: int, target: int) -> tuple[int, str]:
    """Return the case of a target with the highest AUC, and the names of its attacks.

    It is an index into (group size, attack) as one axis. Among group sizes with equal AUC, the
    largest is chosen.
    """
    n_attacks = len(table.attacks)
    ties = find_ties(table.auc[setting, :, :, target].ravel())
    tied = [case for case in ties if case // n_attacks == ties[-1] // n_attacks]
    names = [table.attacks[case % n_attacks] for case in tied]
    return tied[0], name_best(names, np.ones(len(tied)))
