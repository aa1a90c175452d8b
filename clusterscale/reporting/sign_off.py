"""The page to sign: what is to be published, whom it exposes, and what was not examined."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from clusterscale.cube.calendar import Calendar
from clusterscale.phrases import CONSISTENT, NOT_TESTED
from clusterscale.reporting import section as html
from clusterscale.reporting.audit.cases import Defences, by_setting
from clusterscale.reporting.audit.headline import build_headline
from clusterscale.reporting.audit.model import AuditReport
from clusterscale.reporting.certificates import COVERS, covers_audit, read_ceilings, state_posterior
from clusterscale.reporting.findings import worst_finding
from clusterscale.reporting.page import PageEntry, digests, page, versions_of
from clusterscale.reporting.render import entitle
from clusterscale.reporting.run import Run
from clusterscale.reporting.screening import read_cases

_WORST = 5  # people by name
_SPAN = re.compile(r"(\d+)-(\d+)")  # of epochs, in the id of a period
_SECTIONS = ["published", "compared", "risk", "people", "ceilings", "series", "utility"]
_SECTIONS += ["missing", "policy", "versions", "names"]
_ANALYSES = ("screen", "certify", "recovery", "traits")


def describe(run: Run, outcome: Mapping[str, Any], series: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that the page to sign says, as numbers and texts by name.

    ``run`` has an audit, and its ``chosen`` mechanism is to be published; ``outcome`` is the
    result of a policy: its verdict, text, reasons and group size; ``series`` what the series of the
    release spends, or why that is ``not_examined``. What is not known is NaN, None or empty.
    """
    from clusterscale.analyses.advise.results import to_yaml

    (shown,) = entitle([run])
    assert shown.audit is not None
    name, audit = shown.titles.get(run.chosen, run.chosen), AuditReport.of(shown.audit)
    results, table, defences = audit.results, audit.cases, audit.defences
    cube: Any = html.json_attribute(results, "cube")
    plan = html.json_attribute(results, "plan")
    made, raw = audit.mechanisms.get(name), defences.raw_counts
    n_known = cube.get("n_known", cube.get("n_users"))
    ids = results.get("period_id", results["period"]).values
    return {
        "rule": name,
        "setting": to_yaml(made) if made else run.chosen,
        "cube": cube,
        "epochs": dict(zip(map(str, results["period"].values), map(str, ids), strict=True)),
        "group_sizes": table.group_sizes,
        "priors": defences.priors,
        "attacks": table.attacks,
        "targets": {"number": table.n_targets, "chosen_by": plan.get("targets")},
        "release": asdict(audit.worst[name]),
        "periods": _periods(audit, name),
        "examined": _examine_days(results, cube, series),
        "raw_counts": asdict(audit.worst[raw]) if raw else None,
        "everybody": _screened(shown, {name, raw} if name == raw else {name}),
        "people": _people(audit, None if name == raw else name),
        "ceilings": _ceilings(shown, name, n_known),
        "guaranteed": _guaranteed(audit, name) if n_known != 0 else None,
        "series": series,
        "guarantees": [
            one._asdict()
            for every in audit.guarantees.values()
            for one in every
            if one.mechanism == name
        ],
        "guarantee_test": audit.tested.get(name, "not tested"),
        "utility": _utility(defences, name),
        "sum_ratio": max(
            defences.sum_ratio[:, :, defences.mechanisms.index(name)].ravel().tolist(),
            key=lambda ratio: abs(ratio - 1) if np.isfinite(ratio) else -1,
        ),
        "refused": [reason for reason, names in audit.refused.items() if name in names],
        "emptiness": defences.emptiest(name),
        "not_tested": NOT_TESTED,
        "not_attacked": max(0, n_known - table.n_targets) if isinstance(n_known, int) else None,
        "not_run": [kind for kind in _ANALYSES if getattr(run, kind) is None],
        "failed": int(table.planned.sum()) - int(np.isfinite(table.auc).sum()),
        "unplanned": int((table.status == "missing").sum()),
        "controls": audit.controls.verdict,
        "not_covered": [*audit.absent, *([COVERS] if run.certify is not None else [])],
        "policy": outcome,
        "digests": digests(results),
        "versions": versions_of(results),
    }


