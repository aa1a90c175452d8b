"""Audit the new releases of a catalogue, and append their verdicts to the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version

import numpy as np

from clusterscale import storage
from clusterscale.consistency import CHECKS, CheckResult, PublishedTable, check_table
from clusterscale.contracts import Reason
from clusterscale.errors import ClusterscaleError, InputError, StoreError
from clusterscale.reaudit.catalogue import Catalogue, Problem, read_file
from clusterscale.reaudit.changes import Change, change_since
from clusterscale.reaudit.folder import ReleaseRecord, ReleaseStore
from clusterscale.reaudit.json_safe import json_safe
from clusterscale.reaudit.ledger import Ledger, Verdict, key_of
from clusterscale.reaudit.members import NOBODY, read_members
from clusterscale.reaudit.plan import ReauditPlan
from clusterscale.reaudit.policy_evaluation import (
    evaluate_policy,
    judge_change,
    judge_findings,
    verdict_of,
)
from clusterscale.reaudit.release_metrics import Exposures, ReleaseMetrics, exposures_of, measure
from clusterscale.reaudit.release_store import AuditSpec, audit_release, make_table
from clusterscale.reaudit.resolved_release import ResolvedRelease
from clusterscale.schema import RESULTS_REVISION, find_mechanism
from clusterscale.study import Tell
from clusterscale.study.execution import MEMORY, Executor

__all__ = ["Pending", "Reaudit"]

_RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Pending:
    """A release without a verdict; ``audit`` is the key of its audit, which may be finished."""

    listed: ResolvedRelease
    audit: str


class Reaudit:
    """The re-audit of a catalogue; all results are written below ``output``.

    Parameters
    ----------
    plan, catalogue
        The settings, and the releases.
    output
        Folder, a local path or fsspec URL that all workers reach: ``verdicts.parquet/`` with one
        file per verdict, ``runs/`` with a folder for each audit.
    tell
        Called with the number of releases, and the number listed so far.
    """

    def __init__(
        self,
        plan: ReauditPlan,
        catalogue: Catalogue,
        output: str,
        *,
        tell: Callable[[int, int], None] = lambda total, done: None,
    ) -> None:
        self._plan, self._catalogue = plan, catalogue
        self._policy = plan.policy.digest
        self.output = storage.absolute(output).rstrip("/")
        self.ledger = Ledger(self.output)
        releases = catalogue.look(tell)
        self.listed = [release for release in releases if isinstance(release, ResolvedRelease)]
        self.problems = [release for release in releases if isinstance(release, Problem)]

    def pending(self) -> list[Pending]:
        """Return the releases without a verdict, in the order of the catalogue.

        A release needs a new verdict if its content, its metadata, the plan, the policy, the cube
        or the results revision changed.
        """
        judged, pending = self.ledger.keys(), []
        for listed in self.listed:
            cube = self._catalogue.cube_of(listed)
            audit = self._plan.key(listed.identity(), cube.fingerprint, RESULTS_REVISION)
            if key_of(listed.series, listed.name, audit, self._policy) not in judged:
                pending.append(Pending(listed, audit))
        return pending

    def is_audited(self, pending: Pending) -> bool:
        """Return whether the audit of a release has finished."""
        return self._folder(pending.audit).facts() is not None

    def judge(
        self,
        pending: Pending,
        executor: Executor,
        *,
        memory: int = MEMORY,
        check: Callable[[], None] = lambda: None,
        tell: Tell = lambda now: None,
    ) -> Verdict | Problem:
        """Audit one release, unless that has finished, and append its verdict to the ledger.

        Parameters
        ----------
        pending
            The release.
        executor, memory
            Runs the tasks, and the bytes that a worker may use.
        check
            Called before a verdict is appended; raises if that is no longer allowed.
        tell
            Called with the progress.

        Returns
        -------
        Verdict or Problem
            A problem if the release cannot be audited, or tasks failed; the same call runs failed
            tasks again.

        Raises
        ------
        ClusterError, StoreError
            If the cluster or a store fails; finished work is kept, and the same call resumes it.
        """
        listed = pending.listed
        try:
            record = self._audit(pending, executor, memory, tell)
            if record.n_failed:
                error = ClusterscaleError(f"{record.n_failed} tasks failed, so there is no verdict")
                return Problem(listed.name, error, passing=True)
            row = self._judge(pending, record)
        except StoreError:
            raise
        except ClusterscaleError as error:
            if isinstance(error, RuntimeError):  # an error of the cluster, not of the release
                raise
            return Problem(listed.name, error)
        if row.verdict == "error":
            texts = [reason["text"] for reason in row.why if reason["level"] == "error"]
            return Problem(listed.name, InputError("; ".join(texts)))
        check()
        self.ledger.append(row)
        return row

    def _audit(
        self, pending: Pending, executor: Executor, memory: int, tell: Tell
    ) -> ReleaseRecord:
        folder, listed = self._folder(pending.audit), pending.listed
        record = folder.facts()
        if record is not None:
            return record
        content = self._catalogue.read(listed)
        cube, members = self._catalogue.cube_of(listed), NOBODY
        if listed.members:
            table = read_file(listed.members)
            members = read_members(table, listed.members, cube, listed.group_size)
        plan = self._plan
        spec = AuditSpec(listed.plan(plan.audit), plan.everyone, plan.published)
        return audit_release(
            listed, content, members, cube, spec, folder, executor, memory=memory, tell=tell
        )

    def _judge(self, pending: Pending, record: ReleaseRecord) -> Verdict:
        listed, policy = pending.listed, self._plan.policy
        folder = self._folder(pending.audit)
        results, screen = folder.results(), folder.screen()
        label = find_mechanism(results, listed.mechanism.id) or listed.mechanism.label
        exposures = exposures_of(results, screen, label)
        metrics = measure(results, exposures, label, exposed_above=policy.exposed_above)
        change = change_since(self._last(listed), exposures, metrics, limit=policy.exposed_above)
        reasons = [
            *evaluate_policy(policy, metrics, record.published),
            *judge_findings(policy, [*record.findings, *self._compare(listed, folder, record)]),
            *judge_change(policy, change.drift),
        ]
        return self._row(pending, metrics, record, change, reasons)

    def _compare(
        self, listed: ResolvedRelease, folder: ReleaseStore, record: ReleaseRecord
    ) -> list[CheckResult]:
        """Check a release against earlier releases of the same epochs."""
        table = make_table(listed, folder.content(), record.bounds)
        comparing = [check for check in map(CHECKS.create, CHECKS) if check.compares]
        others = list(self._others(listed, record.cube))
        return check_table(table, others, comparing, seed=self._plan.audit.seed)

    def _others(self, listed: ResolvedRelease, cube: str) -> Iterator[PublishedTable]:
        newest = {row.release: row for row in self.ledger.rows if row.release != listed.name}
        for row in newest.values():
            folder = ReleaseStore(f"{self.output}/{row.run}")
            overlaps = row.first < listed.span[1] and listed.first < row.span[1]
            record = folder.facts() if overlaps else None
            if record is not None and record.cube == cube:
                table = make_table(record.listed, folder.content(), record.bounds)
                yield replace(table, name=row.release)

    def _last(self, listed: ResolvedRelease) -> list[tuple[Verdict, Exposures]]:
        """Return the last releases of the series that can be compared, the newest last."""
        cube, releases = self._catalogue.cube_of(listed).fingerprint, []
        for row in self.ledger.last_of(listed.series, listed.name, self._plan.policy.last):
            folder = ReleaseStore(f"{self.output}/{row.run}")
            record = folder.facts()
            if record is not None and record.cube == cube:
                results = folder.results()
                name = find_mechanism(results, row.mechanism_id) or row.mechanism
                releases.append((row, exposures_of(results, folder.screen(), name)))
        return releases

    def _folder(self, audit: str) -> ReleaseStore:
        return ReleaseStore(f"{self.output}/{_RUNS}/{audit}")

    def _row(
        self,
        pending: Pending,
        metrics: ReleaseMetrics,
        record: ReleaseRecord,
        change: Change,
        reasons: Sequence[Reason],
    ) -> Verdict:
        listed, drift = pending.listed, change.drift
        calendar = self._catalogue.cube_of(listed).calendar
        return Verdict(
            number=len(self.ledger),
            series=listed.series,
            release=listed.name,
            period=calendar.describe_span(listed.span),
            first=listed.first,
            epochs=listed.epochs,
            group_size=listed.group_size,
            mechanism=listed.mechanism.label,
            mechanism_id=listed.mechanism.id,
            verdict=verdict_of(reasons),
            reasons=json.dumps([json_safe(asdict(reason)) for reason in reasons]),
            n_targets=metrics.n_targets,
            mean_privacy_loss=metrics.mean_loss.value,
            mean_privacy_loss_low=metrics.mean_loss.low,
            mean_privacy_loss_high=metrics.mean_loss.high,
            worst_privacy_loss=metrics.worst_loss,
            share_above=metrics.share_exposed.value,
            loss_above=metrics.exposed_above,
            epsilon_lower=metrics.epsilon_seen,
            epsilon_declared=metrics.epsilon_declared,
            published_auc=record.published.value,
            published_auc_low=record.published.low,
            published_auc_high=record.published.high,
            utility=json.dumps({key: measure.value for key, measure in metrics.utility.items()}),
            change=drift.change if drift else np.nan,
            change_low=drift.low if drift else np.nan,
            change_high=drift.high if drift else np.nan,
            change_p=drift.p_value if drift else np.nan,
            n_common=drift.n_common if drift else 0,
            n_newly_exposed=drift.n_newly_exposed if drift else 0,
            n_no_longer_exposed=drift.n_no_longer_exposed if drift else 0,
            utility_change=json.dumps(change.utility),
            run=f"{_RUNS}/{pending.audit}",
            content=listed.content,
            audit=pending.audit,
            question=self._plan.question,
            policy=self._policy,
            version=version("clusterscale"),
            results_revision=RESULTS_REVISION,
        )
