"""Certificates and guarantees of candidates: all they need is how many counts each user changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import product

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from clusterscale.advise.goal import UNITS, Finding, GuaranteeLimit, Limits, Verdict
from clusterscale.advise.plan import Advice
from clusterscale.certify import Visits, ceiling
from clusterscale.contracts import Bounds, Mechanism
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import (
    Source,
    Span,
    Steps,
    block_size,
    open_source,
    ranges,
    read_block,
)
from clusterscale.cube.bounds import merge_bounds
from clusterscale.dp_audit.guarantee import state_guarantee
from clusterscale.mechanisms import group_by_trace_steps
from clusterscale.study import JournalFolder

__all__ = ["Certificate", "CertificateJournal", "CertifyTask", "certify", "certify_tasks"]
__all__ += ["certified_findings", "worst_of"]

_TOGETHER = 8  # mechanisms of a task; each takes about half a second


@dataclass(frozen=True, slots=True)
class CertifyTask:
    """Mechanisms with the same trace steps to certify in one period: a URI and a few numbers.

    ``share`` of the users may have a higher certificate than the one that counts; ``includes``:
    whether users without an event count.
    """

    source: Source
    span: Span
    steps: Steps
    mechanisms: tuple[Mechanism, ...]
    group_sizes: tuple[int, ...]
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
    error
        Why the mechanism cannot be used; empty if it can.
    """

    mechanism: str
    auc: float
    worst: float
    unit: str
    epsilon: float
    delta: float
    holds: bool
    error: str = ""


class CertificateJournal(JournalFolder):
    """Finished tasks of certificates: a JSON file each."""

    ending = "json"

    def add(self, task: CertifyTask, certificates: Sequence[Certificate]) -> None:
        """Write the result of a task to stable storage."""
        self.put(json.dumps([_key(task), [asdict(one) for one in certificates]]).encode())

    def read(self) -> dict[str, list[Certificate]]:
        """Return the certificates by the key of their task.

        Raises
        ------
        DamagedError
            If a file cannot be read; names it.
        """
        pairs = [self.decode(path, json.loads) for path in self.paths()]
        return {key: [Certificate(**one) for one in values] for key, values in pairs}

    def left(self, tasks: Sequence[CertifyTask]) -> list[CertifyTask]:
        """Return the tasks that are not finished."""
        done = self.read()
        return [task for task in tasks if _key(task) not in done]


def _key(task: CertifyTask) -> str:
    ids = [step.id for step in task.steps], [mechanism.id for mechanism in task.mechanisms]
    return json.dumps([*task.span, *ids])


def certify_tasks(
    advice: Advice, cube: TraceCube, mechanisms: Sequence[Mechanism]
) -> list[CertifyTask]:
    """Return tasks for each period and list of trace steps."""
    audit, limit = advice.audit, advice.plan.limits.certified
    source = Source.of(cube, null_roi=audit.null_roi, seed=audit.seed)
    share = 0.0 if limit is None else limit.share
    includes = audit.targets.unseen == "include"
    settings = audit.group_sizes, share, includes
    return [
        CertifyTask(
            source, period.spans[-1], steps, tuple(some[first : first + _TOGETHER]), *settings
        )
        for period, (steps, some) in product(audit.periods, group_by_trace_steps(mechanisms))
        for first in range(0, len(some), _TOGETHER)
    ]


def certify(task: CertifyTask) -> list[Certificate]:
    """Certify mechanisms; a pure function of the task and its cube."""
    with threadpool_limits(limits=1):
        counted = list(_blocks(task))
        bounds = reduce(merge_bounds, (each for _, each in counted))
        changed = np.sort(np.concatenate([numbers for numbers, _ in counted]))
        n_above = int(task.share * len(changed) + 1e-9)  # users who may be above
        chosen = int(changed[-1 - n_above]) if len(changed) > n_above else 0
        most = int(changed[-1]) if len(changed) else 0
        return [_certify(task, mechanism, bounds, chosen, most) for mechanism in task.mechanisms]


def _blocks(task: CertifyTask) -> Iterator[tuple[NDArray[np.int64], Bounds]]:
    """Yield the number of counts that each user of a block changes, and bounds for all of them."""
    cube = open_source(task.source)
    for start, stop in ranges(0, cube.n_users, block_size(cube)):
        (raw, block) = read_block(task.source, [(task.span, ()), (task.span, task.steps)],
                                  start, stop)  # fmt: skip
        numbers = np.diff(block.traces.offsets).astype(np.int64)
        if block.traces.idle is not None:
            numbers += block.traces.idle.sum(axis=1)
        seen = np.diff(raw.traces.offsets) > 0
        yield numbers if task.includes else numbers[seen], block.bounds


def _certify(
    task: CertifyTask, mechanism: Mechanism, bounds: Bounds, chosen: int, most: int
) -> Certificate:
    bound = mechanism.bind(bounds)
    stated = state_guarantee(bound, bounds, task.steps)

    def highest(n_changed: int) -> float:
        visits = Visits(n_changed, min(n_changed, bounds.rois), min(n_changed, bounds.series))
        return max(
            ceiling(bound, n_changed=visits, group_size=size).auc for size in task.group_sizes
        )

    worst = highest(most)
    return Certificate(
        mechanism=mechanism.id,
        auc=worst if chosen == most else highest(chosen),
        worst=worst,
        unit=stated.unit,
        epsilon=stated.epsilon,
        delta=stated.delta,
        holds=not stated.sensitivity < stated.required_sensitivity,
    )


def worst_of(certificates: Sequence[Certificate]) -> Certificate:
    """Return the certificate of one mechanism over all periods: the highest numbers."""
    first = certificates[0]
    return Certificate(
        mechanism=first.mechanism,
        auc=max(one.auc for one in certificates),
        worst=max(one.worst for one in certificates),
        unit=first.unit,
        epsilon=max(one.epsilon for one in certificates),
        delta=max(one.delta for one in certificates),
        holds=all(one.holds for one in certificates),
    )


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
            has += "" if certificate.holds else ", for less active users than these"
        limit = f"limit ε {wanted.epsilon:g} per {wanted.unit.replace('_', ' ')}"
        verdict: Verdict = "holds" if _keeps(certificate, wanted) else "fails"
        yield Finding("guarantee", verdict, f"{has} ({limit})")
    if (certified := limits.certified) is not None:
        verdict = "holds" if certificate.auc <= certified.auc else "fails"
        share = f" for all but {certified.share:.1%}" if certified.share else ""
        text = f"certified AUC up to {certificate.auc:.3f}{share} (limit {certified.auc:g})"
        yield Finding("certificate", verdict, text)