def render_sign_off(run: Run, facts: Mapping[str, Any]) -> str:
    """Return the page of the facts about a run, as JSON stores them, with its picture, as HTML."""
    (shown,) = entitle([run])
    assert shown.audit is not None
    picture = build_headline(AuditReport.of(shown.audit), facts["rule"], run.limits, 180)
    filled = partial(html.fill_part, facts=facts, picture=picture)
    sections = [html.section(f"sign-{name}", filled(f"sign_off.{name}")) for name in _SECTIONS]
    title = f"Sign-off: {facts['rule']}"
    return page([PageEntry("", [("", sections)])], kind="page to sign", title=title)


def _screened(run: Run, names: set[str]) -> dict[str, Any] | None:
    """Return the exposure of all users where its mean is highest; None without a screen."""
    cases = [] if run.screen is None else read_cases(run.screen)
    pairs = [(one, case) for case in cases for one in case.exposures if one.mechanism in names]
    if not pairs:
        return None
    one, case = max(pairs, key=lambda pair: pair[0].mean)
    about: dict[str, Any] = {"n_users": case.n_users, "group_size": case.group_size}
    about |= {"highest": float(np.nanmax(one.auc))}
    return about | {key: getattr(one, key) for key in ("attack", "mean", "high", "above", "half")}


