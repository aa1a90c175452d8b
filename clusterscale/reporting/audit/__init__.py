"""An audit on a page: the first screen, and the sections in order."""

from collections.abc import Callable, Iterator
from itertools import groupby

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK
from clusterscale.phrases import BROKEN, NOT_TESTED
from clusterscale.reporting import section as html
from clusterscale.reporting.audit import gains, reliability, targets
from clusterscale.reporting.audit.cases import SummaryRow, strongest_rows
from clusterscale.reporting.audit.gains import best_defence, largest_loss, least_gains
from clusterscale.reporting.audit.headline import build_headline
from clusterscale.reporting.audit.model import AuditReport, GuaranteeTest
from clusterscale.reporting.certificates import read_ceilings
from clusterscale.reporting.coverage import leave_out_others
from clusterscale.reporting.findings import worst_finding
from clusterscale.reporting.run import Run
from clusterscale.utility import NEARLY_EMPTY
from clusterscale.validation_messages import find_ties

_MOST_OPEN = 12  # lines of a table before the rest of the page


def findings(audit: AuditReport, headline: str = "", run: Run | None = None) -> Markup:
    """Build the first screen, with its picture; it exists even if no test finished.

    ``run`` has the certificates of the audit, if there are any.
    """
    worst, table, defences = worst_finding(audit.findings), audit.cases, audit.defences
    made = None if run is None else leave_out_others(run)[0].certify
    ceilings = [
        (line.worst, case.period)
        for case in (() if made is None else read_ceilings(made))
        for line in case.lines
        if worst and line.mechanism == worst.mechanism
    ]
    lines = strongest_rows(table)
    full = [line for line in lines if not defences.emptiest(line.setting.mechanism)]
    most, least = _tied(lines), _tied(full or lines, lowest=True)
    strips = groupby(lines, key=lambda line: table.label(line.setting))
    return html.fill(
        "overview.html.j2",
        headline=headline,
        audit=audit,
        cube=html.json_attribute(audit.results, "cube"),
        targets=html.json_attribute(audit.results, "plan").get("targets"),
        run=[setting for i, setting in enumerate(table.settings) if table.planned[i].any()],
        lines=lines,
        most=most,
        least=[] if set(map(id, most)) & set(map(id, least)) else least,
        strip_table=html.table("strips", strips),
        n_open=_MOST_OPEN,
        best_defence=best_defence(defences),
        nearly_empty=html.percent(NEARLY_EMPTY),
        several=len(list(defences.cases())) > 1,
        verdicts=_verdicts(audit),
        worst_of_all=worst,
        person=worst and audit.worst_person(worst.mechanism),
        ceiling=max(ceilings, default=None),
        has_control=bool(np.isfinite(table.control).any()),
        n_done=int(np.isfinite(table.auc).sum()),
        not_tested=NOT_TESTED,
    )


def _tied(lines: list[SummaryRow], *, lowest: bool = False) -> list[SummaryRow]:
    """Return the lines with the highest mean AUC; several if equal to three digits."""
    return [lines[i] for i in find_ties([line.mean for line in lines], lowest=lowest)]


def _verdicts(audit: AuditReport) -> Markup:
    """Return a table with the worst finding of each mechanism; empty if there are none."""
    if not audit.findings:
        return Markup("")
    gains, tests = least_gains(audit.defences), dict[str, GuaranteeTest]()
    for test in audit.tests:
        known = test.unit not in ("none", "") and np.isfinite(test.declared)
        if known and (test.mechanism not in tests or test.verdict == BROKEN):
            tests[test.mechanism] = test
    rows = [
        {
            "finding": finding,
            "gain": gains.get(name, float("nan")),
            "loss": largest_loss(audit.defences, name),
            "empty": audit.defences.emptiest(name),
            "test": tests.get(name),
            "risk": name in audit.float_noise,
        }
        for name, finding in audit.worst.items()
    ]
    about = {"raw_counts": audit.defences.raw_counts}
    about["risk"] = f"{FLOAT_NOISE_RISK}; {FLOAT_NOISE_REMEDY}"
    return html.table("verdicts", [("", rows)], **about)


_SECTIONS: tuple[Callable[[AuditReport], Iterator[html.Section]], ...] = (
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
    return findings(audit, headline, run if run.audit is not None else None), [
        part for build in _SECTIONS for part in build(audit)
    ]
