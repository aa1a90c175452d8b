"""The finished tasks of an audit: their outcomes in files, and where the entry of each task is."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.targets import Chosen
from clusterscale.analyses.audit.task import AuditTask, Key
from clusterscale.errors import DamagedError
from clusterscale.game import Outcome
from clusterscale.storage import files
from clusterscale.storage.records import MERGED, Parts, Records
from clusterscale.study import Stage
from clusterscale.study.execution import Finished

Index = tuple[NDArray[np.int64], ...]
"""Position of tasks: period, target, prior and group size."""

_NOWHERE = -1
_TEXTS = [field.name for field in fields(Outcome) if field.type is str]
_LISTS = [field.name for field in fields(Outcome) if field.type == tuple[int, ...]]
_NUMBERS = [field.name for field in fields(Outcome) if field.name not in (*_TEXTS, *_LISTS)]


@dataclass(frozen=True, slots=True)
class Entry:
    """A task that ended: its outcomes, or the error that ended it, with traceback."""

    key: Key
    outcomes: tuple[Outcome, ...] = ()
    error: str = ""
    traceback: str = ""


def entries_in(uri: str, run: str = "") -> Records[Sequence[Entry]]:
    """Return the entries of a run that are kept in a folder, a file per batch of tasks."""
    return Records(uri, _encode, _decode, run)


def _encode(entries: Sequence[Entry]) -> Parts:
    outcomes = [outcome for entry in entries for outcome in entry.outcomes]
    plain = {
        "tasks": [[one.key, one.error, one.traceback, len(one.outcomes)] for one in entries],
        "texts": {name: [getattr(one, name) for one in outcomes] for name in _TEXTS},
    }
    arrays = {name: np.array([getattr(one, name) for one in outcomes]) for name in _NUMBERS}
    for name in _LISTS:
        lists = [getattr(one, name) for one in outcomes]
        arrays[name] = np.array([number for one in lists for number in one], np.int64)
        arrays[f"{name}_length"] = np.array([len(one) for one in lists], np.int64)
    return plain, arrays


def _decode(plain: Any, arrays: Mapping[str, NDArray[Any]]) -> list[Entry]:
    columns = {**plain["texts"], **{name: arrays[name].tolist() for name in _NUMBERS}}
    for name in _LISTS:
        ends = np.cumsum(arrays[f"{name}_length"])[:-1]
        columns[name] = [tuple(part.tolist()) for part in np.split(arrays[name], ends)]
    rows = zip(*columns.values(), strict=False)
    outcomes = iter([Outcome(**dict(zip(columns, row, strict=True))) for row in rows])
    return [
        Entry(tuple(key), tuple(next(outcomes) for _ in range(n)), error, traceback)
        for key, error, traceback, n in plain["tasks"]
    ]


def merge_files(paths: Sequence[str]) -> str:
    """Write the entries of some files of a journal to one, and return its URI.

    Of several entries of a task it has one that succeeded, else that of the last file.
    """
    folder, _, name = paths[0].rpartition("/")
    records = entries_in(folder, ".".join(name.split(".")[1:-1]))
    entries: dict[Key, Entry] = {}
    for entry in chain.from_iterable(records.read_all(paths)):
        if not entry.error or entry.key not in entries or entries[entry.key].error:
            entries[entry.key] = entry
    return records.write(list(entries.values()))


@dataclass(frozen=True, slots=True)
class TargetBlock:
    """Consecutive targets, and where the entries of their tasks are.

    Attributes
    ----------
    users
        Indices of the targets in the cube, increasing, int64, shape (target,).
    periods, priors, sizes
        Ids of periods and priors, and group sizes.
    files
        int32, shape (period, target, prior, group size): number of the file, -1 for none.
    paths
        URI of each file, by its number.
    """

    users: NDArray[np.int64]
    periods: tuple[str, ...]
    priors: tuple[str, ...]
    sizes: tuple[int, ...]
    files: NDArray[np.int32]
    paths: Mapping[int, str] = field(default_factory=dict)

    def entries(self) -> dict[Key, Entry]:
        """Return the entries of the tasks that have one."""
        found: dict[Key, Entry] = {}
        if self.paths:
            records = entries_in("")  # files are named by their addresses
            read = records.read_all(self.paths.values())
            for number, entries in zip(self.paths, read, strict=True):
                index, inside = self.find([entry.key for entry in entries])
                mine = inside & (self.files[index] == number)
                found |= {entries[i].key: entries[i] for i in np.flatnonzero(mine).tolist()}
        return found

    def find(self, keys: Sequence[Key]) -> tuple[Index, NDArray[np.bool_]]:
        """Return where tasks are in ``files``, and whether their targets are in this block.

        Raises DamagedError if a task is of another plan.
        """
        targets, *others = zip(*keys, strict=True) if keys else ((), (), (), ())
        at = np.searchsorted(self.users, targets).clip(max=max(0, len(self.users) - 1))
        known: tuple[Sequence[Any], ...] = self.periods, self.priors, self.sizes
        numbers = [{name: i for i, name in enumerate(some)} for some in known]
        try:
            period, prior, size = (
                np.array([number[name] for name in names], np.int64)
                for names, number in zip(others, numbers, strict=True)
            )
        except KeyError:
            raise _of_others() from None
        return (period, at, prior, size), self.users[at] == np.array(targets, np.int64)


def _of_others() -> DamagedError:
    return DamagedError("the journal has entries of tasks that are not in this plan")


class FinishedTasks:
    """The tasks of a plan, each with the number of the file that has its entry.

    Tasks that an earlier run finished are read from their records; those that failed run again.

    Raises
    ------
    DamagedError
        If a file of the journal cannot be read, or is of other tasks.
    """

    def __init__(self, plan: AuditPlan, chosen: Chosen, uri: str, run: str = "") -> None:
        shape = len(plan.periods), len(chosen.users), len(plan.priors), len(plan.group_sizes)
        self._all = TargetBlock(
            np.asarray(chosen.users, np.int64),
            tuple(period.id for period in plan.periods),
            tuple(prior.id for prior in plan.priors),
            tuple(plan.group_sizes),
            np.full(shape, _NOWHERE, np.int32),
        )
        self._file, self._failed = self._all.files, np.zeros(shape, np.bool_)
        attacked = np.ones(shape[:2], np.bool_) if chosen.attacked is None else chosen.attacked
        self._planned = np.broadcast_to(attacked[:, :, None, None], shape)
        self._numbers: dict[str, int] = {}  # of files, also of those that were merged
        self._sizes: dict[int, int] = {}  # tasks in each file that is there
        records = entries_in(uri, run)
        for path, plain in zip(records.paths, records.plain(), strict=True):
            tasks = plain["tasks"]
            well = [tuple(key) for key, error, *_ in tasks if not error]
            self._file[self._index(well)] = self._number(path, len(tasks))
        self._file[~self._planned] = _NOWHERE

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self._planned.sum())

    @property
    def n_failed(self) -> int:
        """Number of tasks that failed."""
        return int(self._failed.sum())

    @property
    def n_done(self) -> int:
        """Number of tasks that succeeded."""
        return int((self._file != _NOWHERE).sum()) - self.n_failed

    def left(self, tasks: Iterable[AuditTask]) -> Iterator[AuditTask]:
        """Yield the tasks without an entry; ``tasks`` are all of the plan, in its order."""
        has_file = (self._file != _NOWHERE)[self._planned]
        for task, finished in zip(tasks, has_file, strict=True):
            if not finished:
                yield task

    def note(self, path: str, failed: Mapping[Key, bool]) -> None:
        """Note the file that has the entries of some tasks, and which of them failed."""
        index = self._index(list(failed))
        self._file[index] = self._number(path, len(failed))
        self._failed[index] = list(failed.values())

    def merging(self, most: int) -> Stage[Any, Any] | None:
        """Return a stage that merges small files, if there are more than ``most`` of them."""
        if sum(map(_is_small, self._sizes.values())) <= most:
            return None
        paths = list(self._numbers)
        groups = {
            tuple(paths[number] for number in group): group
            for group in map(sorted, self._adjacent())
            if len(group) > 1
        }

        def keep(merged: Sequence[Finished[tuple[str, ...], str]]) -> None:
            for one in merged:  # the new file has the entries of others, which are removed
                old, path, paths = groups[one.item], str(one.value), list(self._numbers)
                mine = np.isin(self._file, old)
                self._file[mine] = self._number(path, sum(map(self._sizes.pop, old)))
                files.remove_files({paths[number] for number in old} - {path})

        return Stage("merge", merge_files, list(groups), keep, len(groups), urgent=True)

    def block(self, first: int, last: int) -> TargetBlock:
        """Return the targets at positions ``first`` to ``last`` − 1."""
        files = self._file[:, first:last].copy()
        known, numbers = list(self._numbers), np.unique(files[files != _NOWHERE]).tolist()
        paths = {number: known[number] for number in numbers}
        return replace(self._all, users=self._all.users[first:last], files=files, paths=paths)

    def failures(self, most: int) -> dict[Key, Entry]:
        """Return at most ``most`` entries of failed tasks."""
        known, failures = list(self._numbers), dict[Key, Entry]()
        failed = np.where(self._failed, self._file, _NOWHERE).astype(np.int32)
        for number in np.unique(self._file[self._failed]).tolist():
            paths = {number: known[number]}
            failures |= replace(self._all, files=failed, paths=paths).entries()
            if len(failures) >= most:
                break
        return dict(list(failures.items())[:most])

    def _number(self, path: str, n_tasks: int) -> int:
        """Return the number of a file with entries of so many tasks."""
        number = self._numbers.setdefault(path, len(self._numbers))
        self._sizes[number] = n_tasks
        return number

    def _adjacent(self) -> Iterator[list[int]]:
        """Yield the numbers of small files whose tasks follow each other, some at a time."""
        numbers, places = np.unique(self._file, return_index=True)
        order = dict(zip(numbers.tolist(), places.tolist(), strict=True))
        small = [number for number, size in self._sizes.items() if _is_small(size)]
        group, n_tasks = list[int](), 0
        for number in sorted(small, key=lambda number: (order.get(number, np.inf), number)):
            if n_tasks + self._sizes[number] > MERGED and group:
                yield group
                group, n_tasks = [], 0
            group.append(number)
            n_tasks += self._sizes[number]
        yield group

    def _index(self, keys: Sequence[Key]) -> Index:
        index, known = self._all.find(keys)
        if not known.all():
            raise _of_others()
        return index


def _is_small(n_tasks: int) -> bool:
    return 0 < n_tasks < MERGED // 2
