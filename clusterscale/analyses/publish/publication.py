"""The last stage of a publication: draw the noise once, and store the release with its entry."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import isfinite
from typing import Any, Protocol

from clusterscale import storage
from clusterscale.analyses.publish import release as releases
from clusterscale.analyses.publish.counting import Counted, counts_in
from clusterscale.analyses.publish.noted import NotedRelease
from clusterscale.analyses.publish.plan import PublishPlan
from clusterscale.analyses.publish.series import Series
from clusterscale.analyses.publish.spending import spent_on_person
from clusterscale.cube import TraceCube
from clusterscale.errors import DamagedError, RefusedError, StoreError
from clusterscale.phrases import option
from clusterscale.release import LedgerEntry, RawRelease, read_table
from clusterscale.release.checks import compare_tables, create_checks
from clusterscale.release.entry import ReleaseEntry, files_of
from clusterscale.release.metadata import README
from clusterscale.release.verdict import Verdict
from clusterscale.storage.lease import Lease, LeaseHeldError
from clusterscale.storage.manifest import from_sealed, read_sealed, to_sealed
from clusterscale.study import Progress, Stage, Study, Tell
from clusterscale.study.execution import Executor

RECEIPT, MEMBERS, COUNTS, CAP = "receipt.json", "members.zarr", "counts", "cap.json"
"""Names in a run's folder: what was published, who is counted, counts of each part, chosen cap."""

_RUN, _GATE, _REFUSED = "run.json", "gate", "refused.json"


class ReleaseGate(Protocol):
    """Audits a release before it is published."""

    @property
    def allow_warnings(self) -> bool:
        """Whether a release with the verdict ``warn`` is published."""

    def evaluate(
        self,
        entry: ReleaseEntry,
        cube: TraceCube,
        output: str,
        executor: Executor,
        *,
        memory: int,
        tell: Tell,
    ) -> Verdict:
        """Return the verdict; raise :class:`RefusedError` if the release must not be published."""


def compare_series(release: RawRelease, size: int, earlier: Sequence[str], *, strict: bool) -> str:
    """Compare a release that is not published yet with the earlier ones of its series.

    Parameters
    ----------
    release
        The release.
    size
        Number of people whom it counts.
    earlier
        Addresses of the earlier releases.
    strict
        Whether a release is also refused if a comparison cannot be decided.

    Returns
    -------
    str
        Why a comparison cannot be decided; empty if all can.

    Raises
    ------
    RefusedError
        If the difference between two releases describes few people, or noise was reused.
    """
    metadata = release.metadata.model_copy(update={"group_size": size})
    new = replace(release, metadata=metadata, name="the new release")
    old = [replace(read_table(uri), name=uri.rpartition("/")[2]) for uri in earlier]
    start, stop = _span(release)
    overlapping = [one for one in old if (span := _span(one))[0] < stop and start < span[1]]
    if not overlapping:
        return ""
    (checked,) = compare_tables([new], overlapping, create_checks(compares=True))
    if checked.verdict == "fail" or (strict and checked.undecided):
        wrong = [result.text for result in checked.results if result.level == "inconsistent"]
        raise RefusedError(
            "\n".join(["the release does not fit its series:", *(wrong or [checked.omitted])])
        )
    return checked.omitted


def _span(release: RawRelease) -> tuple[int, int]:
    entry = release.metadata.ledger
    assert entry is not None  # each release of a series has one
    return entry.start, entry.stop


def name_of_run(uri: str) -> str:
    """Return the random name of the run in a folder; the first call draws and stores it.

    Raises
    ------
    DamagedError
        If it cannot be read.
    """
    where = f"{uri}/{_RUN}"
    storage.put_new(where, to_sealed({"run": secrets.token_hex(16)}))
    try:
        return str(from_sealed(storage.read(where))["run"])
    except (ValueError, KeyError) as error:
        raise DamagedError(f"{where} is damaged: {error}") from None


def raise_refusal(uri: str) -> None:
    """Raise the refusal of the run in a folder, if its release was refused.

    Raises
    ------
    RefusedError
        The same as before, with a remedy.
    DamagedError
        If the refusal cannot be read.
    """
    if (refusal := read_sealed(f"{uri}/{_REFUSED}")) is not None:
        raise RefusedError(
            f"{refusal['why']}\nthis run was refused before, and draws no other noise: change the "
            f"mechanism or the policy, and choose another {option('output')}"
        )


