"""What each mechanism guarantees, and whether the guarantee holds in this cube and in tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK
from clusterscale.report.audit.defences import BROKEN, Tried, defences, list_float_noise, tried
from clusterscale.report.section import (
    Column,
    Section,
    Table,
    breakable,
    fill,
    number,
    plural,
    quantity,
)

_UNITS = {
    "event": "one event",
    "user_day": "one day of one user",
    "user": "all of one user",
    "roi_series": "one user at one place",
}
_NEIGHBOURS = {"add_remove": "one more or less", "replace": "one for another"}
_COLUMNS = (
    Column("Mechanism", number=False, header=True, wide=True),
    Column("Protects", number=False, hint="The privacy unit that the guarantee protects"),
    Column("ε"),
    Column("δ"),
    Column(
        "Verdict", number=False, hint="Test of the guarantee, and the observed lower bound on ε"
    ),
    Column("Neighbours", number=False, hint="How two neighbouring inputs differ"),
    Column(
        "Sensitivity",
        number=False,
        hint="Used to scale noise, and needed for one unit in this cube",
    ),
    Column("ε of a user, sum", hint="For all of one user, by basic composition; with its δ"),
    Column("ε of a user, accounted", hint="For all of one user, by an accountant; with its δ"),
    Column("AUC bound", hint="Highest AUC of any adversary, if one user is replaced by another"),
    Column("Reason", number=False, wide=True),
)
_WORDS = ("guarantee_unit", "guarantee_neighbours", "guarantee_reason")
_NUMBERS = (
    "guarantee_epsilon",
    "guarantee_delta",
    "sensitivity",
    "sensitivity_needed",
    "user_epsilon",
    "user_delta",
    "composed_epsilon",
    "composed_delta",
    "auc_ceiling",
)

GuaranteeStatement = Mapping[str, str | float]


def build_guarantees(results: xr.Dataset) -> Section | None:
    """Build a row for each mechanism by period, guarantees first; None if only raw counts."""
    known = (results["guarantee_unit"].values.astype(object) != "").any()
    if not defences(results).any or not known:
        return None
    periods = [str(period) for period in results["period"].values]
    groups, broken, trials = [], [], tried(results)
    for index, period in enumerate(periods):
        statements = sorted(
            _statements(results, index), key=lambda statement: not _is_made(statement)
        )
        measured = {t.mechanism: _measured(t) for t in trials if t.period == period}
        rows = [_row(statement, measured[str(statement["mechanism"])]) for statement in statements]
        groups.append((period if len(periods) > 1 else "", rows))
        broken += [str(statement["mechanism"]) for statement in statements if _is_broken(statement)]
    table = Table("Guarantees of differential privacy", _COLUMNS, groups).html
    return Section(
        "promises",
        "Differential-privacy claims tested",
        "Attacks show what some adversaries could do; a guarantee bounds all of them. A smaller ε "
        "is a stronger guarantee. Protecting one event says little about a user with many, so the "
        "ε of a user composes over all that one user changes in this cube, and the AUC bound "
        "follows from it. Each guarantee was also tested: a group was published many times with "
        "and without the protected unit, and the verdict states whether the two can be "
        "distinguished better than the guarantee allows." + _summed_up(trials),
        fill(
            "promises.html.j2",
            refuted=list(_refuted(trials, results)),
            broken=list(dict.fromkeys(broken)),
            as_floats=[breakable(label) for label in list_float_noise(results)],
            unknown=[breakable(label) for label in list_float_noise(results, "")],
            risk=FLOAT_NOISE_RISK[0].upper() + FLOAT_NOISE_RISK[1:],
            remedy=FLOAT_NOISE_REMEDY,
            table=table,
        ),
    )


def _summed_up(trials: list[Tried]) -> str:
    """Return a sentence with the number of broken guarantees, if any."""
    tested = {t.mechanism for t in trials if t.verdict not in ("nothing promised", "")}
    broken = {t.mechanism for t in trials if t.verdict == BROKEN}
    if not broken:
        return ""
    return f" Of {plural(len(tested), 'guarantee')}, {len(broken)} {_be(len(broken))} broken."


def _be(n: int) -> str:
    return "is" if n == 1 else "are"


def _refuted(trials: list[Tried], results: xr.Dataset) -> Iterator[dict[str, object]]:
    """Yield the words for each broken guarantee, with the cases where it was broken."""
    n_periods, n_sizes = results.sizes["period"], results.sizes["group_size"]
    for test in trials:
        if test.verdict != BROKEN:
            continue
        where = f" in {test.period}" if n_periods > 1 else ""
        if n_sizes > 1:
            where += f" in groups of {', '.join(f'{size:,}' for size in test.sizes)}"
        yield {
            "mechanism": breakable(test.mechanism),
            "promised": quantity(test.promised),
            "unit": _UNITS.get(test.unit, test.unit),
            "seen": quantity(test.seen),
            "where": where,
            "trials": f"{test.trials:,.0f}",
        }


def _measured(test: Tried) -> str | Markup:
    if test.verdict == "":
        return "–"
    if not np.isfinite(test.seen):
        return test.verdict
    seen = f"ε at least {quantity(test.seen)}" if test.seen > 0 else "no ε observed"
    return fill("measured.html.j2", verdict=test.verdict, seen=seen)


def _statements(results: xr.Dataset, period: int) -> list[GuaranteeStatement]:
    """Return the guarantee variables of each mechanism in a period, one mapping per mechanism."""
    chosen = results.isel(period=period)
    return [
        {"mechanism": str(mechanism)}
        | {name: str(chosen[name].values[i]) for name in _WORDS}
        | {name: float(chosen[name].values[i]) for name in _NUMBERS}
        for i, mechanism in enumerate(chosen["mechanism"].values)
    ]


def _is_broken(statement: GuaranteeStatement) -> bool:
    """Return whether noise is scaled to less than the sensitivity of one unit in this cube."""
    used, needed = float(statement["sensitivity"]), float(statement["sensitivity_needed"])
    return _is_made(statement) and used < needed * (1 - 1e-9)


def _is_made(statement: GuaranteeStatement) -> bool:
    return statement["guarantee_unit"] not in ("none", "") and bool(
        np.isfinite(statement["guarantee_epsilon"])
    )


def _row(statement: GuaranteeStatement, measured: str | Markup) -> list[str | Markup]:
    name, reason = breakable(str(statement["mechanism"])), str(statement["guarantee_reason"])
    ceiling = _ceiling(float(statement["auc_ceiling"]))
    if statement["guarantee_unit"] == "":
        return [name, *["–"] * (len(_COLUMNS) - 1)]
    if not _is_made(statement):
        nothing = Markup("<strong>no guarantee</strong>")
        return [name, nothing, "none", "–", measured, "–", "–", *_user(statement), ceiling, reason]
    unit, neighbours = str(statement["guarantee_unit"]), str(statement["guarantee_neighbours"])
    return [
        name,
        _UNITS.get(unit, unit),
        quantity(float(statement["guarantee_epsilon"])),
        quantity(float(statement["guarantee_delta"])),
        measured,
        _NEIGHBOURS.get(neighbours, neighbours),
        _sensitivity(statement),
        *_user(statement),
        ceiling,
        reason,
    ]


def _sensitivity(statement: GuaranteeStatement) -> str | Markup:
    used, needed = float(statement["sensitivity"]), float(statement["sensitivity_needed"])
    if np.isnan(used) and np.isnan(needed):
        return "not needed"
    return fill(
        "sensitivity.html.j2",
        used=quantity(used, none="no limit"),
        needed=quantity(needed, none="no limit"),
        broken=_is_broken(statement),
    )


def _user(statement: GuaranteeStatement) -> list[str | Markup]:
    pairs = (("user_epsilon", "user_delta"), ("composed_epsilon", "composed_delta"))
    return [_budget(float(statement[epsilon]), float(statement[delta])) for epsilon, delta in pairs]


def _budget(epsilon: float, delta: float) -> Markup:
    known = np.isfinite(epsilon) and np.isfinite(delta) and delta > 0
    spread = f"δ {quantity(delta)}" if known else ""
    return fill("spread.html.j2", value=quantity(epsilon), spread=spread)


def _ceiling(auc: float) -> str:
    """Format the AUC bound: none if it is 1, and not rounded up to 1."""
    if auc >= 1:
        return "none"
    return "> 0.999" if auc >= 0.9995 else number(auc)
