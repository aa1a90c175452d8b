"""The first screen of an audit: what was audited, the verdicts, and the controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.audit.findings import Finding, find_exposures, worst_finding, worst_findings
from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK
from clusterscale.report.audit.cases import Cases, SummaryRow, cases, check_controls, row
from clusterscale.report.audit.defences import (
    BROKEN,
    Defences,
    bargain,
    defences,
    least_gains,
    list_float_noise,
    price_of,
    tried,
)
from clusterscale.report.section import (
    Column,
    Table,
    absent_users,
    breakable,
    fill,
    interval,
    json_attribute,
    number,
    percent,
    plural,
    quantity,
)
from clusterscale.utility import NEARLY_EMPTY
from clusterscale.validation_messages import find_ties

_LEFT, _RIGHT = 0.4, 1.0  # ends of the AUC strip
_MOST_NAMED = 4  # mechanisms in a sentence
_MOST_OPEN = 12  # lines of a table before the rest of the page


def findings(results: xr.Dataset) -> Markup:
    """Build the first screen; it exists even if no test finished."""
    table = cases(results)
    lines = strongest(table)
    by_mechanism = defences(results)
    exposures = find_exposures(results)
    most = _tied(lines)
    least = _tied(_with_events(by_mechanism, lines), lowest=True)
    return fill(
        "overview.html.j2",
        audited=_audited(results, table),
        lines=lines,
        most=most,
        least=[] if set(map(id, most)) & set(map(id, least)) else least,
        label=table.label,
        strip_table=_strips(table, lines),
        n_lines=len(lines),
        n_open=_MOST_OPEN,
        bargain=bargain(by_mechanism),
        empty=[name for name in by_mechanism.mechanisms if by_mechanism.emptiest(name)],
        nearly_empty=percent(NEARLY_EMPTY),
        verdicts=_verdict_table(by_mechanism, results, exposures),
        worst_of_all=worst_finding(exposures),
        verdict_word=lambda finding: fill("exposure.html.j2", finding=finding),
        broken=sorted({test.mechanism for test in tried(results) if test.verdict == BROKEN}),
        controls=check_controls(table),
        has_control=bool(np.isfinite(table.control).any()),
        n_run=int(table.planned.sum()),
        n_done=int(np.isfinite(table.auc).sum()),
        n_unplanned=int((table.status == "missing").sum()),
        absent=absent_users(results),
        number=number,
        percent=percent,
        plural=plural,
        quantity=quantity,
    )


def strongest(table: Cases) -> list[SummaryRow]:
    """Return, for each setting and group size, the row of the attack with the highest mean AUC.

    Attacks whose means are equal to three digits are named together.
    """
    return [
        replace(row(table, setting, size, attack), attack=table.name_strongest(setting, size))
        for setting, _ in table.shown()
        for size in range(len(table.group_sizes))
        if (attack := table.strongest(setting, size)) is not None
    ]


def _audited(results: xr.Dataset, table: Cases) -> dict[str, object]:
    cube = json_attribute(results, "cube")
    n_users = cube.get("n_users")
    source = cube.get("source")
    run = [setting for index, setting in enumerate(table.settings) if table.planned[index].any()]
    mechanisms = sorted({setting.mechanism for setting in run})
    return {
        "targets": plural(table.n_targets, "person" if table.n_targets == 1 else "target"),
        "n_targets": table.n_targets,
        "most_exposed": _chosen_for_exposure(results),
        "users": f"{n_users:,}" if isinstance(n_users, int) else "",
        "source": source if isinstance(source, str) else "",
        "group_sizes": _listed([str(size) for size in table.group_sizes]),
        "attacks": table.attacks,
        "priors": sorted({setting.prior for setting in run}),
        "mechanisms": mechanisms if len(mechanisms) <= _MOST_NAMED else [],
        "n_mechanisms": len(mechanisms),
        "periods": sorted({setting.period for setting in run}),
    }


def _chosen_for_exposure(results: xr.Dataset) -> bool:
    targets = json_attribute(results, "plan").get("targets")
    return isinstance(targets, dict) and "most_exposed" in targets


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "–"


def _strips(table: Cases, lines: list[SummaryRow]) -> Markup:
    columns = (
        Column("Group size", number=False, header=True),
        Column("Strongest attack", number=False),
        Column("Mean AUC"),
        Column("0.4 to 1, with a mark at chance", number=False),
        Column("95 % interval"),
        Column("Median target"),
        Column("Targets above 0.75"),
    )
    groups: dict[str, list[list[str | Markup]]] = {}
    for line in lines:
        cells = [f"{line.group_size:,}", line.attack, number(line.mean), strip(line)]
        cells += [
            interval(line.low, line.high),
            number(line.median),
            percent(line.above[1]),
        ]
        groups.setdefault(table.label(line.setting), []).append(cells)
    caption = "How well the strongest attack recognises whether a target was counted"
    return Table(caption, columns, list(groups.items())).html


def strip(line: SummaryRow) -> Markup:
    """Draw a mean and its interval on a line, as a small picture without script."""
    known = np.isfinite(line.low)
    return fill(
        "strip.html.j2",
        chance=_place(0.5),
        mean=_place(line.mean),
        low=_place(line.low if known else line.mean),
        high=_place(line.high if known else line.mean),
    )


def _place(auc: float) -> str:
    share = (min(max(auc, _LEFT), _RIGHT) - _LEFT) / (_RIGHT - _LEFT)
    return f"{4 + 92 * share:.2f}%"


def _with_events(by_mechanism: Defences, lines: list[SummaryRow]) -> list[SummaryRow]:
    """Return the lines of mechanisms whose releases are not nearly empty; all if none is left."""
    return [line for line in lines if not by_mechanism.emptiest(line.setting.mechanism)] or lines


def _tied(lines: list[SummaryRow], *, lowest: bool = False) -> list[SummaryRow]:
    """Return the lines with the highest mean AUC; several if equal to three digits."""
    return [lines[i] for i in find_ties([line.mean for line in lines], lowest=lowest)]


_VERDICT_COLUMNS = (
    Column("Mechanism", number=False, header=True, wide=True),
    Column("Verdict", number=False, hint="Worst over all settings; defined below"),
    Column("Mean AUC", hint="Of the strongest attack"),
    Column("95 % interval"),
    Column("Certainly above 0.75", hint="Targets; simultaneous 95 % confidence (Holm)"),
    Column("Gain", hint="Mean privacy gain where raw counts expose most; lowest over priors"),
    Column("Utility lost", hint="Relative to a random guess, by the measure with the largest loss"),
    Column(
        "Guarantee", number=False, hint="Declared ε, the unit it protects, and the test’s verdict"
    ),
)
_UNITS = {"event": "an event", "user_day": "a day", "user": "a user", "roi_series": "a place"}


def _verdict_table(
    by_mechanism: Defences, results: xr.Dataset, findings: Sequence[Finding]
) -> Markup:
    """Return a table with the worst finding of each mechanism over all settings.

    It is empty if there are no findings.
    """
    if not findings:
        return Markup("")
    gains, promises = least_gains(by_mechanism), _guarantee_cells(results)
    rows: list[list[str | Markup]] = [
        [
            breakable(name),
            fill("exposure.html.j2", finding=line),
            number(line.mean),
            interval(line.low, line.high),
            f"{line.n_certain:,} of {line.n_done:,}",
            number(gains.get(name, float("nan")), 2),
            "none" if name == by_mechanism.raw_counts else _lost(by_mechanism, name),
            promises.get(name, "–"),
        ]
        for name, line in worst_findings(findings).items()
    ]
    return Table("Worst case for each publication method", _VERDICT_COLUMNS, [("", rows)]).html


def _lost(by_mechanism: Defences, mechanism: str) -> Markup:
    """Format the largest utility loss with its measure, and whether the release is nearly empty."""
    share, measure = price_of(by_mechanism, mechanism)
    return fill(
        "lost.html.j2",
        share=percent(share) if share <= 1 else "all" if np.isfinite(share) else "–",
        measure=measure.title if measure else "",
        empty=by_mechanism.emptiest(mechanism),
    )


def _guarantee_cells(results: xr.Dataset) -> dict[str, Markup]:
    """Return the guarantee of each mechanism and its worst test verdict over periods."""
    as_floats = list_float_noise(results)
    risk = f"{FLOAT_NOISE_RISK}; {FLOAT_NOISE_REMEDY}"
    texts = {name: fill("promise.html.j2", unit="", risk=risk) for name in as_floats}
    listed: set[str] = set()
    for outcome in tried(results):
        known = outcome.unit not in ("none", "") and np.isfinite(outcome.promised)
        if not known or (outcome.mechanism in listed and outcome.verdict != BROKEN):
            continue
        listed.add(outcome.mechanism)
        texts[outcome.mechanism] = fill(
            "promise.html.j2",
            epsilon=quantity(outcome.promised),
            unit=_UNITS.get(outcome.unit, outcome.unit),
            verdict=outcome.verdict,
            broken=outcome.verdict == BROKEN,
            risk=risk if outcome.mechanism in as_floats else "",
        )
    return texts
