"""The publication as an analysis: count everyone, then release the counts once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from clusterscale import storage, study
from clusterscale.analyses.publish import counting, publication
from clusterscale.analyses.publish import release as releases
from clusterscale.analyses.publish.plan import ENDINGS, PublishPlan, draws_noise
from clusterscale.analyses.publish.series import Series
from clusterscale.analyses.publish.source import OperatingSystemSource, require_opendp
from clusterscale.contracts import Ints, hash_of
from clusterscale.cube import TraceCube
from clusterscale.cube.attributes import WEIGHTS
from clusterscale.cube.blocks import block_size
from clusterscale.cube.describe import raw_bytes
from clusterscale.errors import ConfigError, InputError, MissingError
from clusterscale.groups.member_lists import find_listed
from clusterscale.phrases import NO_GUARANTEE, round_up
from clusterscale.reading.clock import EARLIEST, LATEST
from clusterscale.reading.tables import read_column
from clusterscale.release import read_table
from clusterscale.release.metadata import RULES, refuse_formulas
from clusterscale.storage.manifest import read_sealed, to_sealed

if TYPE_CHECKING:
    import xarray as xr

_READ = 4e-8  # seconds of a processor of 2020 per event: read, capped and counted
_NOISE = 1e-5  # and per cell with noise


def read_population(uri: str, cube: TraceCube) -> Ints:
    """Return the rows of the users of a list, increasing, int64, shape (user,).

    Parameters
    ----------
    uri
        Parquet or CSV file with a column ``user``, as the cube names them; others are not read.
    cube
        The cube of the users.

    Raises
    ------
    MissingError, StoreError
        If there is no such file, or it cannot be read.
    FormatError
        If it is not such a table.
    InputError
        If fewer than two users are listed, one is listed twice or is not in the cube. Messages
        name no users.
    """
    rows = find_listed(cube, read_column(uri, "user"), uri)
    if len(rows) < 2:
        raise InputError(f"{uri}: {len(rows)} users are listed; a release counts at least 2")
    return np.sort(rows)


def count_users(plan: PublishPlan, cube: TraceCube) -> int:
    """Return the number of people whom a release counts; see :func:`read_population`."""
    return cube.n_users if plan.everyone else len(read_population(plan.population, cube))


class PublishAnalysis(study.Analysis):
    """The release of the counts of all users of a cube, or of some.

    A first stage counts over blocks of users. The last one draws the noise, has the release audited
    if there is a gate, and stores it with its entry in the ledger of its series: both or neither.

    Parameters
    ----------
    plan
        What is published.
    gate
        What the release must pass before; None: nothing.
    """

    kind: ClassVar[str] = "publication"
    once: ClassVar[bool] = True
    seed: int = 0  # of nothing: all numbers are the operating system's

    def __init__(self, plan: PublishPlan, gate: publication.ReleaseGate | None = None) -> None:
        self.plan = plan
        self.publish, self.gate, self.null_roi = plan, gate, plan.null_roi

    def check(self, cube: TraceCube, memory: int) -> None:
        """Raise :class:`ConfigError` if ``cube`` cannot answer, or memory is too small."""
        self.check_cube(cube)
        plan = self.publish
        if plan.mechanism.guarantee.unit == "none" and not (self.gate or plan.without_guarantee):
            raise ConfigError(
                f"publish.mechanism: {plan.mechanism.label} has no guarantee: audit the release "
                "before, by --gate POLICY (in Python: gate), or set without_guarantee: true or "
                "--without-guarantee to publish it unaudited"
            )
        if draws_noise(plan.mechanism):
            require_opendp()
        study.require_memory(memory, self._worker_bytes(cube), "to count a block of users")

    def check_cube(self, cube: TraceCube) -> None:
        """Raise :class:`ConfigError`, naming the keys, if ``cube`` cannot answer."""
        plan, (first, stop) = self.publish, self.publish.span
        if cube.n_known < cube.n_users:
            raise ConfigError(f"cube: {cube.uri} has simulated people, who are not published")
        if stop > cube.n_epochs:
            raise ConfigError(
                f"publish.period: epochs {first} to {stop - 1} are not all in the cube, which has "
                f"{cube.n_epochs}"
            )
        if plan.mechanism.uses_weights and WEIGHTS not in cube.attributes:
            raise ConfigError(
                f"publish.mechanism: {plan.mechanism.label} publishes sums of weights, which the "
                "cube does not have: ingest it with a table of weights, or expand by a number"
            )
        releases.require_public(plan, cube)
        times = cube.calendar.seconds()[first:stop]
        if plan.format in ("csv", "parquet") and not EARLIEST <= times[0] <= times[-1] <= LATEST:
            raise ConfigError(
                f"publish.format: {plan.format}: the period begins on {times[0].astype('M8[s]')}, "
                "but tables have times from 1980 to 2100: if the cube was packed without its "
                "calendar, give the dense cube a coordinate `epoch`; or choose zarr or netcdf"
            )
        if plan.format == "csv":
            try:
                refuse_formulas(releases.row_names(plan, cube))
            except InputError as error:
                raise ConfigError(f"publish.format: csv: {error}") from None
        n_users = count_users(plan, cube)
        if plan.among is not None and plan.among < n_users:
            raise ConfigError(
                f"publish.among: {plan.among:,} people, but {n_users:,} users are counted"
            )
        if plan.group_size is not None and abs(plan.group_size - n_users) > max(1, n_users / 10):
            raise ConfigError(
                f"publish.group_size: {plan.group_size:,} people, but {n_users:,} users are "
                "counted: state their number, or a round one that is closer"
            )
        n_rois = len(releases.row_names(plan, cube)) + plan.null_roi
        shape = {"n_rois": n_rois, "n_epochs": plan.period.epochs}
        try:
            plan.mechanism.check(group_size=n_users, **shape)
        except ConfigError as error:
            raise ConfigError(f"publish.mechanism: {error}") from None

    def outputs(self, run_uri: str) -> list[str]:
        """Return the folder of this analysis, and the rules of its series."""
        return [*super().outputs(run_uri), f"{self.publish.folder}/{RULES}"]

    def input_digest(self, cube: TraceCube, run_uri: str) -> str:
        """Return a digest of the lists of users and places, so that others are another run."""
        plan, digest = self.publish, ""
        if not plan.everyone:
            rows = read_population(plan.population, cube)
            digest = hash_of([len(rows), hash_of(rows.tolist())])
        return digest if plan.places is None else hash_of([digest, releases.row_names(plan, cube)])

    def explain(self, cube: TraceCube, memory: int, n_workers: int) -> dict[str, str]:
        """Return who is counted, the guarantee, the budget, and the predicted cost."""
        self.check(cube, memory)
        plan = self.publish
        series = Series(plan, cube.calendar.timezone, cube=cube.uri)
        entry = releases.describe_entry(plan, cube, series, "")
        series.check(entry)
        n_users = count_users(plan, cube)
        n_cells = (len(releases.row_names(plan, cube)) + plan.null_roi) * plan.period.epochs
        work = cube.n_events * _READ + n_cells * _NOISE
        n_blocks = -(-cube.n_users // block_size(cube))
        cost = study.StudyCost(
            store_bytes=raw_bytes(cube),
            worker_bytes=self._worker_bytes(cube),
            core_seconds=work,
            seconds=work / min(n_workers, n_blocks),
        )
        budget, days = plan.budget, (entry.first_day, entry.last_day)
        spends = releases.state_guarantee(plan, entry) or NO_GUARANTEE
        others = series.describe_others(entry, plan.mechanism)
        left = "none"
        if budget is not None:
            before, after = (round_up(series.spent(*more, days=days)) for more in ((), (entry,)))
            left = (
                f"{before:.6g} of ε {budget.epsilon:g} spent, then {after:.6g}, "
                f"for each {series.describe_units(entry)}"
            )
        return {
            "users": f"{n_users:,}",
            "values": f"{n_cells:,}",
            **cube.calendar.describe_clock_change(plan.span),
            "rows": "public" if releases.rows_are_public(plan, cube) else "taken from the records",
            "published by": plan.mechanism.heading,
            **_capped(plan),
            "guarantee": spends,
            "budget": left,
            **({"other series": others} if others else {}),
            "release": f"{plan.folder}/{series.name(entry.number)}{ENDINGS[plan.format]}",
            **cost.describe("once"),
            **({"gate": "audits the release before it is stored, on top"} if self.gate else {}),
        }

    def stages(self, job: study.Study) -> Iterator[study.Stage[Any, Any]]:
        """Yield the counting and the release, unless this run has published already."""
        if storage.exists(f"{job.uri}/{publication.RECEIPT}"):
            return
        publication.raise_refusal(job.uri)
        run_uri = job.uri.rpartition("/")[0]
        series = Series(self.publish, job.cube.calendar.timezone, run_uri, cube=job.cube.uri)
        run = publication.name_of_run(job.uri)
        if series.find(run) is None:
            series.check(releases.describe_entry(self.publish, job.cube, series, run))
            if self.publish.choose_cap and not storage.exists(f"{job.uri}/{publication.CAP}"):
                yield self._choose_cap(job)
            yield self._count(job)
        yield publication.Publication(
            "release", publication.do_nothing, (), publication.do_nothing, 1,
            plan=self._chosen(job), gate=self.gate, job=job, run_name=run,
        )  # fmt: skip

    def open(self, uri: str) -> xr.Dataset:
        """Open the release of a finished run: values over (roi, epoch), with its entry."""
        import xarray as xr

        where = f"{self.uri(uri)}/{publication.RECEIPT}"
        if (receipt := read_sealed(where)) is None:
            raise MissingError(f"{where}: this run has not published")
        release = read_table(receipt["release"])
        coordinates = {"roi": list(release.rois or ()), "epoch": release.epochs}
        return xr.Dataset(
            {"counts": (("roi", "epoch"), release.values)}, coords=coordinates, attrs=receipt
        )

    def _chosen(self, job: study.Study) -> PublishPlan:
        """Return the plan with the cap that this run has chosen."""
        kept = read_sealed(f"{job.uri}/{publication.CAP}") if self.publish.choose_cap else None
        return self.publish if kept is None else self.publish.with_cap(int(kept["per_day"]))

    def _choose_cap(self, job: study.Study) -> study.Stage[Any, Any]:
        """Return the stage that chooses the cap and keeps it, so that a resumed run has the same.

        It is chosen when the last part is counted: the numbers without noise are never stored.
        """
        choice, counted = self.publish.choose_cap, list[Ints]()
        parts = self._parts(self.publish, job)
        assert choice is not None
        days, last_days = (job.cube.calendar.days(ends=ends) for ends in (False, True))
        span = slice(*self.publish.span)
        apart = bool((days[span] == last_days[span]).all())
        one_day = apart and self.publish.mechanism.guarantee.unit == "user_day"
        n_changes = 1 if one_day else 2 * len(np.unique(days[span]))  # each may move from n to m

        def keep(part: counting.PartsOf, of_events: Ints) -> None:
            counted.append(of_events)
            if len(counted) == len(parts):
                per_day = releases.choose_cap(choice, np.sum(counted, axis=0), n_changes)
                storage.put_new(f"{job.uri}/{publication.CAP}", to_sealed({"per_day": per_day}))

        return study.Stage(
            "choose the cap", counting.fold_days, parts, study.each(keep), job.cube.n_users, 0,
            lambda part: part.users[1] - part.users[0], by_parts=True,
        )  # fmt: skip

    def _parts(self, plan: PublishPlan, job: study.Study) -> list[counting.PartsOf]:
        """Return the parts of the users to count; writes the list of those who are counted."""
        members = ""
        if not plan.everyone:
            members = f"{job.uri}/{publication.MEMBERS}"
            if not storage.exists(members):
                counting.write_members(members, read_population(plan.population, job.cube))
        source = OperatingSystemSource.of(
            job.cube, null_roi=plan.null_roi, seed=0, weights=plan.mechanism.uses_weights
        )
        return counting.divide(source, job.cube, (plan.span, plan.mechanism.trace_steps), members)

    def _count(self, job: study.Study) -> study.Stage[Any, Any]:
        parts = self._parts(self._chosen(job), job)
        records = counting.counts_in(f"{job.uri}/{publication.COUNTS}")
        done = {users for users, _ in records}
        left = [part for part in parts if part.users not in done]
        n_done = sum(stop - first for first, stop in done)

        def keep(part: counting.PartsOf, counted: counting.Counted) -> None:
            records.add((part.users, counted))

        return study.Stage(
            "count", counting.fold_part, left, study.each(keep), job.cube.n_users, n_done,
            lambda part: part.users[1] - part.users[0], by_parts=True,
        )  # fmt: skip

    def _worker_bytes(self, cube: TraceCube) -> int:
        n_cells = (cube.n_rois + self.null_roi) * self.publish.period.epochs
        n_events = block_size(cube) * (cube.n_events // max(cube.n_users, 1) + 1)
        values = 12 if self.publish.mechanism.uses_weights else 4
        return study.PROCESS_BYTES + 3 * cube.cell_bytes * n_events + 4 * values * n_cells


def _capped(plan: PublishPlan) -> dict[str, str]:
    """Return how the cap is chosen, if it is."""
    if (choice := plan.choose_cap) is None:
        return {}
    share = f"{choice.quantile:.0%} of the days of users lose no event"
    return {"cap": f"at most {plan.largest_cap}, chosen for ε {choice.epsilon:g} so that {share}"}
