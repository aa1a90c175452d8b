"""Certificates as an analysis: count the visits of users, compute ceilings, and look them up."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from clusterscale import storage
from clusterscale.certify.plan import Certification, Setting
from clusterscale.certify.results import CertificateStore, open_certificates
from clusterscale.certify.tasks import (
    Ceilings,
    CeilingTask,
    LookupTask,
    SettingVisits,
    VisitsSummary,
    VisitsTask,
    compute_ceilings,
    count_visits,
    from_bytes,
    look_up,
    to_bytes,
)
from clusterscale.certify.visits import substitutes_of
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import block_size, ranges
from clusterscale.cube.describe import raw_bytes
from clusterscale.storage.manifest import from_sealed, to_sealed
from clusterscale.study import (
    PROCESS_BYTES,
    Analysis,
    Stage,
    Study,
    StudyCost,
    each,
    require_memory,
)

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["CertifyAnalysis"]

_KEYS = 32  # ceilings of a task
_READ, _CEILING = 2e-8, 0.1  # seconds of a processor per event, and per ceiling of a mechanism
_CEILINGS = 200  # per mechanism, about


class CertifyAnalysis(Analysis):
    """The ceiling of any adversary, for every user of a cube.

    One pass over the store counts how many counts each user changes. Ceilings are computed once for
    each number of counts, and looked up for each user.

    Parameters
    ----------
    certification
        The releases, mechanisms and what is stated.
    """

    kind: ClassVar[str] = "certify"

    def __init__(self, certification: Certification) -> None:
        self.plan = self.certification = certification
        self.seed, self.null_roi = certification.seed, certification.null_roi

    def check(self, cube: TraceCube, memory: int) -> None:
        """Raise :class:`ConfigError` if the memory is too small for a block of users."""
        block = min(block_size(cube), cube.n_users)
        needed = PROCESS_BYTES + 4 * cube.cell_bytes * block * (cube.n_events // cube.n_users + 1)
        require_memory(memory, needed, f"for a block of {block:,} users")

    def explain(self, cube: TraceCube, memory: int, n_workers: int) -> dict[str, str]:
        """Return the number of users and certificates, and the predicted cost."""
        made, size = self.certification, block_size(cube)
        n_cases = len(made.releases) * len(made.group_sizes) * len(made.mechanisms)
        block = 4 * cube.cell_bytes * min(size, cube.n_users) * (cube.n_events // cube.n_users + 1)
        seconds = _READ * cube.n_events + n_cases * _CEILINGS * _CEILING
        cost = StudyCost(
            n_users=cube.n_users,
            store_bytes=raw_bytes(cube),
            worker_bytes=PROCESS_BYTES + block,
            core_seconds=seconds,
            seconds=seconds / n_workers,
        )
        rows = {"users": f"{cube.n_users:,}", "certificates": f"{cube.n_users * n_cases:,}"}
        return rows | cost.describe("once")

    def open(self, uri: str) -> xr.Dataset:
        """Open the certificates below the folder of a run."""
        return open_certificates(self.uri(uri))

    def stages(self, job: Study) -> Iterator[Stage[Any, Any]]:
        """Yield the stages: visits, ceilings, and users."""
        settings = tuple(self.certification.settings())
        store = CertificateStore(job.uri, self.certification, job.cube)
        blocks = list(ranges(0, job.cube.n_users, block_size(job.cube)))
        visits = _Visits(job.uri, {start for start, _ in blocks})
        count = (
            VisitsTask(job.source, settings, *users)
            for users in blocks
            if users[0] not in visits.done
        )
        n_blocks, n_counted = len(blocks), len(visits.done)
        yield Stage("visits", count_visits, count, each(visits.keep), n_blocks, n_counted)
        work = _Ceilings(self.certification, settings, visits.total, job.uri)
        left = [task for task in work.tasks if not storage.exists(work.uri(task))]
        n_tasks = len(work.tasks)
        keep = each(work.keep)
        yield Stage("ceilings", compute_ceilings, left, keep, n_tasks, n_tasks - len(left))
        files, done = work.files(), {int(name) for name in store.done()}
        lookups = (
            LookupTask(start, visits.uri(start), files) for start, _ in blocks if start not in done
        )
        adder = _Adder(self.certification, settings, store)
        yield Stage("users", look_up, lookups, each(adder.add), n_blocks, len(done))
        work.state(store)
        store.finish()
        for name in ("ceilings", "visits"):
            storage.remove(f"{job.uri}/{name}")


class _Visits:
    """The visits of blocks of users, a file each, until they are looked up."""

    def __init__(self, uri: str, starts: Collection[int]) -> None:
        self._uri = f"{uri}/visits"
        self.done: set[int] = set()
        self.total: list[VisitsSummary] = []
        names = {f"{start}.npz": start for start in starts}
        for name in sorted(names.keys() & set(storage.list_names(self._uri))):
            self._add(names[name], from_bytes(storage.read(f"{self._uri}/{name}")))

    def uri(self, start: int) -> str:
        """Return the URI of the visits of the block that starts with a user."""
        return f"{self._uri}/{start}.npz"

    def keep(self, task: VisitsTask, value: list[SettingVisits]) -> None:
        """Write the visits of a block."""
        storage.put(self.uri(task.start), to_bytes(value))
        self._add(task.start, value)

    def _add(self, start: int, value: list[SettingVisits]) -> None:
        self.done.add(start)
        new = list(map(VisitsSummary.of, value))
        self.total = (
            [a.plus(b) for a, b in zip(self.total, new, strict=True)] if self.total else new
        )


class _Ceilings:
    """The ceilings of all visits, in files of some each, until the users are looked up."""

    def __init__(
        self,
        certification: Certification,
        settings: Sequence[Setting],
        visits: Sequence[VisitsSummary],
        uri: str,
    ) -> None:
        self._made, self._settings, self._uri = certification, settings, uri
        self.tasks = [
            task
            for i, (setting, visited) in enumerate(zip(settings, visits, strict=True))
            for task in self._of(i, setting, visited)
        ]

    def _of(self, index: int, setting: Setting, visited: VisitsSummary) -> Iterator[CeilingTask]:
        substitutes = substitutes_of(visited.replaced)
        for k, mechanism in enumerate(setting.mechanisms):
            bound = mechanism.bind(visited.least_bounds)
            keys = sorted(visited.added), sorted(visited.replaced)
            for part, first in enumerate(range(0, max(map(len, keys)), _KEYS)):
                added, replaced = (tuple(way[first : first + _KEYS]) for way in keys)
                yield CeilingTask(
                    f"{index}-{k}-{part}",
                    bound,
                    self._made.group_sizes,
                    added,
                    replaced,
                    substitutes,
                    self._made.plan.false_positive_rates,
                )

    def uri(self, task: CeilingTask) -> str:
        """Return the URI of the results of a task."""
        return f"{self._uri}/ceilings/{task.name}.json"

    def keep(self, task: CeilingTask, value: Ceilings) -> None:
        """Write the results of a task."""
        storage.put(self.uri(task), to_sealed(asdict(value)))

    def files(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """Return the files of each setting and mechanism."""
        by_case: dict[str, list[str]] = {}
        for task in self.tasks:
            by_case.setdefault(task.name.rpartition("-")[0], []).append(self.uri(task))
        return tuple(
            tuple(tuple(by_case[f"{i}-{k}"]) for k in range(len(setting.mechanisms)))
            for i, setting in enumerate(self._settings)
        )

    def state(self, store: CertificateStore) -> None:
        """Write why the certificates hold: as for the users with the most visits."""
        for task in self.tasks:  # later parts have more visits
            i, k, _ = map(int, task.name.split("-"))
            content = from_sealed(storage.read(self.uri(task)))
            period, mechanism = _position(self._made, self._settings[i], k)
            for j, reason in enumerate(content["reason"]):
                if reason:
                    tight = content["tight"][j]
                    store.state(period, j, mechanism, tight=tight, reason=reason)


class _Adder:
    """Writes the certificates of blocks of users."""

    def __init__(
        self, made: Certification, settings: Sequence[Setting], store: CertificateStore
    ) -> None:
        self._made, self._settings, self._store = made, settings, store

    def add(self, task: LookupTask, value: list[tuple[Any, list[list[Any]]]]) -> None:
        """Write a block, and mark it as done."""
        for setting, (cells, rows) in zip(self._settings, value, strict=True):
            for k in range(len(setting.mechanisms)):
                period, mechanism = _position(self._made, setting, k)
                self._store.add(task.start, period, mechanism, cells, rows[k])
        self._store.mark_done(str(task.start))


def _position(made: Certification, setting: Setting, k: int) -> tuple[int, int]:
    names = [name for name, _ in made.releases]
    return names.index(setting.period), made.mechanisms.index(setting.mechanisms[k])
