"""Which tasks of a plan are done, and where their outcomes are: a few bytes a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.audit.journal import Entry, Journal
from clusterscale.audit.plan import AuditPlan
from clusterscale.audit.targets import Chosen
from clusterscale.audit.task import AuditTask, Key
from clusterscale.errors import DamagedError

__all__ = ["Done"]

Place = tuple[int, int, int, int]

_NOWHERE = -1


class Done:
    """The tasks of a plan, one number each: the file of the journal that has its entry.

    What an earlier run finished is found in the journal; what failed there is to be tried again.

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
                    self._file[self._place(key)] = number
        self._file[~self._planned] = _NOWHERE

    @property
    def n_tasks(self) -> int:
        """How many tasks there are."""
        return int(self._planned.sum())

    @property
    def n_failed(self) -> int:
        """How many of those that ended have failed."""
        return int(self._failed.sum())

    @property
    def n_done(self) -> int:
        """How many ended well."""
        return int((self._file != _NOWHERE).sum()) - self.n_failed

    def left(self, tasks: Iterable[AuditTask]) -> Iterator[AuditTask]:
        """Yield those of all ``tasks`` of the plan, in its order, that have not ended."""
        ended = (self._file != _NOWHERE)[self._planned]
        for task, known in zip(tasks, ended, strict=True):
            if not known:
                yield task

    def add(self, entries: list[Entry]) -> None:
        """Keep a batch in the journal."""
        number = self._journal.add(entries)
        for entry in entries:
            place = self._place(entry.key)
            self._file[place], self._failed[place] = number, bool(entry.error)

    def entries(self, first: int, last: int) -> dict[Key, Entry]:
        """Return what became of the targets at the places ``first`` up to ``last``."""
        return self._read(self._file[:, first:last], range(first, last))

    def failures(self, most: int) -> dict[Key, Entry]:
        """Return entries of tasks that failed, ``most`` or fewer."""
        numbers: NDArray[Any] = self._file[self._failed]
        found: dict[Key, Entry] = {}
        for number in np.unique(numbers):
            entries = self._read(numbers[numbers == number], range(len(self._users)))
            found |= {key: entry for key, entry in entries.items() if entry.error}
            if len(found) >= most:
                break
        return dict(list(found.items())[:most])

    def _read(self, numbers: NDArray[Any], targets: range) -> dict[Key, Entry]:
        found = {}
        for number in np.unique(numbers[numbers != _NOWHERE]):
            for entry in self._journal.read(int(number)):
                place = self._place(entry.key)
                if place[1] in targets and self._file[place] == number:
                    found[entry.key] = entry
        return found

    def _place(self, key: Key) -> Place:
        target, period, prior, size = key
        at = int(np.searchsorted(self._users, target))
        try:
            if self._users[at] != target:
                raise KeyError(target)
            return self._periods[period], at, self._priors[prior], self._sizes[size]
        except (KeyError, IndexError):
            raise DamagedError(
                "the journal holds entries of tasks that this plan has not"
            ) from None
