"""Certificates and guarantees of candidates: all they need is how many counts each user changes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from clusterscale.analyses.advise.goal import UNITS, Finding, GuaranteeLimit, Limits, Verdict
from clusterscale.analyses.advise.plan import Advice
from clusterscale.analyses.audit.plan import certification_of
from clusterscale.analyses.certify import Visits, ceiling
from clusterscale.analyses.certify.basis import Substitutes, widest, without_sampling
from clusterscale.analyses.certify.ceilings import against
from clusterscale.analyses.certify.plan import Setting
from clusterscale.analyses.certify.tasks import VisitsSummary, VisitsTask, count_visits, unpack
from clusterscale.contracts import Mechanism
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source, block_size, open_source, ranges
from clusterscale.mechanisms.accounting import describe_person, needs_equal_numbers
from clusterscale.phrases import at_most
from clusterscale.storage.records import Records

_TOGETHER = 32  # mechanisms of a task, which counts the visits of all users once


@dataclass(frozen=True, slots=True)
class CertifyTask:
    """Mechanisms with the same trace steps to certify: a URI and a few numbers.

    ``n_others``: by group size, of how many others somebody takes the place of a user who is
    attacked, 0 if not known; ``share`` of the users may have a higher certificate than the one that
    counts; ``includes``: whether users without an event count.
    """

    source: Source
    setting: Setting
    group_sizes: tuple[int, ...]
    n_others: tuple[int, ...]
    share: float
    includes: bool


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a mechanism is known to protect, without any attack.

    Attributes
    ----------
    mechanism
        Id of the mechanism.
    auc
        Certified AUC that at most the planned share of users exceeds.
    worst
        Certified AUC of the user who changes most counts.
    unit, epsilon, delta
        Its guarantee; ``none`` and infinity without one.
    holds
        Whether the noise is scaled to what this cube needs.
    person
        What the guarantee means for a person, as a clause.
    replaced
        AUC that nobody exceeds on any user in a release of one period if somebody else, drawn at
        random, takes the place of the user, as in a screen and an audit. None: it is not known, as
        of several periods together.
    """

    mechanism: str
    auc: float
    worst: float
    unit: str
    epsilon: float
    delta: float
    holds: bool
    person: str = ""
    replaced: float | None = None

    @property
    def ceiling(self) -> float:
        """``replaced``, 1 if it is not known."""
        return 1.0 if self.replaced is None else self.replaced


def certificates_in(uri: str) -> Records[tuple[str, list[Certificate]]]:
    """Return the certificates that are kept in a folder, a file per task, each with its key."""
    return Records(
        uri,
        lambda pair: ([pair[0], [asdict(one) for one in pair[1]]], {}),
        lambda plain, _: (plain[0], [Certificate(**one) for one in plain[1]]),
    )


def key_of(task: CertifyTask) -> str:
    """Return the key of a task: its epochs, and the ids of its trace steps and mechanisms."""
    setting = task.setting
    ids = [[item.id for item in items] for items in (setting.steps, setting.mechanisms)]
    return json.dumps([setting.spans, *ids])


def certify_tasks(
    advice: Advice, cube: TraceCube, mechanisms: Sequence[Mechanism]
) -> list[CertifyTask]:
    """Return tasks for each period, all periods together, and each list of trace steps."""
    audit, limit = advice.audit, advice.plan.limits.certified
    source = Source.of(cube, null_roi=audit.null_roi, seed=audit.seed)
    share = 0.0 if limit is None else limit.share
    includes = audit.targets.unseen == "include"
    made = replace(certification_of(audit), mechanisms=tuple(mechanisms))
    sizes, others = audit.group_sizes, tuple(made.n_candidates(cube.n_users))
    return [
        CertifyTask(source, replace(setting, mechanisms=some), sizes, others, share, includes)
        for setting in made.settings()
        for first in range(0, len(setting.mechanisms), _TOGETHER)
        if (some := setting.mechanisms[first : first + _TOGETHER])
    ]


def certify(task: CertifyTask) -> list[Certificate]:
    """Certify mechanisms; a pure function of the task and its cube."""
    cube = open_source(task.source)
    blocks = ranges(0, cube.n_users, block_size(cube))
    parts = (count_visits(VisitsTask(task.source, (task.setting,), *users)) for users in blocks)
    with threadpool_limits(limits=1):
        visited = reduce(VisitsSummary.plus, (VisitsSummary.of(part[0]) for part in parts))
        known = _covering(visited, task, visited.limits(task.setting, cube))
        days = cube.calendar.days()
        n_days = len({day for span in task.setting.spans for day in days[slice(*span)].tolist()})
        return [_certify(task, one, visited, known, n_days) for one in task.setting.mechanisms]


