"""The audit of one release, as an analysis: audit and screen, then scores and checks of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from clusterscale.analyses.audit import (
    AuditAnalysis,
    AuditPlan,
    count_failed,
    open_results,
    plan_resources,
)
from clusterscale.analyses.certify import Certification, CertifyAnalysis
from clusterscale.analyses.screening import ScreenAnalysis
from clusterscale.analyses.screening import check as check_screen
from clusterscale.cube import TraceCube
from clusterscale.errors import ClusterscaleError, ConfigError
from clusterscale.reauditing.known_counts import TableTask, check_alone
from clusterscale.reauditing.members import Membership
from clusterscale.reauditing.policy import ReauditPlan
from clusterscale.reauditing.population import Population
from clusterscale.reauditing.release_store import ReleaseRecord, ReleaseStore
from clusterscale.reauditing.resolved_release import Content, ResolvedRelease
from clusterscale.reauditing.scoring import PublishedScores, pool
from clusterscale.schema import RESULTS_REVISION
from clusterscale.study import Analysis, Stage, Study, each

if TYPE_CHECKING:
    import xarray as xr


class TasksFailedError(ClusterscaleError):
    """Tasks of the audit of a release failed; the next run repeats them."""


class ReleaseAnalysis(Analysis):
    """Scores of the attacks on the published values, and checks of these values.

    It requires the audit of the release, and the screen if the plan and the mechanism have one. It
    ends with the record of a :class:`~clusterscale.reauditing.release_store.ReleaseStore`. ``cube``
    has the known traces; it runs on the ``people`` of the ``population``, if these are more.
    """

    plan: AuditPlan
    kind: ClassVar[str] = "release"
    shared: ClassVar[Collection[str]] = ("tables.zarr", "people.zarr")  # may be there before

    def __init__(
        self,
        release: ResolvedRelease,
        content: Content,
        members: Membership,
        cube: TraceCube,
        plan: ReauditPlan,
        population: Population | None = None,
    ) -> None:
        self.plan = release.plan(plan.audit) if population is None else population.plan
        self.seed, self.null_roi = self.plan.seed, self.plan.null_roi
        self._release, self._content, self._members = release, content, members
        self._cube, self._how = cube, plan
        self.people = cube if population is None else population.cube
        self._part = None if population is None else population.part

    @property
    def digest(self) -> str:
        """Digest of the settings that decide results."""
        release, cube = self._release, self._cube.fingerprint
        return self._how.key(release.identity(), release.mechanism, cube, RESULTS_REVISION)

    def describe(self) -> Mapping[str, Any]:
        """Return the release as plain values."""
        return self._release.identity()

    def check(self, cube: TraceCube, memory: int) -> None:
        """Raise :class:`ConfigError`, naming the keys, if the release does not fit ``cube``."""
        self.plan.check(cube)

    def requires(self) -> Sequence[Analysis]:
        """Return certificates, the audit, and the screen if the mechanism can be screened."""
        certificates = CertifyAnalysis(Certification.of(self.plan))
        audit, screen = AuditAnalysis(self.plan), self.plan.whole_screen
        if not self._how.everyone:
            return certificates, audit
        try:
            check_screen(screen, self.people)
        except ConfigError:
            return certificates, audit
        return certificates, audit, ScreenAnalysis(screen)

    def open(self, uri: str) -> xr.Dataset:
        """Open the results of the audit of the release."""
        return open_results(uri)

    def stages(self, job: Study) -> Iterator[Stage[Any, Any]]:
        """Yield the scores of the published values and their checks, then write the record.

        Raises
        ------
        TasksFailedError
            If tasks of the audit or of the scores failed.
        """
        plan, cube, release = self.plan, job.cube, self._release
        store = ReleaseStore(job.run_uri)
        store.write_tables(self._content, self._members.inside)
        users = plan_resources(plan, cube, job.memory, job.n_workers).users
        scores = PublishedScores(plan, cube, self._members, self._how.published, store.tables)
        yield scores.stage(users)
        (evaluation,) = plan.evaluations(cube)
        everyone, checked = self._part is None, list[Any]()
        task = TableTask(release, evaluation.source, store.tables, everyone)
        function = partial(check_alone, users=users or ((0, cube.n_users),))
        keep = each(lambda _, result: checked.append(result))
        yield Stage("consistency", function, [task], keep, 1, by_parts=True)
        ((findings, bounds),) = checked
        n_failed, n_unscored = count_failed(open_results(job.run_uri)), scores.n_failed
        wrong = any(found.level == "inconsistent" for found in findings)
        if n_failed or (n_unscored and not wrong):  # values that cannot be are not scored
            n_failed += n_unscored
            raise TasksFailedError(f"{n_failed} tasks failed, so there is no verdict")
        published, attack = pool(scores.placements, scores.labels)
        fields = published, attack, findings, bounds, self._part
        store.write_record(ReleaseRecord(release, self._cube.fingerprint, n_unscored, *fields))
