"""The audit of one release, as an analysis, and the folder with its results and record."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import xarray as xr
from pydantic import Field, TypeAdapter

from clusterscale import storage
from clusterscale.analyses import audit as audits
from clusterscale.analyses.audit import AuditAnalysis, AuditPlan, count_failed, open_results
from clusterscale.analyses.audit.plan import certification_of
from clusterscale.analyses.audit.release_scoring import VALUES
from clusterscale.analyses.certify import CertifyAnalysis
from clusterscale.analyses.screening import ScreenAnalysis
from clusterscale.analyses.screening import check as check_screen
from clusterscale.contracts import Bounds, Ints
from clusterscale.cube import TraceCube
from clusterscale.errors import ClusterscaleError, ConfigError, DamagedError, MissingError
from clusterscale.reauditing.known_counts import INSIDE, TableTask, check_alone, read_content
from clusterscale.reauditing.known_part import KnownPart, knows_population
from clusterscale.reauditing.ledger import json_safe
from clusterscale.reauditing.policy import ReauditPlan
from clusterscale.reauditing.population import Population
from clusterscale.reauditing.release_metrics import IntervalEstimate
from clusterscale.reauditing.resolved_release import LISTED, MARKS, TOTALS, ResolvedRelease
from clusterscale.reauditing.scoring import Membership, PublishedScores, pool
from clusterscale.release import RawRelease
from clusterscale.release.checks import CheckResult
from clusterscale.reporting.run import Run, open_run
from clusterscale.schema import RESULTS_REVISION
from clusterscale.storage import manifest
from clusterscale.storage.atomic import staged
from clusterscale.storage.manifest import from_sealed, to_sealed
from clusterscale.study import Analysis, Stage, Study, each

_TABLES = "release/tables.zarr"
_PEOPLE = "release/people.zarr"
_RECORD = "release/facts.json"


@dataclass(frozen=True, slots=True)
class ReleaseRecord:
    """Results for a release in addition to its audit.

    ``release`` is the audited one; ``cube`` is the fingerprint of its cube. ``n_failed`` is the
    number of failed tasks of any kind. ``published`` is the AUC of ``attack``, the strongest one on
    the published values, over users with known membership. ``findings`` are results of checks on
    this table alone, and ``bounds`` the largest changes by one unit of data. ``part`` says what is
    known of the people, None if the cube has all of them. ``audit`` is the key of the audit.
    """

    release: Annotated[ResolvedRelease, Field(alias="listed")]
    cube: str
    n_failed: int
    published: IntervalEstimate
    attack: str
    findings: tuple[CheckResult, ...]
    bounds: Bounds | None
    part: KnownPart | None = None
    audit: str = ""  # records of older versions have neither


_READER = TypeAdapter(ReleaseRecord)


class ReleaseStore:
    """The folder of one audited release; each part is written atomically.

    Attributes
    ----------
    uri
        Address of the folder.
    people
        Cube of known and simulated people, if not all are known.
    tables
        Zarr group with the published values, and the rows of known members.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self.people, self.tables = f"{self.uri}/{_PEOPLE}", f"{self.uri}/{_TABLES}"

    def record(self) -> ReleaseRecord | None:
        """Return the record, None while it is not complete, or if it is that of another audit."""
        try:
            record = from_sealed(storage.read(f"{self.uri}/{_RECORD}"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise DamagedError(
                f"{self.uri}/{_RECORD} is damaged ({error}): remove it, and the next run of the "
                "same command checks the release again"
            ) from None
        for numbers in (record["published"], *record["findings"]):  # JSON has no NaN
            numbers |= {key: np.nan for key, value in numbers.items() if value is None}
        found = _READER.validate_python(record, strict=False)
        return found if found.audit == self.uri.rpartition("/")[2] else None

    def write_record(self, record: ReleaseRecord) -> None:
        """Write the record, which completes the folder."""
        plain = asdict(record) | {"listed": record.release.model_dump(mode="json")}
        del plain["release"]
        storage.put(f"{self.uri}/{_RECORD}", to_sealed(json_safe(plain)))

    def content(self) -> RawRelease:
        """Return the published values and totals."""
        return read_content(self.tables)

    def write_tables(self, content: RawRelease, inside: Ints) -> None:
        """Write the content for workers and for later comparisons, unless it is there, intact."""
        if manifest.is_intact(self.tables):
            return
        arrays = {VALUES: content.values, INSIDE: np.asarray(inside, np.int64)}
        totals: dict[str, Any] = dict(zip(TOTALS, content.totals.each, strict=True))
        totals |= dict(zip(LISTED, content.totals.listed, strict=False))
        marks = {name: getattr(content, name) for name in MARKS}
        arrays |= {name: one for name, one in (totals | marks).items() if one is not None}
        with staged(self.tables, force=True) as staging:
            group = storage.create_group(staging)
            for name, array in arrays.items():
                group.create_array(name, data=array)
            manifest.seal(staging)

    def open(self) -> tuple[xr.Dataset, Run]:
        """Open the audit, and with it the screen and the certificates if there are any, by labels.

        Raises MissingError if there is no finished audit.
        """
        run, _ = open_run(self.uri)
        if run.audit is None:
            raise MissingError(f"{self.uri}: there is no finished audit")
        return run.audit, run


class TasksFailedError(ClusterscaleError):
    """Tasks of the audit of a release failed; the next run repeats them."""


class ReleaseAnalysis(Analysis):
    """Scores of the attacks on the published values, and checks of these values.

    It requires the audit of the release, and the screen if the plan and the mechanism have one. It
    ends with the record of a :class:`ReleaseStore`. ``cube`` has the known traces; it runs on the
    ``people`` of the ``population``, if these are more.
    """

    plan: AuditPlan
    kind: ClassVar[str] = "release"
    shared: ClassVar[Collection[str]] = ("tables.zarr", "people.zarr")  # may be there before

    def __init__(
        self,
        release: ResolvedRelease,
        content: RawRelease,
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
        certificates = CertifyAnalysis(certification_of(self.plan))
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

        Raises TasksFailedError if tasks of the audit or of the scores failed.
        """
        plan, cube, release = self.plan, job.cube, self._release
        store = ReleaseStore(job.run_uri)
        store.write_tables(self._content, self._members.inside)
        users = audits.plan_resources(plan, cube, job.memory, job.n_workers).users
        scores = PublishedScores(plan, cube, self._members, self._how.published, store.tables)
        yield scores.stage(users)
        (evaluation,) = plan.evaluations(cube)
        everyone, checked = knows_population(release, self._cube), list[Any]()
        n_known = self._cube.n_users
        task = TableTask(release, evaluation.source, store.tables, everyone, n_known)
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
        store.write_record(
            ReleaseRecord(
                release=release,
                cube=self._cube.fingerprint,
                n_failed=n_unscored,
                published=published,
                attack=attack,
                findings=findings,
                bounds=bounds,
                part=self._part,
                audit=self.digest,
            )
        )