def _people(audit: AuditReport, name: str | None) -> list[dict[str, Any]]:
    """Return the most exposed people and the median one, each by its highest AUC of all cases.

    With raw counts (None) an adversary can apply every mechanism.
    """
    table, results = audit.cases, audit.results.sortby("group_size")
    at = [i for i, one in enumerate(table.settings) if name in (None, one.mechanism)]
    auc = table.auc[at].reshape(-1, table.n_targets)
    low, high = (by_setting(results, end)[at].reshape(auc.shape) for end in ("auc_low", "auc_high"))
    filled = np.where(np.isfinite(auc), auc, -1.0)
    best, highest = filled.argmax(axis=0), filled.max(axis=0)
    order = [int(i) for i in np.argsort(-highest, kind="stable") if highest[i] >= 0]
    median, people = order[(len(order) - 1) // 2 :][:1], []
    for i in dict.fromkeys([*order[:_WORST], *median]):
        _, size, attack = np.unravel_index(best[i], table.auc[at].shape[:-1])
        case = {"group_size": table.group_sizes[size], "attack": table.attacks[attack]}
        case |= {"pseudonym": str(results["pseudonym"].values[i]), "median": i in median}
        numbers = {"auc": auc, "low": low, "high": high}
        people.append(case | {key: float(of[best[i], i]) for key, of in numbers.items()})
    return people


def _periods(audit: AuditReport, name: str) -> dict[str, Any]:
    """Return the worst finding of a mechanism in each period; None where it was not attacked."""
    periods = map(str, audit.results["period"].values)
    own = [one for one in audit.findings if one.mechanism == name]
    worst = {each: worst_finding([one for one in own if one.period == each]) for each in periods}
    return {period: one and asdict(one) for period, one in worst.items()}


def _examine_days(
    results: xr.Dataset, cube: Mapping[str, Any], series: Mapping[str, Any]
) -> dict[str, Any]:
    """Return when the periods are, and how much of a cube and of a release is in none of them.

    ``series`` has the release: its ``days``, the first and the last as ISO dates, its ``span`` of
    epochs, and the fingerprint and number of users of its ``cube``; nothing if it is not named. A
    day is examined if all of its epochs are, in the same cube or in one that adds simulated people
    to as many users. What the results do not record is None.
    """
    ids = results["period_id"].values if "period_id" in results else ()
    spans = [(int(at[1]), int(at[2])) for one in ids if (at := _SPAN.match(str(one)))]
    found: dict[str, Any] = {"when": {}, "unit": "epoch"}
    found |= dict.fromkeys(("total", "left_out", "release"))
    if len(spans) < results.sizes["period"] or "n_epochs" not in cube:
        return found
    outside = np.ones(cube["n_epochs"], np.bool_)
    for first, stop in spans:
        outside[first:stop] = False
    found |= {"total": len(outside), "left_out": int(outside.sum())}
    if "calendar" not in cube:
        return found
    calendar = Calendar.from_attributes(cube["calendar"])
    begins, ends = (calendar.days(ends=which).tolist() for which in (False, True))
    touched = (range(begins[i], ends[i] + 1) for i in np.flatnonzero(outside))
    missing = {day for some in touched for day in some}
    every = set(range(begins[0], ends[-1] + 1))
    when = map(calendar.describe_span, spans)
    names = map(str, results["period"].values)
    found |= {"when": dict(zip(names, when, strict=True)), "unit": "day"}
    found |= {"total": len(every), "left_out": len(missing)}
    if days := series.get("days"):
        first, last = (date.fromisoformat(day).toordinal() for day in days)
        own = set(range(first, last + 1))
        mine = results.attrs.get("cube_fingerprint"), cube.get("n_known")  # of those not simulated
        same = any(one == other for one, other in zip(mine, series["cube"], strict=True))
        found["release"] = {"total": len(own), "whole": tuple(series["span"]) in spans}
        found["release"]["left_out"] = len(own - (every - missing)) if same else len(own)
    return found


def _utility(defences: Defences, name: str) -> list[dict[str, Any]]:
    """Return the measures of a mechanism, each farthest from its ideal, with a random guess there.

    ``n_worse`` is in how many periods and group sizes it is worse than the guess.
    """
    made = defences.mechanisms.index(name)
    every, worse = defences.utility[:, :, made], defences.worse[:, :, made].sum(axis=(0, 1))
    columns = defences.farthest(every), defences.farthest(every, defences.guess), worse
    rows = zip(defences.measures, *(column.tolist() for column in columns), strict=True)
    return [
        {"measure": one.title, "best": one.ideal, "value": far, "random_guess": guess, "n_worse": n}
        for one, far, guess, n in rows
    ]


def _ceilings(run: Run, name: str, n_known: int | None) -> list[dict[str, Any]]:
    """Return the highest ceilings of a mechanism over periods and group sizes, by neighbours.

    With each are the ``group_sizes`` that it is about. They are those of users whose traces are
    known, nobody's if all are simulated; there are none unless all audited periods have some.
    """
    certificates = run.certify if covers_audit(run) else None
    known = None if certificates is None else certificates.isel(user=slice(n_known))
    cases = read_ceilings(known) if known is not None and known.sizes["user"] else ()
    lines = [(line, case) for case in cases for line in case.lines if line.mechanism == name]
    lines.sort(key=lambda pair: pair[0].worst)
    highest = {line.neighbours: (line, case) for line, case in lines}
    about = {"group_sizes": sorted({case.group_size for _, case in lines})}
    return [
        asdict(one) | about | {"posterior": state_posterior(one, at)}
        for one, at in highest.values()
    ]


def _guaranteed(audit: AuditReport, name: str) -> float | None:
    """Return the highest AUC that a guarantee allows on all of one person in a period.

    None if nothing follows from it: there is none, its noise is too small for this cube, or the
    audit's test does not find it consistent.
    """
    every = [one for some in audit.guarantees.values() for one in some if one.mechanism == name]
    holds = [one.made and not one.lacks_noise and one.auc_ceiling < 1 for one in every]
    holds.append(audit.tested.get(name) == CONSISTENT)
    return max(float(one.auc_ceiling) for one in every) if every and all(holds) else None
