"""Evaluate the new releases of a catalogue, and append their verdicts to the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from itertools import compress, takewhile
from math import nan

from clusterscale import storage, study
from clusterscale.contracts import Reason
from clusterscale.errors import ClusterscaleError, FormatError, InputError, StoreError
from clusterscale.metrics import Drift
from clusterscale.reauditing import policy_evaluation as evaluation
from clusterscale.reauditing.catalogue import Catalogue, Problem
from clusterscale.reauditing.known_counts import find_faults, make_table
from clusterscale.reauditing.ledger import Ledger, json_safe
from clusterscale.reauditing.policy import ReauditPlan
from clusterscale.reauditing.population import complete_population
from clusterscale.reauditing.release_analysis import (
    ReleaseAnalysis,
    ReleaseRecord,
    ReleaseStore,
    TasksFailedError,
)
from clusterscale.reauditing.release_metrics import Exposures, ReleaseMetrics, exposures_of
from clusterscale.reauditing.resolved_release import ResolvedRelease
from clusterscale.reauditing.scoring import NO_MEMBERS, read_members
from clusterscale.reauditing.together import overlap_last
from clusterscale.redaction import clean
from clusterscale.release.checks import CheckResult, PublishedTable, create_checks, run_checks
from clusterscale.release.checks.opened import OPEN_CELL, OPENED, find_opened
from clusterscale.release.verdict import Verdict, key_of
from clusterscale.reporting.coverage import ReleaseScope
from clusterscale.schema import RESULTS_REVISION, find_mechanism
from clusterscale.study import Tell
from clusterscale.study.execution import MEMORY, Executor

_RUNS, _NO_DRIFT = "runs", Drift(0, nan, nan, nan, nan, 0, 0)


@dataclass(frozen=True, slots=True)
class Pending:
    """A release without a verdict, and the key of its audit, which may be finished."""

    release: ResolvedRelease
    audit: str


class Reaudit:
    """The re-audit of a catalogue, whose releases are read at once.

    ``output`` is a folder that all workers reach: ``verdicts.parquet/`` with one file per verdict,
    ``runs/`` with a folder for each audit. ``problems`` are the releases that cannot be listed.
    """

    def __init__(self, plan: ReauditPlan, catalogue: Catalogue, output: str) -> None:
        self._plan, self._catalogue = plan, catalogue
        self.output = storage.absolute(output).rstrip("/")
        self.ledger = Ledger(self.output)
        self._scanned = catalogue.scan()
        self.releases = [item for item in self._scanned if isinstance(item, ResolvedRelease)]
        self.problems = [item for item in self._scanned if isinstance(item, Problem)]

    def pending(self) -> list[Pending]:
        """Return the releases without a verdict, in the order of the catalogue.

        A release needs a new one if its content, its metadata, the plan, the policy, the cube or
        the results revision changed.
        """
        evaluated, pending = self.ledger.keys(), []
        for release in self.releases:
            audit, key = self._keys(release)
            if key not in evaluated:
                pending.append(Pending(release, audit))
        return pending

    def current(self) -> list[Verdict | None]:
        """Return the verdict on each release under the present settings, None where it has none.

        A newer verdict under other settings, such as another policy, is not taken instead.
        """
        rows = {row.key: row for row in self.ledger.rows}
        return [rows.get(self._keys(release)[1]) for release in self.releases]

    def _keys(self, release: ResolvedRelease) -> tuple[str, str]:
        """Return the key of the audit of a release, and that of its verdict."""
        cube = self._catalogue.cube_of(release)
        identity, mechanism = release.identity(), release.mechanism
        audit = self._plan.key(identity, mechanism, cube.fingerprint, RESULTS_REVISION)
        return audit, key_of(release.series, release.name, audit, self._plan.rules)

    def is_audited(self, pending: Pending) -> bool:
        """Return whether the audit of a release has finished."""
        return self._store(pending.audit).record() is not None

    def explain(self, pending: Pending, memory: int, n_workers: int) -> dict[str, dict[str, str]]:
        """Return what each analysis that a release needs would do and take, by its kind."""
        release, content = pending.release, self._catalogue.read(pending.release)
        cube, plan = self._catalogue.cube_of(release), self._plan
        everyone = complete_population("", release, content, cube, plan.audit)
        needed = ReleaseAnalysis(release, content, NO_MEMBERS, cube, plan, everyone)
        people = needed.people
        return {one.kind: one.explain(people, memory, n_workers) for one in needed.requires()}

    def evaluate(
        self,
        pending: Pending,
        executor: Executor,
        *,
        memory: int = MEMORY,
        check: Callable[[], None] = lambda: None,
        tell: Tell = lambda now: None,
    ) -> Verdict | Problem:
        """Audit one release, unless that has finished, and append its verdict to the ledger.

        ``memory`` is the number of bytes that a worker may use. ``check`` is called before a
        verdict is appended, and raises if that is no longer allowed. Returns a problem if the
        release cannot be audited, or tasks failed, which the same call runs again. Raises
        ClusterError or StoreError if the cluster or a store fails; finished work is kept, and the
        same call resumes it.
        """
        name = pending.release.name
        try:
            row = self._evaluate(pending, self._audit(pending, executor, memory, tell))
        except TasksFailedError as error:
            return Problem(name, error, passing=True)
        except MemoryError:  # the next release may need less
            return Problem(name, FormatError(f"{name}: there is too little memory to audit it"))
        except StoreError:
            raise
        except ClusterscaleError as error:
            if isinstance(error, RuntimeError):  # an error of the cluster, not of the release
                raise
            return Problem(name, self._with_findings(pending.release, error))
        if row.verdict == "error":
            texts = [reason["text"] for reason in row.why if reason["level"] in ("error", "fail")]
            return Problem(name, InputError("; ".join(texts)))
        check()
        return self.ledger.append(row)

    def _with_findings(
        self, release: ResolvedRelease, error: ClusterscaleError
    ) -> ClusterscaleError:
        """Return the error of an audit, with what checks that need no traces find in its values."""
        try:
            wrong = find_faults(release, self._catalogue.read(release), self._plan.audit.seed)
        except ClusterscaleError:
            return error
        return InputError(f"{error}; without an audit, inconsistent: {wrong}") if wrong else error

    def _audit(
        self, pending: Pending, executor: Executor, memory: int, tell: Tell
    ) -> ReleaseRecord:
        """Return the record of a release, which is audited if it has none."""
        store, release = self._store(pending.audit), pending.release
        record = store.record()
        if record is None:
            content = self._catalogue.read(release)
            cube, members = self._catalogue.cube_of(release), NO_MEMBERS
            if release.members:
                table = storage.read_file(release.members)
                members = read_members(table, release.members, cube, release.group_size)
            everyone = complete_population(store.people, release, content, cube, self._plan.audit)
            analysis = ReleaseAnalysis(release, content, members, cube, self._plan, everyone)
            people = analysis.people
            study.run(
                analysis, people, store.uri, executor, memory=memory, on_progress=tell
            ).close()
            record = store.record()
        assert record is not None
        return record

    def _evaluate(self, pending: Pending, record: ReleaseRecord) -> Verdict:
        release, policy, store = pending.release, self._plan.policy, self._store(pending.audit)
        (audit, run), changes, notes = store.open(), release.changes, release.notes
        label = find_mechanism(audit, release.mechanism.id) or release.mechanism.label
        exposures, metrics, reasons = evaluation.evaluate_audit(
            policy, run, label, record.part, release.sizes, changes, notes, record.published,
            self._scope(release),
        )  # fmt: skip
        change = evaluation.change_since(
            self._last(release), exposures, metrics, limit=policy.exposed_above
        )
        reasons += [
            *evaluation.evaluate_findings(policy, record.findings),
            *self._compare(release, store, record),
            *self._check_series(release),
            *evaluation.evaluate_change(policy, change.drift),
        ]
        return self._row(pending, metrics, record, change, reasons)

    def _scope(self, release: ResolvedRelease) -> ReleaseScope:
        """Return what a release is of, to be compared with what its audit is of."""
        cube = self._catalogue.cube_of(release).known_fingerprint
        return ReleaseScope(cube, release.span, release.mechanism.id, release.null_roi)

    def _compare(
        self, release: ResolvedRelease, store: ReleaseStore, record: ReleaseRecord
    ) -> Iterator[Reason]:
        """Check a release against earlier ones of the same epochs: undecided is inconclusive."""
        table = make_table(release, store.content(), record.bounds)
        others, checks = list(self._others(release, record.cube)), create_checks(compares=True)
        policy, seed = self._plan.policy, self._plan.audit.seed
        findings = run_checks(table, others, checks, seed=seed)
        yield from evaluation.evaluate_findings(policy, findings, policy.exposure.inconclusive)

    def _others(self, release: ResolvedRelease, cube: str) -> Iterator[PublishedTable]:
        newest = {row.release: row for row in self.ledger.rows if row.release != release.name}
        for row in newest.values():
            store = ReleaseStore(f"{self.output}/{row.run}")
            overlaps = row.first < release.span[1] and release.first < row.span[1]
            record = store.record() if overlaps else None
            if record is not None and record.cube == cube:
                table = make_table(record.release, store.content(), record.bounds)
                yield replace(table, name=row.release)

    def _check_series(self, release: ResolvedRelease) -> Iterator[Reason]:
        """Check what a release opens in its series: what cannot be compared is inconclusive."""
        together, policy, cells = self._plan.together, self._plan.policy, list[str]()
        if together is None:
            return
        try:
            tables, missing = self._series_until(release)
            plan = together.publication([(self._catalogue.entry_of(one), one) for one in tables])
            begins = [(one.first, self._times(one)[0]) for one in tables]
            result, cells = find_opened(plan, begins, missing)
        except StoreError:
            raise
        except ClusterscaleError as error:
            text = f"release {release.name} is not compared with its series: {clean(str(error))}"
            result = CheckResult.unknown(OPENED, 0, text)
        (reason,) = evaluation.evaluate_findings(policy, [result], policy.exposure.inconclusive)
        yield reason
        yield from (Reason(OPEN_CELL, reason.level, nan, nan, cell) for cell in cells)

    def _series_until(self, release: ResolvedRelease) -> tuple[list[ResolvedRelease], list[str]]:
        """Return the releases that a release may be related to, as they were published, it last.

        Also returns the names of those that cannot be read as they were.
        """
        rows = [row for row in reversed(self.ledger.rows) if row.series == release.series]
        numbers = {(row.release, row.content): row.number for row in rows}
        series = [one for one in self.releases if one.series == release.series]
        series.sort(key=lambda one: numbers.get((one.name, one.content), len(self.ledger)))
        tables = series[: series.index(release) + 1]
        preceding = takewhile(lambda item: item is not release, self._scanned)
        missing = {item.name for item in preceding if isinstance(item, Problem)}
        missing |= {*release.subset_of} - {one.name for one in series}
        others = numbers.keys() - {(one.name, one.content) for one in series}
        gone = [self.ledger.rows[numbers[key]] for key in others]
        records = [ReleaseStore(f"{self.output}/{row.run}").record() for row in gone]
        before = [release if record is None else record.release for record in records]
        near = overlap_last([self._times(one) for one in (*before, *tables)])
        missing |= {row.release for row in compress(gone, near)}
        return list(compress(tables, near[len(gone) :])), sorted(missing)

    def _times(self, release: ResolvedRelease) -> tuple[int, int]:
        """Return the UTC seconds at which a release begins and ends."""
        calendar = self._catalogue.cube_of(release).calendar
        begin, end = (int(calendar.begins(epoch, 1)[0]) for epoch in release.span)
        return begin, end

    def _last(self, release: ResolvedRelease) -> list[tuple[Verdict, Exposures]]:
        """Return the last releases of the series that can be compared, the newest last."""
        cube, last = self._catalogue.cube_of(release).fingerprint, []
        for row in self.ledger.last_of(release.series, release.name, self._plan.policy.last):
            store = ReleaseStore(f"{self.output}/{row.run}")
            record = store.record()
            if record is not None and record.cube == cube:
                audit, run = store.open()
                label = find_mechanism(audit, row.mechanism_id) or row.mechanism
                exposures = exposures_of(audit, run.screen, label)
                last.append((row, exposures.known(record.part)))
        return last

    def _store(self, audit: str) -> ReleaseStore:
        return ReleaseStore(f"{self.output}/{_RUNS}/{audit}")

    def _row(
        self,
        pending: Pending,
        metrics: ReleaseMetrics,
        record: ReleaseRecord,
        change: evaluation.Change,
        reasons: Sequence[Reason],
    ) -> Verdict:
        reasons = evaluation.mark_unknown(reasons)
        release, drift = pending.release, change.drift or _NO_DRIFT
        calendar = self._catalogue.cube_of(release).calendar
        return Verdict(
            number=len(self.ledger),
            series=release.series,
            release=release.name,
            period=calendar.describe_span(release.span),
            first=release.first,
            epochs=release.epochs,
            group_size=release.group_size,
            mechanism=release.mechanism.label,
            mechanism_id=release.mechanism.id,
            verdict=evaluation.verdict_of(reasons),
            reasons=json.dumps([json_safe(asdict(reason)) for reason in reasons]),
            n_targets=metrics.n_targets,
            mean_privacy_loss=metrics.mean_loss.value,
            mean_privacy_loss_low=metrics.mean_loss.low,
            mean_privacy_loss_high=metrics.mean_loss.high,
            worst_privacy_loss=metrics.worst_loss.value,
            share_above=metrics.share_exposed.value,
            loss_above=metrics.exposed_above,
            epsilon_lower=metrics.epsilon_seen,
            epsilon_declared=metrics.epsilon_declared,
            published_auc=record.published.value,
            published_auc_low=record.published.low,
            published_auc_high=record.published.high,
            utility=json.dumps({key: measure.value for key, measure in metrics.utility.items()}),
            change=drift.change,
            change_low=drift.low,
            change_high=drift.high,
            change_p=drift.p_value,
            n_common=drift.n_common,
            n_newly_exposed=drift.n_newly_exposed,
            n_no_longer_exposed=drift.n_no_longer_exposed,
            utility_change=json.dumps(change.utility),
            run=f"{_RUNS}/{pending.audit}",
            content=release.content,
            audit=pending.audit,
            question=self._plan.question,
            policy=self._plan.rules,
            version=version("clusterscale"),
            results_revision=RESULTS_REVISION,
        )
