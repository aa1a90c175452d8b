"""What each mechanism guarantees, and whether the guarantee holds in this cube and in trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK
from clusterscale.report.defences import BROKEN, Tried, defences, list_float_noise, tried
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
    Column("Protects", number=False, hint="What may change without the release showing it"),
    Column("ε"),
    Column("δ"),
    Column("Verdict", number=False, hint="What trials of the promise say, and the ε they saw"),
    Column("Neighbours", number=False, hint="How the two inputs differ that look alike"),
    Column("Sensitivity", number=False, hint="What noise is scaled to, and what one unit needs"),
    Column("ε of a user, sum", hint="For all of one user, plain sum; with its δ"),
    Column("ε of a user, accounted", hint="For all of one user, accounted; with its δ"),
    Column("AUC bound", hint="Most AUC of any adversary, when one user is exchanged for another"),
    Column("Why", number=False, wide=True),
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


def build(results: xr.Dataset) -> Section | None:
    """Build one row for each mechanism by period, guarantees first; None for bare counts alone."""
    known = (results["guarantee_unit"].values.astype(object) != "").any()
    if not defences(results).any or not known:
        return None
    periods = [str(period) for period in results["period"].values]
    groups, broken, trials = [], [], tried(results)
    for index, period in enumerate(periods):
        promises = sorted(_promises(results, index), key=lambda each: not _is_made(each))
        measured = {each.mechanism: _measured(each) for each in trials if each.period == period}
        rows = [_row(promise, measured[str(promise["mechanism"])]) for promise in promises]
        groups.append((period if len(periods) > 1 else "", rows))
        broken += [str(promise["mechanism"]) for promise in promises if _is_broken(promise)]
    table = Table("Guarantees of differential privacy", _COLUMNS, groups).html
    return Section(
        "promises",
        "What is promised",
        "Tests show what some attacks could do; a guarantee bounds all of them. The smaller ε, "
        "the stronger. Protecting one event says little about a user with many, so the ε of a "
        "user adds up all that a user changes in this cube, and the last bound follows from it. "
        "Each promise was also tried: a group was published again and again with what is protected "
        "and without it, and the verdict is that of telling the two apart." + _summed_up(trials),
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
    """Say how many promises are broken, if any is."""
    made = {each.mechanism for each in trials if each.verdict not in ("nothing promised", "")}
    broken = {each.mechanism for each in trials if each.verdict == BROKEN}
    if not broken:
        return ""
    return f" Of {plural(len(made), 'promise')}, {len(broken)} {_be(len(broken))} broken."


def _be(n: int) -> str:
    return "is" if n == 1 else "are"


def _refuted(trials: list[Tried], results: xr.Dataset) -> Iterator[dict[str, object]]:
    """Yield the words for each promise that is broken, and where it was seen."""
    n_periods, n_sizes = results.sizes["period"], results.sizes["group_size"]
    for each in trials:
        if each.verdict != BROKEN:
            continue
        where = f" in {each.period}" if n_periods > 1 else ""
        if n_sizes > 1:
            where += f" in groups of {', '.join(f'{size:,}' for size in each.sizes)}"
        yield {
            "mechanism": breakable(each.mechanism),
            "promised": quantity(each.promised),
            "unit": _UNITS.get(each.unit, each.unit),
            "seen": quantity(each.seen),
            "where": where,
            "trials": f"{each.trials:,.0f}",
        }


def _measured(each: Tried) -> str | Markup:
    if each.verdict == "":
        return "–"
    if not np.isfinite(each.seen):
        return each.verdict
    seen = f"ε above {quantity(each.seen)} seen" if each.seen > 0 else "nothing seen"
    return fill("measured.html.j2", verdict=each.verdict, seen=seen)


def _promises(results: xr.Dataset, period: int) -> list[GuaranteeStatement]:
    """Return what is known of each mechanism in a period, one mapping a mechanism."""
    chosen = results.isel(period=period)
    return [
        {"mechanism": str(mechanism)}
        | {name: str(chosen[name].values[i]) for name in _WORDS}
        | {name: float(chosen[name].values[i]) for name in _NUMBERS}
        for i, mechanism in enumerate(chosen["mechanism"].values)
    ]


def _is_broken(promise: GuaranteeStatement) -> bool:
    """Whether noise is scaled to less than one unit changes in this cube."""
    used, needed = float(promise["sensitivity"]), float(promise["sensitivity_needed"])
    return _is_made(promise) and used < needed * (1 - 1e-9)


def _is_made(promise: GuaranteeStatement) -> bool:
    return promise["guarantee_unit"] not in ("none", "") and bool(
        np.isfinite(promise["guarantee_epsilon"])
    )


def _row(promise: GuaranteeStatement, measured: str | Markup) -> list[str | Markup]:
    name, reason = breakable(str(promise["mechanism"])), str(promise["guarantee_reason"])
    ceiling = _ceiling(float(promise["auc_ceiling"]))
    if promise["guarantee_unit"] == "":
        return [name, *["–"] * (len(_COLUMNS) - 1)]
    if not _is_made(promise):
        nothing = Markup("<strong>no guarantee</strong>")
        return [name, nothing, "none", "–", measured, "–", "–", *_user(promise), ceiling, reason]
    unit, neighbours = str(promise["guarantee_unit"]), str(promise["guarantee_neighbours"])
    return [
        name,
        _UNITS.get(unit, unit),
        quantity(float(promise["guarantee_epsilon"])),
        quantity(float(promise["guarantee_delta"])),
        measured,
        _NEIGHBOURS.get(neighbours, neighbours),
        _sensitivity(promise),
        *_user(promise),
        ceiling,
        reason,
    ]


def _sensitivity(promise: GuaranteeStatement) -> str | Markup:
    used, needed = float(promise["sensitivity"]), float(promise["sensitivity_needed"])
    if np.isnan(used) and np.isnan(needed):
        return "none asked for"
    return fill(
        "sensitivity.html.j2",
        used=quantity(used, none="no limit"),
        needed=quantity(needed, none="no limit"),
        broken=_is_broken(promise),
    )


def _user(promise: GuaranteeStatement) -> list[str | Markup]:
    pairs = (("user_epsilon", "user_delta"), ("composed_epsilon", "composed_delta"))
    return [_budget(float(promise[epsilon]), float(promise[delta])) for epsilon, delta in pairs]


def _budget(epsilon: float, delta: float) -> Markup:
    known = np.isfinite(epsilon) and np.isfinite(delta) and delta > 0
    spread = f"δ {quantity(delta)}" if known else ""
    return fill("spread.html.j2", value=quantity(epsilon), spread=spread)


def _ceiling(auc: float) -> str:
    """Write the ceiling; 1 is none, and one that rounds to 1 is still below it."""
    if auc >= 1:
        return "none"
    return "> 0.999" if auc >= 0.9995 else number(auc)
