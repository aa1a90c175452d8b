"""Index of the finished tasks of a plan and of their journal files: a few bytes per task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.audit.journal import Entry, Journal
from clusterscale.analyses.audit.plan import AuditPlan
from clusterscale.analyses.audit.targets import Chosen
from clusterscale.analyses.audit.task import AuditTask, Key
from clusterscale.errors import DamagedError

Index = tuple[int, int, int, int]

_NOWHERE = -1


class CompletionIndex:
    """The tasks of a plan, each with the number of the journal file that has its entry.

    Tasks that an earlier run finished are read from the journal; those that failed run again.

    Raises
    ------
    DamagedError
        If a file of the journal cannot be read, or is of other tasks.
    """

    def __init__(self, plan: AuditPlan, chosen: Chosen, journal: Journal) -> None:
        self._users, self._journal = np.asarray(chosen.users, np.int64), journal
        self._periods = {period.id: i for i, period in enumerate(plan.periods)}
        self._priors = {prior.id: i for i, prior in enumerate(plan.priors)}
        self._sizes = {size: i for i, size in enumerate(plan.group_sizes)}
        shape = len(self._periods), len(self._users), len(self._priors), len(self._sizes)
        self._file = np.full(shape, _NOWHERE, np.int32)
        self._failed = np.zeros(shape, np.bool_)
        attacked = np.ones(shape[:2], np.bool_) if chosen.attacked is None else chosen.attacked
        self._planned = np.broadcast_to(attacked[:, :, None, None], shape)
        for number in range(journal.n_files):
            for key, failed in journal.keys(number):
                if not failed:
                    self._file[self._index(key)] = number
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
        """Yield the tasks that have not ended; ``tasks`` are all of the plan, in its order."""
        ended = (self._file != _NOWHERE)[self._planned]
        for task, has_ended in zip(tasks, ended, strict=True):
            if not has_ended:
                yield task

    def add(self, entries: list[Entry]) -> None:
        """Write a batch to the journal."""
        number = self._journal.add(entries)
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
            for entry in self._journal.read(int(number)):
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