_Known = tuple[list[Visits], list[Substitutes]]


def _covering(visited: VisitsSummary, task: CertifyTask, limits: Visits) -> _Known:
    """Return visits that bound those of users, and those of others in their place by group size.

    Bounded are all added users but the share, all added users, and all who are replaced. No attack
    compares releases of several periods together.
    """
    left = sorted(visited.added.elements())
    if not task.includes:  # users without an event change fewest counts
        left = left[sum(n for key, n in visited.replaced.items() if not unpack(key).cells) :]
    kept = left[: len(left) - int(task.share * len(left) + 1e-9)]
    several = kept, left, visited.replaced
    most = [widest([unpack(key, limits) for key in dict.fromkeys(some)]) for some in several]
    n_others = task.n_others if len(task.setting.spans) == 1 else ()
    return most, [visited.substitutes(n, limits) for n in n_others]


def _certify(
    task: CertifyTask, mechanism: Mechanism, visited: VisitsSummary, known: _Known, n_days: int
) -> Certificate:
    (chosen, most, own), others = known
    bounds = visited.bounds[0]
    released = mechanism.bind(bounds)
    stated, needed = released.guarantee, released.required_sensitivity(bounds)
    bound = mechanism.bind(visited.least_bounds)
    if bounds.null_roi:
        bound = without_sampling(bound)

    def highest(visits: Visits) -> float:
        return max(ceiling(bound, n_changed=visits, group_size=n).auc for n in task.group_sizes)

    cases = zip(task.group_sizes, others, strict=False)
    replaced = (against(bound, own, some, group_size=n).auc for n, some in cases)
    worst = highest(most)
    person = describe_person(stated, n_days, mechanism)
    if person and len(task.setting.spans) > 1:
        person += ", if each day is published once"
    if needs_equal_numbers(mechanism):
        stated = replace(stated, unit="none", epsilon=np.inf)
    return Certificate(
        mechanism=mechanism.id,
        auc=worst if chosen == most else highest(chosen),
        worst=worst,
        unit=stated.unit,
        epsilon=stated.epsilon,
        delta=stated.delta,
        holds=not stated.sensitivity < needed,
        person=person,
        replaced=max(replaced, default=None),
    )


def worst_of(certificates: Sequence[Certificate]) -> Certificate:
    """Return the certificate of one mechanism over all periods: the highest numbers."""

    def highest(name: str) -> Any:
        values = (getattr(one, name) for one in certificates)
        return max((value for value in values if value is not None), default=None)

    names = "auc", "worst", "replaced", "epsilon", "delta"
    holds = all(one.holds for one in certificates)
    # what it means for a person is that of all periods together
    return replace(certificates[-1], holds=holds, **{name: highest(name) for name in names})


def _keeps(certificate: Certificate, limit: GuaranteeLimit) -> bool:
    """Return whether a guarantee implies the wanted one, and its noise is large enough."""
    return (
        certificate.holds
        and certificate.unit in UNITS
        and UNITS.index(certificate.unit) >= UNITS.index(limit.unit)
        and certificate.epsilon <= limit.epsilon
        and certificate.delta <= limit.delta
    )


def certified_findings(certificate: Certificate, limits: Limits) -> Iterator[Finding]:
    """Yield whether each limit on guarantees and certificates holds; both are exact."""
    if (wanted := limits.guarantee) is not None:
        has = "no guarantee"
        if certificate.unit != "none":
            has = f"ε {certificate.epsilon:.3g} per {certificate.unit.replace('_', ' ')}"
            has += f", δ {certificate.delta:.1g}" if certificate.delta else ""
            has += f"; {certificate.person}" if certificate.person else ""
            has += "" if certificate.holds else ", for less active users than these"
        limit = f"limit ε {wanted.epsilon:g} per {wanted.unit.replace('_', ' ')}"
        verdict: Verdict = "holds" if _keeps(certificate, wanted) else "fails"
        yield Finding(verdict, f"{has} ({limit})")
    if (certified := limits.certified) is not None:
        verdict = "holds" if certificate.auc <= certified.auc else "fails"
        share = f" for all but {certified.share:.1%}" if certified.share else ""
        text = f"certified AUC up to {at_most(certificate.auc)}{share} (limit {certified.auc:g})"
        yield Finding(verdict, text)
