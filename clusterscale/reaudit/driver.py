"""Audit what is new in a catalogue, judge it, and put it in the ledger, once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version

import numpy as np

from clusterscale import storage
from clusterscale.consistency import CHECKS, CheckResult, PublishedTable, check_table
from clusterscale.contracts import MEMORY, Executor, Reason
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

__all__ = ["Pending", "Reaudit"]

_RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Pending:
    """A release that is to be judged; ``audit`` is the key of its audit, perhaps done already."""

    listed: ResolvedRelease
    audit: str


class Reaudit:
    """The re-audit of a catalogue; everything is kept below ``output``.

    Parameters
    ----------
    plan, catalogue
        What is asked, of what.
    output
        Folder, a local path or fsspec URL that all workers reach: ``verdicts.parquet/`` with one
        file a verdict, ``runs/`` with a folder for each audit.
    tell
        Told of how far the listing is: what there is, and what is listed.
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
        found = catalogue.look(tell)
        self.listed = [each for each in found if isinstance(each, ResolvedRelease)]
        self.problems = [each for each in found if isinstance(each, Problem)]

    def pending(self) -> list[Pending]:
        """Return what has no verdict yet, in the order of the catalogue.

        A release is judged again when its content, what is said of it, the plan, the policy, the
        cube or the revision of the results changed.
        """
        judged, found = self.ledger.keys(), []
        for listed in self.listed:
            cube = self._catalogue.cube_of(listed)
            audit = self._plan.key(listed.identity(), cube.fingerprint, RESULTS_REVISION)
            if key_of(listed.series, listed.name, audit, self._policy) not in judged:
                found.append(Pending(listed, audit))
        return found

    def is_audited(self, pending: Pending) -> bool:
        """Tell whether all is there to judge a release by."""
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
        """Audit one release, unless that is done, and add its verdict to the ledger.

        Parameters
        ----------
        pending
            Which.
        executor, memory
            Where the work is done, and the bytes that a worker may use.
        check
            Called before anything is added; raises if that is no longer allowed.
        tell
            Told how far it is.

        Returns
        -------
        Verdict or Problem
            No verdict where the release cannot be audited, or tasks failed: the same call tries
            again what failed.

        Raises
        ------
        ClusterError, StoreError
            If the cluster or a store gave out: the same call goes on.
        """
        listed = pending.listed
        try:
            facts = self._audit(pending, executor, memory, tell)
            if facts.n_failed:
                error = ClusterscaleError(f"{facts.n_failed} tasks failed; no verdict without them")
                return Problem(listed.name, error, passing=True)
            row = self._judge(pending, facts)
        except StoreError:
            raise
        except ClusterscaleError as error:
            if isinstance(error, RuntimeError):  # of the cluster, not of the release
                raise
            return Problem(listed.name, error)
        if row.verdict == "error":
            texts = [each["text"] for each in row.why if each["level"] == "error"]
            return Problem(listed.name, InputError("; ".join(texts)))
        check()
        self.ledger.append(row)
        return row

    def _audit(
        self, pending: Pending, executor: Executor, memory: int, tell: Tell
    ) -> ReleaseRecord:
        folder, listed = self._folder(pending.audit), pending.listed
        facts = folder.facts()
        if facts is not None:
            return facts
        content = self._catalogue.read(listed)
        cube, members = self._catalogue.cube_of(listed), NOBODY
        if listed.members:
            known = read_file(listed.members)
            members = read_members(known, listed.members, cube, listed.group_size)
        plan = self._plan
        question = AuditSpec(listed.plan(plan.audit), plan.everyone, plan.published)
        return audit_release(
            listed, content, members, cube, question, folder, executor, memory=memory, tell=tell
        )

    def _judge(self, pending: Pending, facts: ReleaseRecord) -> Verdict:
        listed, policy = pending.listed, self._plan.policy
        folder = self._folder(pending.audit)
        results, screen = folder.results(), folder.screen()
        label = find_mechanism(results, listed.mechanism.id) or listed.mechanism.label
        exposures = exposures_of(results, screen, label)
        found = measure(results, exposures, label, exposed_above=policy.exposed_above)
        change = change_since(self._last(listed), exposures, found, limit=policy.exposed_above)
        reasons = [
            *evaluate_policy(policy, found, facts.published),
            *judge_findings(policy, [*facts.findings, *self._compare(listed, folder, facts)]),
            *judge_change(policy, change.drift),
        ]
        return self._row(pending, found, facts, change, reasons)

    def _compare(
        self, listed: ResolvedRelease, folder: ReleaseStore, facts: ReleaseRecord
    ) -> list[CheckResult]:
        """Look at a release beside those of the same epochs that were judged before it."""
        table = make_table(listed, folder.content(), facts.bounds)
        comparing = [check for check in map(CHECKS.create, CHECKS) if check.compares]
        others = list(self._others(listed, facts.cube))
        return check_table(table, others, comparing, seed=self._plan.audit.seed)

    def _others(self, listed: ResolvedRelease, cube: str) -> Iterator[PublishedTable]:
        newest = {row.release: row for row in self.ledger.rows if row.release != listed.name}
        for row in newest.values():
            folder = ReleaseStore(f"{self.output}/{row.run}")
            meet = row.first < listed.span[1] and listed.first < row.span[1]
            facts = folder.facts() if meet else None
            if facts is not None and facts.cube == cube:
                table = make_table(facts.listed, folder.content(), facts.bounds)
                yield replace(table, name=row.release)

    def _last(self, listed: ResolvedRelease) -> list[tuple[Verdict, Exposures]]:
        """Return the last releases of the series that can be compared, the newest last."""
        cube, found = self._catalogue.cube_of(listed).fingerprint, []
        for row in self.ledger.last_of(listed.series, listed.name, self._plan.policy.last):
            folder = ReleaseStore(f"{self.output}/{row.run}")
            facts = folder.facts()
            if facts is not None and facts.cube == cube:
                results = folder.results()
                name = find_mechanism(results, row.mechanism_id) or row.mechanism
                told = exposures_of(results, folder.screen(), name)
                found.append((row, told))
        return found

    def _folder(self, audit: str) -> ReleaseStore:
        return ReleaseStore(f"{self.output}/{_RUNS}/{audit}")

    def _row(
        self,
        pending: Pending,
        found: ReleaseMetrics,
        facts: ReleaseRecord,
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
            n_targets=found.n_targets,
            mean_privacy_loss=found.mean_loss.value,
            mean_privacy_loss_low=found.mean_loss.low,
            mean_privacy_loss_high=found.mean_loss.high,
            worst_privacy_loss=found.worst_loss,
            share_above=found.share_exposed.value,
            loss_above=found.exposed_above,
            epsilon_lower=found.epsilon_seen,
            epsilon_declared=found.epsilon_declared,
            published_auc=facts.published.value,
            published_auc_low=facts.published.low,
            published_auc_high=facts.published.high,
            utility=json.dumps({key: each.value for key, each in found.utility.items()}),
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
