"""Validation of studies: whether results have what each selection of a study names."""

from collections.abc import Iterable, Iterator, Mapping

from clusterscale.analyses.marginals import ESTIMATES, LAWS, MARGINALS
from clusterscale.analyses.recovery.estimates import DECISION_RULES
from clusterscale.analyses.recovery.task import BASELINES
from clusterscale.papers import study as papers
from clusterscale.papers.driver import analyses_of
from clusterscale.schema import Variable
from clusterscale.validation_messages import choices

Known = Mapping[str, list[papers.Label]]


def find_faults(study: papers.PaperStudy) -> Iterator[str]:
    """Yield a line for each variable, dimension or label that a study selects in vain.

    A study shortened for a quick run has such faults; they are not errors there.
    """
    known = [analysis.schema for analysis in analyses_of(study)]
    labels = _labels(study)
    for selection, where in _selections(study):
        for end in selection.ends():
            yield from _faults(end, where, known, labels)
    for label in study.best:
        if label not in labels.get("attack", []):
            yield f"best: {choices(label, map(str, labels.get('attack', [])))}"


def _selections(study: papers.PaperStudy) -> Iterator[tuple[papers.ResultSelection, str]]:
    """Yield each selection of a study, and what it is for."""
    for published in study.published:
        for figure in published.figures():
            for selection in filter(None, (figure.selection, figure.as_in_paper)):
                yield selection, published.item
    for claim in study.claims:
        ends: Iterable[papers.Labels] = [{}]
        if claim.along:
            ends = [{claim.along: label} for label in claim.labels]
        elif isinstance(claim.than, Mapping):
            ends = [{}, claim.than]
        for end in ends:
            yield claim.where({**claim.at, **claim.each, **end}), claim.text
    for drawn in study.figures:
        for series in (series for _, several in drawn.panels() for series in several):
            for selection in (*series.selections, *series.losses):
                yield selection, drawn.item


def _labels(study: papers.PaperStudy) -> Known:
    """Return the labels of each dimension; a study has one plan with labels."""
    labels: dict[str, list[papers.Label]] = {}
    if (audit := study.audit) is not None:
        labels |= {
            "period": [period.label for period in audit.periods],
            "prior": [prior.label for prior in audit.priors],
            "group_size": list(audit.group_sizes),
            "mechanism": [mechanism.label for mechanism in audit.mechanisms],
            "attack": [*(attack.label for attack in audit.attacks), papers.BEST],
            "measure": [measure.label for measure in audit.utility.measures],
        }
    if (recovery := study.recovery) is not None:
        labels |= {
            "mechanism": [mechanism.label for mechanism in recovery.published],
            "prior": [prior.label for prior in recovery.priors],
            "strategy": [*BASELINES, *(strategy.label for strategy in recovery.strategies)],
            "reading": list(DECISION_RULES),
            "epoch": list(range(*recovery.inferred)),
        }
    if (marginals := study.marginals) is not None:
        labels |= {
            "period": [period.label for period in marginals.periods],
            "group_size": list(marginals.group_sizes),
            "mechanism": [mechanism.label for mechanism in marginals.mechanisms],
            "estimate": list(ESTIMATES),
            "marginal": list(MARGINALS),
            "law": list(LAWS),
        }
    return labels


def _faults(
    end: papers.ResultSelection, where: str, known: list[Mapping[str, Variable]], labels: Known
) -> Iterator[str]:
    fitting = [variables[end.of] for variables in known if end.of in variables]
    if not fitting:
        names = [name for variables in known for name in variables]
        yield f"{where}: of {end.of!r}: {choices(end.of, names)}"
        return
    dims = fitting[0].dims
    for dim, wanted in end.at.items():
        if dim not in dims:
            yield f"{where}: {end.of} has no {dim}: {choices(dim, dims)}"
            continue
        if dim not in labels:
            continue
        for label in wanted if isinstance(wanted, tuple) else (wanted,):
            if label not in labels[dim] and label != papers.ALL:
                yield f"{where}: {dim} {label!r}: {choices(str(label), map(str, labels[dim]))}"
    for dim in dims:
        several = len([label for label in labels.get(dim, []) if label != papers.BEST]) > 1
        if several and dim not in end.at and dim not in (*papers.PEOPLE, "attack"):
            yield f"{where}: {end.of} needs a label for {dim}"
