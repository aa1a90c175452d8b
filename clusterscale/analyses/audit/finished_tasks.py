"""The finished tasks of an audit: their outcomes in files, and where the entry of each task is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.targets import Chosen
from clusterscale.analyses.audit.task import AuditTask, Key
from clusterscale.errors import DamagedError
from clusterscale.game import Outcome
from clusterscale.storage.records import Parts, Records

Index = tuple[int, int, int, int]

_NOWHERE = -1
_TEXTS = [field.name for field in fields(Outcome) if field.type == "str"]
_LISTS = [field.name for field in fields(Outcome) if field.type == "tuple[int, ...]"]
_NUMBERS = [field.name for field in fields(Outcome) if field.name not in (*_TEXTS, *_LISTS)]


@dataclass(frozen=True, slots=True)
class Entry:
    """A task that ended: its outcomes, or the error that ended it, with traceback."""

    key: Key
    outcomes: tuple[Outcome, ...] = ()
    error: str = ""
    traceback: str = ""


def entries_in(uri: str) -> Records[Sequence[Entry]]:
    """Return the entries that are kept in a folder, a file per batch of tasks."""
    return Records(uri, _encode, _decode)


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


class FinishedTasks:
    """The tasks of a plan, each with the number of the file that has its entry.

    Tasks that an earlier run finished are read from their records; those that failed run again.

    Raises
    ------
    DamagedError
        If a file of the journal cannot be read, or is of other tasks.
    """

    def __init__(self, plan: AuditPlan, chosen: Chosen, uri: str) -> None:
        self._users, self._records = np.asarray(chosen.users, np.int64), entries_in(uri)
        self._periods = {period.id: i for i, period in enumerate(plan.periods)}
        self._priors = {prior.id: i for i, prior in enumerate(plan.priors)}
        self._sizes = {size: i for i, size in enumerate(plan.group_sizes)}
        shape = len(self._periods), len(self._users), len(self._priors), len(self._sizes)
        self._file = np.full(shape, _NOWHERE, np.int32)
        self._failed = np.zeros(shape, np.bool_)
        attacked = np.ones(shape[:2], np.bool_) if chosen.attacked is None else chosen.attacked
        self._planned = np.broadcast_to(attacked[:, :, None, None], shape)
        for number, path in enumerate(self._records.paths):
            for key, error, *_ in self._records.plain(path)["tasks"]:
                if not error:
                    self._file[self._index(tuple(key))] = number
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

    def add(self, entries: list[Entry]) -> None:
        """Write a batch of entries."""
        self._records.add(entries)
        number = len(self._records.paths) - 1
        for entry in entries:
            index = self._index(entry.key)
            self._file[index], self._failed[index] = number, bool(entry.error)

    def entries(self, first: int, last: int) -> dict[Key, Entry]:
        """Return the entries of the targets at positions ``first`` to ``last`` − 1."""
        return self._read(self._file[:, first:last], range(first, last))

    def failures(self, most: int) -> dict[Key, Entry]:
        """Return at most ``most`` entries of failed tasks."""
        numbers: NDArray[Any] = self._file[self._failed]
        failures: dict[Key, Entry] = {}
        for number in np.unique(numbers):
            entries = self._read(numbers[numbers == number], range(len(self._users)))
            failures |= {key: entry for key, entry in entries.items() if entry.error}
            if len(failures) >= most:
                break
        return dict(list(failures.items())[:most])

    def _read(self, numbers: NDArray[Any], targets: range) -> dict[Key, Entry]:
        entries = {}
        for number in np.unique(numbers[numbers != _NOWHERE]):
            for entry in self._records.read(self._records.paths[int(number)]):
                index = self._index(entry.key)
                if index[1] in targets and self._file[index] == number:
                    entries[entry.key] = entry
        return entries

    def _index(self, key: Key) -> Index:
        target, period, prior, size = key
        at = int(np.searchsorted(self._users, target))
        try:
            if self._users[at] != target:
                raise KeyError(target)
            return self._periods[period], at, self._priors[prior], self._sizes[size]
        except (KeyError, IndexError):
            raise DamagedError(
                "the journal has entries of tasks that are not in this plan"
            ) from None
