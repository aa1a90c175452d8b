"""Validation of studies before they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from clusterscale.audit import AuditPlan
from clusterscale.papers.claims import Claim
from clusterscale.papers.published import ALL, BEST, PEOPLE, Label, ResultSelection, Several
from clusterscale.papers.study import PaperStudy
from clusterscale.recovery import RECOVERY, RecoveryPlan
from clusterscale.recovery.estimates import DECISION_RULES
from clusterscale.recovery.task import BASELINES
from clusterscale.schema import RESULTS, Variable
from clusterscale.traits import TRAITS
from clusterscale.validation_messages import choices

__all__ = ["find_faults"]


Labels = Mapping[str, list[Label]]


def find_faults(study: PaperStudy) -> Iterator[str]:
    """Yield each variable, dimension or label that a study selects but its results will not have.

    A study shortened for a quick run has such faults; they are not errors there.
    """
    known = list(_variables(study))
    labels = _labels(study)
    for published in study.published:
        for figure in published.figures():
            places = (
                (figure.place,)
                if figure.as_in_paper is None
                else (figure.place, figure.as_in_paper)
            )
            for end in (end for place in places for end in place.ends()):
                yield from _of(end, published.item, known, labels)
    for claim in study.claims:
        for place in _places(claim):
            for end in place.ends():
                yield from _of(end, claim.text, known, labels)
    for label in study.best:
        if label not in labels.get("attack", []):
            yield f"best: {choices(label, map(str, labels.get('attack', [])))}"


def _variables(study: PaperStudy) -> Iterator[Mapping[str, Variable]]:
    if study.audit is not None:
        yield RESULTS
    if study.traits is not None:
        yield TRAITS
    if study.recovery is not None:
        yield RECOVERY


def _labels(study: PaperStudy) -> Labels:
    """Return the labels of each dimension; a study has an audit or a recovery, not both."""
    labels: dict[str, list[Label]] = {}
    if study.audit is not None:
        labels |= _of_audit(study.audit)
    if study.recovery is not None:
        labels |= _of_recovery(study.recovery)
    return labels


def _of_audit(plan: AuditPlan) -> dict[str, list[Label]]:
    return {
        "period": [period.label for period in plan.periods],
        "prior": [prior.label for prior in plan.priors],
        "group_size": list(plan.group_sizes),
        "mechanism": [mechanism.label for mechanism in plan.mechanisms],
        "attack": [*(attack.label for attack in plan.attacks), BEST],
        "measure": [measure.label for measure in plan.utility.measures],
    }


def _of_recovery(plan: RecoveryPlan) -> dict[str, list[Label]]:
    return {
        "mechanism": [mechanism.label for mechanism in plan.published],
        "prior": [prior.label for prior in plan.priors],
        "strategy": [*BASELINES, *(strategy.label for strategy in plan.strategies)],
        "reading": list(DECISION_RULES),
        "epoch": list(range(*plan.inferred)),
    }


def _places(claim: Claim) -> Iterator[ResultSelection]:
    ends: Iterable[Mapping[str, Label | Several]] = [{}]
    if claim.along:
        ends = [{claim.along: label} for label in claim.labels]
    elif isinstance(claim.than, Mapping):
        ends = [{}, claim.than]
    whole = {name: tuple(several) for name, several in claim.each.items()}
    for end in ends:
        yield claim.where({**claim.at, **whole, **end})


def _of(
    place: ResultSelection, where: str, known: list[Mapping[str, Variable]], labels: Labels
) -> Iterator[str]:
    fitting = [variables[place.of] for variables in known if place.of in variables]
    if not fitting:
        names = [name for variables in known for name in variables]
        yield f"{where}: of {place.of!r}: {choices(place.of, names)}"
        return
    dims = fitting[0].dims
    for dim, wanted in place.at.items():
        if dim not in dims:
            yield f"{where}: {place.of} has no {dim}: {choices(dim, dims)}"
            continue
        if dim not in labels:
            continue
        for label in wanted if isinstance(wanted, tuple) else (wanted,):
            if label not in labels[dim] and label != ALL:
                yield f"{where}: {dim} {label!r}: {choices(str(label), map(str, labels[dim]))}"
    for dim in dims:
        several = len([label for label in labels.get(dim, []) if label != BEST]) > 1
        if several and dim not in place.at and dim not in PEOPLE:
            yield f"{where}: {place.of} needs a label for {dim}"
