"""Visits and ceilings in files, and the certificates of users by looking them up."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.certify.tasks import Ceilings, SettingVisits
from clusterscale.analyses.certify.visits import cells_of
from clusterscale.contracts import Bounds, Ints
from clusterscale.study import JournalFolder

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Found = tuple[Ints, list[list[Singles]]]


class VisitsJournal(JournalFolder):
    """Visits of blocks of users, a file each, until they are looked up."""

    ending: ClassVar[str] = "npz"

    def keep(self, start: int, visits: Sequence[SettingVisits]) -> str:
        """Write the visits of the block that starts with a user, and return the file."""
        content = io.BytesIO()
        arrays = {f"keys_{i}": one.keys for i, one in enumerate(visits)}
        about = [start, [[asdict(bounds) for bounds in one.bounds] for one in visits]]
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        np.savez(content, **arrays)  # type: ignore[arg-type]
        return self.put(content.getvalue())

    def read(self, path: str) -> tuple[int, list[SettingVisits]]:
        """Return the first user of a block, and its visits.

        Raises
        ------
        DamagedError
            If the file is not what was written.
        """
        return self.decode(path, _from_bytes)


def _from_bytes(content: bytes) -> tuple[int, list[SettingVisits]]:
    with np.load(io.BytesIO(content)) as arrays:
        start, limits = json.loads(arrays["about"].tobytes())
        return start, [
            SettingVisits(arrays[f"keys_{i}"], tuple(Bounds(**fields) for fields in some))
            for i, some in enumerate(limits)
        ]


class CeilingJournal(JournalFolder):
    """Ceilings of finished tasks, a file each, until the users are looked up."""

    ending: ClassVar[str] = "json"

    def keep(self, name: str, ceilings: Ceilings) -> str:
        """Write the ceilings of the task of that name, and return the file."""
        return self.put(json.dumps([name, asdict(ceilings)]).encode())

    def read(self, path: str) -> tuple[str, Ceilings]:
        """Return the name of a task, and its ceilings.

        Raises
        ------
        DamagedError
            If the file is not what was written.
        """
        name, fields = self.decode(path, json.loads)
        return name, Ceilings(**fields)


@dataclass(frozen=True, slots=True)
class LookupTask:
    """A block of users: the file of their visits, and those of the ceilings.

    ``ceilings``: shape (setting, mechanism of the setting), the URIs of parts of a table.
    """

    start: int
    visits: str
    ceilings: tuple[tuple[tuple[str, ...], ...], ...]


def look_up(task: LookupTask) -> list[Found]:
    """Return numbers of changed counts and ceilings of the users of a block, by setting.

    Returns
    -------
    list
        For each setting: int64, shape (user,), and for each mechanism and size float32, shape
        (neighbours, statistic, user).
    """
    found: list[Found] = []
    _, visits = VisitsJournal(_folder(task.visits)).read(task.visits)
    for one, by_mechanism in zip(visits, task.ceilings, strict=True):
        keys = one.keys[0], one.keys[-1]
        rows = [[_select(table, keys) for table in _tables(files)] for files in by_mechanism]
        found.append((cells_of(keys[0]), rows))
    return found


def _select(tables: Sequence[tuple[Ints, Singles]], keys: Sequence[Ints]) -> Singles:
    parts = (
        values[np.searchsorted(known, own)]
        for (known, values), own in zip(tables, keys, strict=True)
    )
    return np.stack([part.T for part in parts])


@lru_cache(maxsize=64)
def _tables(files: tuple[str, ...]) -> list[list[tuple[Ints, Singles]]]:
    """Return keys, increasing, and float32 (key, statistic), by size and kind of neighbours."""
    parts = [CeilingJournal(_folder(uri)).read(uri)[1] for uri in files]
    return [
        [_sorted([part.added[i] for part in parts]), _sorted([part.replaced[i] for part in parts])]
        for i in range(len(parts[0].added))
    ]


def _folder(uri: str) -> str:
    return uri.rpartition("/")[0]


def _sorted(parts: Sequence[Mapping[str, list[float]]]) -> tuple[Ints, Singles]:
    rows = sorted((int(key), numbers) for part in parts for key, numbers in part.items())
    keys = np.array([key for key, _ in rows], np.int64)
    values = np.array([numbers for _, numbers in rows], np.float64).reshape(len(rows), -1)
    return keys, _up(values)


def _up(values: Floats) -> Singles:
    """Return values as float32 that are not below them."""
    singles = values.astype(np.float32)
    return np.where(singles < values, np.nextafter(singles, np.float32(2)), singles)
