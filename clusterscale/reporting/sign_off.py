"""The page to sign: what is to be published, whom it exposes, and what was not examined."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from clusterscale.cube.calendar import Calendar
from clusterscale.phrases import CONSISTENT, NOT_TESTED
from clusterscale.reporting import coverage
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
_SECTIONS = ["published", "compared", "risk", "people", "ceilings", "series", "utility"]
_SECTIONS += ["missing", "policy", "versions", "names"]
_ANALYSES = ("screen", "certify", "recovery", "traits")


def describe(
    run: Run,
    outcome: Mapping[str, Any],
    series: Mapping[str, Any],
    release: coverage.ReleaseScope | None = None,
) -> dict[str, Any]:
    """Return all that the page to sign says, as numbers and texts by name.

    ``run`` has an audit, and its ``chosen`` mechanism is to be published; ``outcome`` is the
    result of a policy: its verdict, text, reasons and group size; ``series`` what the series of the
    ``release`` spends, or why that is ``not_examined``; the release is None if it is not named.
    What is not known is NaN, None or empty.
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
    guarantees = [one for some in audit.guarantees.values() for one in some]
    size = {"the policy": outcome["group_size"]}
    covered = coverage.state_coverage(results, release, size) if release else ()
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
        "examined": _examine_days(results, cube),
        "coverage": [one._asdict() for one in covered],
        "raw_counts": asdict(audit.worst[raw]) if raw else None,
        "everybody": _screened(shown, {name, raw} if name == raw else {name}),
        "worst_person": audit.worst_person(name),
        "people": _people(audit, None if name == raw else name),
        "ceilings": _ceilings(shown, name, n_known),
        "guaranteed": _guaranteed(audit, name) if n_known != 0 else None,
        "series": series,
        "guarantees": [one._asdict() for one in guarantees if one.mechanism == name],
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
        setting, size, attack = np.unravel_index(best[i], table.auc[at].shape[:-1])
        case: dict[str, Any] = {"period": table.settings[at[int(setting)]].period}
        case |= {"group_size": table.group_sizes[size], "attack": table.attacks[attack]}
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


def _examine_days(results: xr.Dataset, cube: Mapping[str, Any]) -> dict[str, Any]:
    """Return when the periods are, and how much of the audited cube is in none of them.

    What the results do not record is None.
    """
    found: dict[str, Any] = {"when": {}, "unit": "epoch", "total": None, "left_out": None}
    spans = coverage.spans_of(results)
    if len(spans) < results.sizes["period"] or "n_epochs" not in cube:
        return found
    total, left_out, unit = coverage.days_outside(results)
    if "calendar" in cube:
        when = map(Calendar.from_attributes(cube["calendar"]).describe_span, spans)
        found["when"] = dict(zip(map(str, results["period"].values), when, strict=True))
    return found | {"total": total, "left_out": left_out, "unit": unit}


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
