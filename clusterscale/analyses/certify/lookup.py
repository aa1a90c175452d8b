"""Visits and ceilings in files, and the certificates of users by looking them up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.analyses.certify.tasks import Ceilings, SettingVisits
from clusterscale.analyses.certify.visits import cells_of
from clusterscale.contracts import Bounds, Ints
from clusterscale.storage.records import Parts, Records

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Found = tuple[Ints, list[list[Singles]]]


def visits_in(uri: str) -> Records[tuple[int, list[SettingVisits]]]:
    """Return the visits that are kept in a folder, a file per block, with its first user."""
    return Records(uri, _encode_visits, _decode_visits)


def _encode_visits(block: tuple[int, list[SettingVisits]]) -> Parts:
    start, visits = block
    arrays = {f"keys_{i}": one.keys for i, one in enumerate(visits)}
    return [start, [[asdict(bounds) for bounds in one.bounds] for one in visits]], arrays


def _decode_visits(
    plain: Any, arrays: Mapping[str, NDArray[Any]]
) -> tuple[int, list[SettingVisits]]:
    start, limits = plain
    return start, [
        SettingVisits(arrays[f"keys_{i}"], tuple(Bounds(**fields) for fields in some))
        for i, some in enumerate(limits)
    ]


def ceilings_in(uri: str) -> Records[tuple[str, Ceilings]]:
    """Return the ceilings that are kept in a folder, a file per task, with its name."""
    return Records(
        uri,
        lambda pair: ([pair[0], asdict(pair[1])], {}),
        lambda plain, _: (plain[0], Ceilings(**plain[1])),
    )


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
    _, visits = visits_in(_folder(task.visits)).read(task.visits)
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
    parts = [ceilings_in(_folder(uri)).read(uri)[1] for uri in files]
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
