"""The page to sign: what is to be published, whom it exposes, and what was not examined."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from clusterscale.phrases import NOT_TESTED
from clusterscale.reporting import section as html
from clusterscale.reporting.audit.cases import by_setting
from clusterscale.reporting.audit.headline import build_headline
from clusterscale.reporting.audit.model import AuditReport
from clusterscale.reporting.certificates import COVERS, read_ceilings, state_posterior
from clusterscale.reporting.page import PageEntry, digests, page, versions_of
from clusterscale.reporting.render import entitle
from clusterscale.reporting.run import Run
from clusterscale.reporting.screening import read_cases

_WORST = 5  # people by name
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
    cube, plan = (html.json_attribute(results, key) for key in ("cube", "plan"))
    made = audit.mechanisms.get(name)
    raw, n_users = defences.raw_counts, cube.get("n_users")
    ids = results.get("period_id", results["period"]).values
    values = defences.farthest(defences.utility[:, :, defences.mechanisms.index(name)])
    guesses = defences.farthest(defences.guess)
    measured = zip(defences.measures, values.tolist(), guesses.tolist(), strict=True)
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
        "raw_counts": asdict(audit.worst[raw]) if raw else None,
        "everybody": _screened(shown, {name, raw} if name == raw else {name}),
        "people": _people(audit, None if name == raw else name),
        "ceilings": _ceilings(shown, name),
        "series": series,
        "guarantees": [
            one._asdict()
            for every in audit.guarantees.values()
            for one in every
            if one.mechanism == name
        ],
        "guarantee_test": audit.tested.get(name, "not tested"),
        "utility": [
            {"measure": one.title, "value": value, "best": one.ideal, "random_guess": guess}
            for one, value, guess in measured
        ],
        "refused": [reason for reason, names in audit.refused.items() if name in names],
        "emptiness": defences.emptiest(name),
        "not_tested": NOT_TESTED,
        "not_attacked": n_users - table.n_targets if isinstance(n_users, int) else None,
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
    picture = build_headline(AuditReport.of(shown.audit), facts["rule"], run.limits)
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


def _ceilings(run: Run, name: str) -> list[dict[str, Any]]:
    """Return the highest ceilings of a mechanism over periods and group sizes, by neighbours."""
    cases = read_ceilings(run.certify) if run.certify is not None else ()
    lines = [(line, case) for case in cases for line in case.lines if line.mechanism == name]
    lines.sort(key=lambda pair: pair[0].worst)
    highest = {line.neighbours: (line, case) for line, case in lines}
    return [asdict(one) | {"posterior": state_posterior(one, at)} for one, at in highest.values()]
