"""What each mechanism guarantees, and whether the guarantee holds in this cube and in tests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from markupsafe import Markup

from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK
from clusterscale.phrases import BROKEN, NO_GUARANTEE, NOTHING_PROMISED, privacy_unit
from clusterscale.reporting.audit.model import AuditReport, GuaranteeStatement, GuaranteeTest
from clusterscale.reporting.section import Column, Section, Table, breakable, fill, number, quantity
from clusterscale.validation_messages import plural

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


def build_guarantees(audit: AuditReport) -> Section | None:
    """Build a row for each mechanism by period, guarantees first; None if only raw counts."""
    statements = [statement for made in audit.guarantees.values() for statement in made]
    if not audit.defences.any or not any(one.guarantee_unit for one in statements):
        return None
    verdicts = {(test.period, test.mechanism): _verdict(test) for test in audit.tests}
    groups = [
        (
            period if len(audit.guarantees) > 1 else "",
            [
                _row(statement, verdicts[period, statement.mechanism])
                for statement in sorted(made, key=lambda statement: not statement.is_made)
            ],
        )
        for period, made in audit.guarantees.items()
    ]
    return Section(
        "guarantees",
        "Differential-privacy claims tested",
        "Attacks show what some adversaries could do; a guarantee bounds all of them. A smaller ε "
        "is a stronger guarantee. Protecting one event says little about a user with many, so the "
        "ε of a user composes over all that one user changes in this cube, and the AUC bound "
        "follows from it. Each guarantee was also tested: a group was published many times with "
        "and without the protected unit, and the verdict states whether the two can be "
        "distinguished better than the guarantee allows." + _summed_up(audit),
        fill(
            "guarantees.html.j2",
            refuted=list(_refuted(audit)),
            lacking=list(dict.fromkeys(one.mechanism for one in statements if one.lacks_noise)),
            as_floats=[breakable(label) for label in audit.float_noise],
            unknown=audit.float_noise_unknown,
            risk=FLOAT_NOISE_RISK[0].upper() + FLOAT_NOISE_RISK[1:],
            remedy=FLOAT_NOISE_REMEDY,
            table=Table("Guarantees of differential privacy", _COLUMNS, groups).html,
        ),
    )


def _summed_up(audit: AuditReport) -> str:
    """Return a sentence with the number of broken guarantees, if any."""
    if not (n := len(audit.broken)):
        return ""
    return f" Of {plural(audit.n_tested, 'guarantee')}, {n} {'is' if n == 1 else 'are'} broken."


def _refuted(audit: AuditReport) -> Iterator[dict[str, object]]:
    """Yield the words for each broken guarantee, with the cases where it was broken."""
    for test in audit.tests:
        if test.verdict != BROKEN:
            continue
        where = f" in {test.period}" if len(audit.guarantees) > 1 else ""
        if len(audit.cases.group_sizes) > 1:
            where += f" in groups of {', '.join(f'{size:,}' for size in test.group_sizes)}"
        yield {
            "mechanism": breakable(test.mechanism),
            "declared": quantity(test.declared),
            "unit": privacy_unit(test.unit, "one"),
            "observed": quantity(test.observed),
            "where": where,
            "trials": f"{test.n_trials:,.0f}",
        }


def _verdict(test: GuaranteeTest) -> str | Markup:
    if test.verdict == NOTHING_PROMISED:
        return NO_GUARANTEE
    if test.verdict == "" or not np.isfinite(test.observed):
        return test.verdict or "–"
    seen = f"ε at least {quantity(test.observed)}" if test.observed > 0 else "no ε observed"
    broken = test.verdict == BROKEN
    return fill("measured.html.j2", verdict=test.verdict, broken=broken, seen=seen)


def _row(statement: GuaranteeStatement, verdict: str | Markup) -> list[str | Markup]:
    name = breakable(statement.mechanism)
    if statement.guarantee_unit == "":
        return [name, *["–"] * (len(_COLUMNS) - 1)]
    cells: list[str | Markup] = [
        privacy_unit(statement.guarantee_unit, "one"),
        quantity(statement.guarantee_epsilon),
        quantity(statement.guarantee_delta),
        verdict,
        _NEIGHBOURS.get(statement.guarantee_neighbours, statement.guarantee_neighbours),
        _sensitivity(statement),
    ]
    if not statement.is_made:
        nothing = Markup("<strong>{}</strong>").format(NO_GUARANTEE)
        cells = [nothing, "none", "–", verdict, "–", "–"]
    user = _epsilon(statement.user_epsilon, statement.user_delta)
    composed = _epsilon(statement.composed_epsilon, statement.composed_delta)
    ceiling = _ceiling(statement.auc_ceiling)
    return [name, *cells, user, composed, ceiling, statement.guarantee_reason]


def _sensitivity(statement: GuaranteeStatement) -> str | Markup:
    used, needed = statement.sensitivity, statement.sensitivity_needed
    if np.isnan(used) and np.isnan(needed):
        return "not needed"
    return fill(
        "sensitivity.html.j2",
        used=quantity(used, none="no limit"),
        needed=quantity(needed, none="no limit"),
        broken=statement.lacks_noise,
    )


def _epsilon(epsilon: float, delta: float) -> Markup:
    known = np.isfinite(epsilon) and np.isfinite(delta) and delta > 0
    spread = f"δ {quantity(delta)}" if known else ""
    return fill("spread.html.j2", value=quantity(epsilon), spread=spread)


def _ceiling(auc: float) -> str:
    """Format the AUC bound: none if it is 1, and not rounded up to 1."""
    if auc >= 1:
        return "none"
    return "> 0.999" if auc >= 0.9995 else number(auc)