def do_nothing(given: object) -> None:
    """Do nothing: the stage of a publication has no tasks."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Publication(Stage[Any, Any]):
    """The last stage, which makes the release of a run and adds it to its series.

    It runs in the driver and may itself run the studies of an audit.

    Attributes
    ----------
    plan, gate
        What is published, and the audit that it must pass before.
    job
        The study, whose users are counted.
    run_name
        Random name of the run.
    """

    plan: PublishPlan
    gate: ReleaseGate | None
    job: Study
    run_name: str

    def run(self, executor: Executor, tell: Tell) -> None:
        """Make the release, as the only process that publishes in its series.

        Raises
        ------
        StoreError
            If another process publishes in the series.
        RefusedError
            If the budget, the gate or the releases of the series do not allow it.
        ClusterscaleError
            If anything else fails; a repeated run publishes at most once.
        """
        tell(Progress(self.name, 1))
        folder = storage.absolute(self.plan.folder)
        try:
            with Lease(f"{folder}/lease") as lease:
                self._make_once(lease, executor, tell)
        except LeaseHeldError as held:
            raise StoreError(
                f"{held.holder} publishes in series {self.plan.series} now; repeat the command "
                "when it has ended"
            ) from None
        tell(Progress(self.name, 1, 1))

    def _make_once(self, lease: Lease, executor: Executor, tell: Tell) -> None:
        plan, job, cube = self.plan, self.job, self.job.cube
        series = self._open()
        series.begin()
        series.complete()
        entry, verdict, n_elsewhere, undecided = series.find(self.run_name), None, 0, ""
        if entry is None:
            entry = releases.describe_entry(plan, cube, series, self.run_name)
            series.check(entry)
            storage.remove(f"{job.uri}/{_GATE}")  # audit of noise that was not published
            counted, n_elsewhere = releases.arrange(plan, cube, self._counted())
            values, at = releases.draw(plan, cube, counted), series.address(entry.number)
            release = releases.make_release(plan, cube, counted, values, entry, at)
            name = series.name(entry.number)
            with releases.staged_release(release, name, plan.format) as (uri, entry):
                try:
                    undecided = self._compare(release, counted.n_users, series)
                    verdict = self._pass_gate(counted, uri, executor, tell)
                except RefusedError as error:  # which is final for this run
                    storage.put(f"{job.uri}/{_REFUSED}", to_sealed({"why": str(error)}))
                    self._remove_counts()
                    raise
                lease.check()
                self._note(series, entry)
                page = {} if plan.format == "zarr" else {README: storage.read(f"{uri}{README}")}
                series.commit(files_of(uri) | page, entry)
        self._finish(series, entry.number, verdict, n_elsewhere, undecided)

    def _open(self) -> Series:
        plan, cube, run = self.plan, self.job.cube, self.job.uri.rpartition("/")[0]
        return Series(plan, cube.calendar.timezone, run, cube=cube.uri)

    def _note(self, series: Series, entry: LedgerEntry) -> None:
        """Note a release beside the cube, before it is published.

        Only then are the others read again: of two runs that publish at once, one sees the other.
        """
        cube = self.job.cube.uri
        epsilon, delta = spent_on_person([(entry, self.plan.mechanism)], 0.0)
        noted = NotedRelease(
            entry=entry,
            first=(*series.entries, entry)[0].seal,
            series=self.plan.series,
            folder=series.uri,
            epsilon=epsilon if isfinite(epsilon) else None,
            delta=delta,
        )
        uri = noted.write(cube)
        try:
            self._open().check(entry)
        except (RefusedError, DamagedError):
            storage.remove(uri)
            raise

    def _compare(self, release: RawRelease, size: int, series: Series) -> str:
        """Compare a release with those of its series, and return what could not be decided.

        A release with a guarantee is not compared: whether it is refused must not depend on data.
        """
        if self.plan.budget is not None:
            return ""
        earlier = [series.address(entry.number) for entry in series.entries]
        strict = self.gate is not None and not self.gate.allow_warnings
        return compare_series(release, size, earlier, strict=strict)

    def _pass_gate(
        self, counted: Counted, uri: str, executor: Executor, tell: Tell
    ) -> Verdict | None:
        """Return the verdict of the gate, None without one.

        A refusal is final for this run: if the gate were repeated until other noise passes, the
        published noise would depend on the counts.
        """
        if self.gate is None:
            return None
        job, folder, n = self.job, f"{self.job.uri}/{_GATE}", counted.n_users
        # the true numbers of people, which the release may not state
        among = self.plan.among or (job.cube.n_users if n < job.cube.n_users else 2 * n)
        entry = ReleaseEntry(counts=uri, group_size=n, population=among)
        return self.gate.evaluate(entry, job.cube, folder, executor, memory=job.memory, tell=tell)

    def _remove_counts(self) -> None:
        """Remove the exact counts."""
        for name in (COUNTS, MEMBERS):
            storage.remove(f"{self.job.uri}/{name}")

    def _finish(
        self,
        series: Series,
        number: int,
        verdict: Verdict | None,
        n_elsewhere: int,
        undecided: str,
    ) -> None:
        """Write the receipt, and remove the exact counts."""
        entry, budget = series.entries[number - 1], self.plan.budget
        uri = series.address(number)
        receipt = {
            "release": uri,
            "number": number,
            "series": self.plan.series,
            "period": entry.period,
            "unit": entry.unit,
            "epsilon": -1.0 if entry.epsilon is None else entry.epsilon,
            "delta": entry.delta,
            "guarantee": releases.state_guarantee(self.plan, entry),
            "spent": series.spent(),
            "spent_on": series.describe_spent(entry),
            "budget": -1.0 if budget is None else budget.epsilon,
            "verdict": verdict.verdict if verdict else "",
            "reasons": verdict.reasons if verdict else "[]",
            "bytes": storage.size(uri),
            "elsewhere": n_elsewhere,
            "undecided": undecided,
            "other_series": series.describe_others(entry, self.plan.mechanism),
        }
        self._remove_counts()
        storage.put(f"{self.job.uri}/{RECEIPT}", to_sealed(receipt))

    def _counted(self) -> Counted:
        """Return the sum of the counts of all parts; together they have each user once."""
        parts = dict(sorted(dict(counts_in(f"{self.job.uri}/{COUNTS}")).items()))
        stops = [0, *(stop for _, stop in parts)]
        if stops != [*(first for first, _ in parts), self.job.cube.n_users]:
            raise DamagedError(
                f"{self.job.uri}/{COUNTS} does not have each user once: remove it, and repeat the "
                "command"
            )
        return reduce(Counted.plus, parts.values())
