"""Certificates as an analysis: count the visits of users, compute ceilings, and look them up."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from clusterscale import storage, study
from clusterscale.analyses.certify import plan, tasks
from clusterscale.analyses.certify.basis import without_sampling
from clusterscale.analyses.certify.tasks import cells_of, substitutes_of
from clusterscale.contracts import Bounds, Ints, Singles
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import block_size, ranges
from clusterscale.cube.describe import raw_bytes
from clusterscale.models import names_of
from clusterscale.schema import Variable
from clusterscale.storage.records import Parts, Records
from clusterscale.storage.result_table import TableStore

_KEYS = 32  # ceilings of a task
# Seconds of a processor per event, for a ceiling under noise, and per visit of it.
_READ, _CEILING, _VISIT = 2e-8, 4e-3, 8e-5


Table = tuple[Ints, Singles]
"""Keys of visits, increasing, and the statistics of each, float32, shape (key, statistic)."""


def _encode_visits(block: tuple[int, list[tasks.SettingVisits]]) -> Parts:
    start, visits = block
    arrays = {f"keys_{i}": one.keys for i, one in enumerate(visits)}
    return [start, [[asdict(bounds) for bounds in one.bounds] for one in visits]], arrays


def _decode_visits(
    plain: Any, arrays: Mapping[str, NDArray[Any]]
) -> tuple[int, list[tasks.SettingVisits]]:
    start, limits = plain
    return start, [
        tasks.SettingVisits(arrays[f"keys_{i}"], tuple(Bounds(**fields) for fields in some))
        for i, some in enumerate(limits)
    ]


def _select(tables: Sequence[Table], keys: Sequence[Ints]) -> Singles:
    """Return the statistics of users by the keys of their visits, (neighbours, statistic, user)."""
    parts = (
        values[np.searchsorted(known, own)]
        for (known, values), own in zip(tables, keys, strict=True)
    )
    return np.stack([part.T for part in parts])


def _sorted(parts: Sequence[Mapping[str, list[float]]]) -> Table:
    rows = sorted((int(key), numbers) for part in parts for key, numbers in part.items())
    keys = np.array([key for key, _ in rows], np.int64)
    values = np.array([numbers for _, numbers in rows], np.float64).reshape(len(rows), -1)
    singles = values.astype(np.float32)
    up = np.where(singles < values, np.nextafter(singles, np.float32(2)), singles)
    return keys, up  # rounded up: a ceiling is not lowered


def _bytes_of(cube: TraceCube, n_users: int) -> int:
    return 4 * cube.cell_bytes * n_users * (cube.n_events // cube.n_users + 1)


class CertifyAnalysis(study.Analysis):
    """The ceiling of any adversary, for every user of a cube.

    One pass over the store counts how many counts each user changes. Ceilings are computed once for
    each number of counts, and looked up for each user.

    Parameters
    ----------
    certification
        The releases, mechanisms and what is stated.
    """

    kind: ClassVar[str] = "certify"
    opener: ClassVar[str] = "open_certificates"
    noun: ClassVar[str] = "certificates"
    form: ClassVar[str] = plan.CERTIFICATES_FORMAT
    schema: ClassVar[Mapping[str, Variable]] = plan.CERTIFICATES
    shown: ClassVar[str] = "clusterscale.cli.analyses:show_certificates"
    tables: ClassVar[Mapping[str, str]] = {"users": "auc", "rates": "tpr", "reasons": "reason"}

    def __init__(self, certification: plan.Certification) -> None:
        self.plan = self.certification = certification
        self.seed, self.null_roi = certification.seed, certification.null_roi

    def check(self, cube: TraceCube, memory: int) -> None:
        """Raise :class:`ConfigError` if a mechanism does not fit, or the memory is too small."""
        made = self.certification
        for mechanism, (_, span) in product(made.mechanisms, made.periods):
            shape = cube.n_rois, cube.frame(span)
            plan.check_fit(mechanism, shape, made.group_sizes, made.null_roi)
        block = min(block_size(cube), cube.n_users)
        needed = study.PROCESS_BYTES + _bytes_of(cube, block)
        study.require_memory(memory, needed, f"for a block of {block:,} users")

    def explain(self, cube: TraceCube, memory: int, n_workers: int) -> dict[str, str]:
        """Return the number of users and certificates, and the predicted cost."""
        made, block = self.certification, min(block_size(cube), cube.n_users)
        n_cases = len(made.releases) * len(made.group_sizes) * len(made.mechanisms)
        seconds = _READ * cube.n_events
        n_noisy = sum(mechanism.guarantee.unit != "none" for mechanism in made.mechanisms)
        for _, spans in made.releases:
            n_epochs = sum(last - first for first, last in spans)
            n_visits = cube.n_events / cube.n_users * n_epochs / cube.n_epochs
            # 4: numbers of visits that differ, as a multiple of their mean
            n_ceilings = 2 * min(cube.n_users, 4 * n_visits)
            seconds += n_noisy * n_ceilings * (_CEILING + _VISIT * n_visits)
        cost = study.StudyCost(
            store_bytes=raw_bytes(cube),
            worker_bytes=study.PROCESS_BYTES + _bytes_of(cube, block),
            core_seconds=seconds,
            seconds=seconds / n_workers,
        )
        rows = {"users": f"{cube.n_users:,}", "certificates": f"{cube.n_users * n_cases:,}"}
        return rows | cost.describe("once")

    def stages(self, job: study.Study) -> Iterator[study.Stage[Any, Any]]:
        """Yield the stages, visits and ceilings, and write the ceilings of all users."""
        table = self._table(job)
        if not table.complete:
            yield from self._certify(job, table)
        for name in ("ceilings", "visits"):
            storage.remove(f"{job.uri}/{name}")

    def _certify(self, job: study.Study, table: TableStore) -> Iterator[study.Stage[Any, Any]]:
        settings = tuple(self.certification.settings())
        blocks = list(ranges(0, job.cube.n_users, block_size(job.cube)))
        visits, n_blocks = _Visits(f"{job.uri}/visits"), len(blocks)
        count = (
            tasks.VisitsTask(job.source, settings, *users)
            for users in blocks
            if users[0] not in visits.files
        )
        keep_visits, n_counted = study.each(visits.keep), len(visits.files)
        yield study.Stage("visits", tasks.count_visits, count, keep_visits, n_blocks, n_counted)
        work = _Ceilings(self.certification, settings, visits.total, job)
        left = [task for task in work.tasks if task.name not in work.found]
        n_tasks, keep = len(work.tasks), study.each(work.keep)
        yield study.Stage(
            "ceilings", tasks.compute_ceilings, left, keep, n_tasks, n_tasks - len(left)
        )
        by_case, done = work.by_case(), table.done()
        for start, _ in blocks:
            if str(start) not in done:
                _add(self.certification, settings, table, start, visits.read(start), by_case)
                table.mark_done(str(start))
        work.state(table, "" if plan.has_public_rows(job.cube) else f"; {plan.ROWS_OF_RECORDS}")
        table.finish()

    def _table(self, job: study.Study) -> TableStore:
        made, cube = self.certification, job.cube
        rates = made.plan.false_positive_rates
        columns: dict[str, Any] = {
            "period": [name for name, _ in made.releases],
            "group_size": made.group_sizes,
            **names_of("mechanism", made.mechanisms),
            "neighbours": ["add_remove", "replace"],
            "false_positive_rate": rates,
            "user": range(cube.n_users),
        }
        chunks = {"user": block_size(cube), "neighbours": 2, "false_positive_rate": len(rates)}
        about = {
            "prior": made.plan.prior,
            "covers": "the number of people counted is held fixed and public",
            "rows": "public" if plan.has_public_rows(cube) else "records",
        }
        return self.table(job, columns, chunks, about)


class _Visits:
    """The visits of blocks of users: the file of each, by its first user, and their summary."""

    def __init__(self, uri: str) -> None:
        self._records, self.files = Records(uri, _encode_visits, _decode_visits), dict[int, str]()
        self.total: list[tasks.VisitsSummary] = []
        for path in self._records.paths:
            start, visits = self._records.read(path)
            self._add(start, path, visits)

    def read(self, start: int) -> list[tasks.SettingVisits]:
        """Return the visits of the block that begins with a user."""
        return self._records.read(self.files[start])[1]

    def keep(self, task: tasks.VisitsTask, value: list[tasks.SettingVisits]) -> None:
        """Write the visits of a block."""
        self._add(task.start, self._records.add((task.start, value)), value)

    def _add(self, start: int, path: str, value: list[tasks.SettingVisits]) -> None:
        self.files[start] = path
        new = list(map(tasks.VisitsSummary.of, value))
        self.total = (
            [a.plus(b) for a, b in zip(self.total, new, strict=True)] if self.total else new
        )


class _Ceilings:
    """The ceilings of all visits, some in a task, by the name of the task."""

    def __init__(
        self,
        certification: plan.Certification,
        settings: Sequence[plan.Setting],
        visits: Sequence[tasks.VisitsSummary],
        job: study.Study,
    ) -> None:
        self._made, self._settings, self._cube = certification, settings, job.cube
        self._records = Records[tuple[str, tasks.Ceilings]](
            f"{job.uri}/ceilings",
            lambda pair: ([pair[0], asdict(pair[1])], {}),
            lambda plain, _: (plain[0], tasks.Ceilings(**plain[1])),
        )
        self.found = dict(self._records)
        self.tasks = [
            task
            for i, (setting, visited) in enumerate(zip(settings, visits, strict=True))
            for task in self._of(i, setting, visited)
        ]

    def _of(
        self, index: int, setting: plan.Setting, visited: tasks.VisitsSummary
    ) -> Iterator[tasks.CeilingTask]:
        keys = sorted(visited.added), sorted(visited.replaced)
        limits = visited.limits(setting, self._cube)
        substitutes = [
            substitutes_of(visited.replaced, n, limits)
            for n in self._made.n_candidates(self._cube.n_users)
        ]
        for k, mechanism in enumerate(setting.mechanisms):
            bound = mechanism.bind(visited.least_bounds)
            if self._made.null_roi:  # an event that is dropped can add an idle epoch
                bound = without_sampling(bound)
            for part, first in enumerate(range(0, max(map(len, keys)), _KEYS)):
                added, replaced = (tuple(way[first : first + _KEYS]) for way in keys)
                yield tasks.CeilingTask(
                    f"{index}-{k}-{part}",
                    bound,
                    self._made.group_sizes,
                    added,
                    replaced,
                    limits,
                    tuple(tuple(map(others.__getitem__, replaced)) for others in substitutes),
                    self._made.plan.false_positive_rates,
                )

    def keep(self, task: tasks.CeilingTask, value: tasks.Ceilings) -> None:
        """Write the results of a task."""
        self._records.add((task.name, value))
        self.found[task.name] = value

    def by_case(self) -> dict[str, list[list[Table]]]:
        """Return the tables of each setting and mechanism, by size and kind of neighbours."""
        parts: dict[str, list[tasks.Ceilings]] = {}
        for task in self.tasks:
            parts.setdefault(task.name.rpartition("-")[0], []).append(self.found[task.name])
        sizes = range(len(self._made.group_sizes))
        return {
            case: [
                [_sorted([getattr(one, way)[n] for one in some]) for way in ("added", "replaced")]
                for n in sizes
            ]
            for case, some in parts.items()
        }

    def state(self, table: TableStore, condition: str) -> None:
        """Write why the certificates hold, as for the users with the most visits, and if what."""
        for task in self.tasks:  # later parts have more visits
            i, k, _ = map(int, task.name.split("-"))
            stated = self.found[task.name]
            period, mechanism = _position(self._made, self._settings[i], k)
            for j, reason in enumerate(stated.reason):
                if reason:
                    at = period, j, mechanism
                    table.array("tight")[at] = "yes" if stated.tight[j] else "no"
                    table.array("reason")[at] = reason + condition


def _add(
    made: plan.Certification,
    settings: Sequence[plan.Setting],
    table: TableStore,
    start: int,
    visits: Sequence[tasks.SettingVisits],
    by_case: Mapping[str, list[list[Table]]],
) -> None:
    """Look up the ceilings of a block of users, and write them."""
    array = table.array
    for i, (setting, one) in enumerate(zip(settings, visits, strict=True)):
        keys = one.keys[0], one.keys[-1]
        users = slice(start, start + len(keys[0]))
        for k in range(len(setting.mechanisms)):
            period, mechanism = _position(made, setting, k)
            array("n_changed")[users, period, mechanism] = cells_of(keys[0])
            by_size = [_select(tables, keys) for tables in by_case[f"{i}-{k}"]]
            every = np.stack(by_size, axis=-1)  # neighbours, statistic, user, size
            auc, accuracy, tpr = every[:, 0], every[:, 1], every[:, 2:]
            array("auc")[users, period, :, mechanism] = auc.transpose(1, 2, 0)
            array("accuracy")[users, period, :, mechanism] = accuracy.transpose(1, 2, 0)
            array("tpr")[users, period, :, mechanism] = tpr.transpose(2, 3, 0, 1)


def _position(made: plan.Certification, setting: plan.Setting, k: int) -> tuple[int, int]:
    names = [name for name, _ in made.releases]
    return names.index(setting.period), made.mechanisms.index(setting.mechanisms[k])
