"""An audit on a page: the first screen, the sections in order, and its figures one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale import schema
from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK
from clusterscale.phrases import BROKEN, NOT_TESTED, privacy_unit
from clusterscale.reporting import figures
from clusterscale.reporting import section as html
from clusterscale.reporting.audit import gains, reliability, targets
from clusterscale.reporting.audit.cases import Defences, SummaryRow, strongest_rows
from clusterscale.reporting.audit.gains import (
    best_defence,
    largest_loss,
    least_gains,
    tradeoff_figures,
)
from clusterscale.reporting.audit.headline import build_headline
from clusterscale.reporting.audit.model import AuditReport
from clusterscale.reporting.audit.targets import auc_figures, loss_figure
from clusterscale.reporting.findings import worst_finding
from clusterscale.reporting.run import Run
from clusterscale.utility import NEARLY_EMPTY
from clusterscale.validation_messages import find_ties

_LEFT, _RIGHT = 0.4, 1.0  # ends of the AUC strip
_MOST_NAMED = 4  # mechanisms in a sentence
_MOST_OPEN = 12  # lines of a table before the rest of the page
_COLUMNS = (
    html.Column("Group size", number=False, header=True),
    html.Column("Strongest attack", number=False),
    html.Column("Mean AUC"),
    html.Column("0.4 to 1, with a mark at chance", number=False),
    html.Column("95 % interval"),
    html.Column("Median target"),
    html.Column("Targets above 0.75"),
)
_VERDICT_COLUMNS = (
    html.Column("Mechanism", number=False, header=True, wide=True),
    html.Column("Verdict", number=False, hint="Worst over all settings; defined below"),
    html.Column("Mean AUC", hint="Of the strongest attack"),
    html.Column("95 % interval"),
    html.Column("Certainly above 0.75", hint="Targets; simultaneous 95 % confidence (Holm)"),
    html.Column(
        "Gain",
        hint="Mean privacy gain where raw counts expose most; smallest over attacks and priors",
    ),
    html.Column(
        "Utility lost", hint="Relative to a random guess, by the measure with the largest loss"
    ),
    html.Column(
        "Guarantee", number=False, hint="Declared ε, the unit it protects, and the test’s verdict"
    ),
)


def findings(audit: AuditReport, headline: str = "") -> Markup:
    """Build the first screen, with its picture; it exists even if no test finished."""
    table, defences = audit.cases, audit.defences
    lines = strongest_rows(table)
    full = [line for line in lines if not defences.emptiest(line.setting.mechanism)]
    most, least = _tied(lines), _tied(full or lines, lowest=True)
    return html.fill(
        "overview.html.j2",
        headline=headline,
        audited=_audited(audit),
        lines=lines,
        most=most,
        least=[] if set(map(id, most)) & set(map(id, least)) else least,
        label=table.label,
        strip_table=_strips(audit, lines),
        n_lines=len(lines),
        n_open=_MOST_OPEN,
        best_defence=best_defence(defences),
        empty=audit.empty,
        nearly_empty=html.percent(NEARLY_EMPTY),
        several=len(list(defences.cases())) > 1,
        verdicts=_verdicts(audit),
        worst_of_all=worst_finding(audit.findings),
        broken=audit.broken,
        controls=audit.controls,
        has_control=bool(np.isfinite(table.control).any()),
        n_run=int(table.planned.sum()),
        n_done=int(np.isfinite(table.auc).sum()),
        n_unplanned=int((table.status == "missing").sum()),
        absent=audit.absent,
        refused=audit.refused,
        not_tested=NOT_TESTED,
    )


def _audited(audit: AuditReport) -> dict[str, object]:
    table, cube = audit.cases, html.json_attribute(audit.results, "cube")
    targets = html.json_attribute(audit.results, "plan").get("targets")
    n_users, source = cube.get("n_users"), cube.get("source")
    sizes = [str(size) for size in table.group_sizes]
    run = [setting for index, setting in enumerate(table.settings) if table.planned[index].any()]
    mechanisms = sorted({setting.mechanism for setting in run})
    return {
        "n_targets": table.n_targets,
        "most_exposed": isinstance(targets, dict) and "most_exposed" in targets,
        "users": f"{n_users:,}" if isinstance(n_users, int) else "",
        "source": source if isinstance(source, str) else "",
        "group_sizes": " and ".join(filter(None, [", ".join(sizes[:-1]), *sizes[-1:]])) or "–",
        "attacks": table.attacks,
        "priors": sorted({setting.prior for setting in run}),
        "mechanisms": mechanisms if len(mechanisms) <= _MOST_NAMED else [],
        "n_mechanisms": len(mechanisms),
    }


def _strips(audit: AuditReport, lines: list[SummaryRow]) -> Markup:
    groups: dict[str, list[list[str | Markup]]] = {}
    for line in lines:
        cells = [
            f"{line.group_size:,}",
            line.attack,
            html.number(line.mean),
            _strip(line),
            html.interval(line.low, line.high),
            html.number(line.median),
            html.percent(line.above[1]),
        ]
        groups.setdefault(audit.cases.label(line.setting), []).append(cells)
    caption = "How well the strongest attack recognises whether a target was counted"
    return html.Table(caption, _COLUMNS, list(groups.items())).html


def _strip(line: SummaryRow) -> Markup:
    """Draw a mean and its interval on a line, as a small picture without script."""
    known = np.isfinite(line.low)
    return html.fill_part(
        "cells.strip",
        chance=_position(0.5),
        mean=_position(line.mean),
        low=_position(line.low if known else line.mean),
        high=_position(line.high if known else line.mean),
    )


def _position(auc: float) -> str:
    share = (min(max(auc, _LEFT), _RIGHT) - _LEFT) / (_RIGHT - _LEFT)
    return f"{4 + 92 * share:.2f}%"


def _tied(lines: list[SummaryRow], *, lowest: bool = False) -> list[SummaryRow]:
    """Return the lines with the highest mean AUC; several if equal to three digits."""
    return [lines[i] for i in find_ties([line.mean for line in lines], lowest=lowest)]


def _verdicts(audit: AuditReport) -> Markup:
    """Return a table with the worst finding of each mechanism; empty if there are none."""
    if not audit.findings:
        return Markup("")
    gains, guarantees = least_gains(audit.defences), _guarantees(audit)
    rows: list[list[str | Markup]] = [
        [
            html.breakable(name),
            html.fill_part("cells.exposure", finding=finding),
            html.number(finding.mean),
            html.interval(finding.low, finding.high),
            f"{finding.n_certain:,} of {finding.n_done:,}",
            html.number(gains.get(name, float("nan")), 2),
            "none" if name == audit.defences.raw_counts else _lost(audit.defences, name),
            guarantees.get(name, "–"),
        ]
        for name, finding in audit.worst.items()
    ]
    return html.Table("Worst case for each publication method", _VERDICT_COLUMNS, [("", rows)]).html


def _lost(defences: Defences, mechanism: str) -> Markup:
    """Format the largest utility loss with its measure, and whether the release is nearly empty."""
    share, measure = largest_loss(defences, mechanism)
    return html.fill_part(
        "cells.lost",
        share=html.percent(share) if share <= 1 else "all" if np.isfinite(share) else "–",
        measure=measure.title if measure else "",
        empty=defences.emptiest(mechanism),
    )


def _guarantees(audit: AuditReport) -> dict[str, Markup]:
    """Return the guarantee of each mechanism and its worst test verdict over periods."""
    risk = f"{FLOAT_NOISE_RISK}; {FLOAT_NOISE_REMEDY}"
    texts = {
        name: html.fill_part("cells.guarantee", unit="", risk=risk) for name in audit.float_noise
    }
    listed: set[str] = set()
    for test in audit.tests:
        known = test.unit not in ("none", "") and np.isfinite(test.declared)
        if not known or (test.mechanism in listed and test.verdict != BROKEN):
            continue
        listed.add(test.mechanism)
        texts[test.mechanism] = html.fill_part(
            "cells.guarantee",
            epsilon=html.quantity(test.declared),
            unit=privacy_unit(test.unit, "a"),
            verdict=test.verdict,
            broken=test.verdict == BROKEN,
            risk=risk if test.mechanism in audit.float_noise else "",
        )
    return texts


_SECTIONS: tuple[Callable[[AuditReport], html.Section | None], ...] = (
    reliability.build_failures,
    gains.build_gains,
    gains.build_utility,
    gains.build_tradeoff,
    reliability.build_guarantees,
    reliability.build_reliability,
    targets.build_distributions,
    targets.build_losses,
    targets.build_periods,
    reliability.build_results,
    targets.build_exposed,
)


def render_sections(
    results: xr.Dataset, run: Run | None = None
) -> tuple[Markup, list[html.Section]]:
    """Return an audit's part of the first screen of a page, and its sections.

    ``run`` says which mechanism its picture marks, and which limits it has.
    """
    audit, run = AuditReport.of(results), run or Run()
    headline = build_headline(audit, run.titles.get(run.chosen, run.chosen), run.limits)
    sections = (build(audit) for build in _SECTIONS)
    return findings(audit, headline), [section for section in sections if section is not None]


def draw_auc(results: xr.Dataset) -> figures.Figures:
    """Return the distribution of AUC over targets, by setting and group size."""
    audit = _read(results)
    shown = (index for index, _ in audit.cases.shown())
    return figures.Figures(figure for index in shown for figure in auc_figures(audit.cases, index))


def draw_loss(results: xr.Dataset) -> figures.Figures:
    """Return the privacy loss of targets, by setting."""
    audit = _read(results)
    return figures.Figures(loss_figure(audit.cases, index) for index, _ in audit.cases.shown())


def draw_tradeoff(results: xr.Dataset) -> figures.Figures:
    """Return privacy gain against utility loss; empty if either is not known."""
    audit = _read(results)
    defences = audit.defences
    if not defences.gains_known or not np.isfinite(defences.loss).any():
        return figures.Figures()
    return figures.Figures(tradeoff_figures(audit))


def _read(results: xr.Dataset) -> AuditReport:
    return AuditReport.of(schema.with_labels(schema.validate(results), suffix="title"))
