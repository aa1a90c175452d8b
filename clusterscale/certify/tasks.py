"""Tasks of certificates: count the visits of users, compute ceilings, and look them up."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from clusterscale import storage
from clusterscale.certify.ceiling import Ceiling, against, ceiling
from clusterscale.certify.plan import Setting
from clusterscale.certify.visits import Substitutes, cells_of, needs_series, pack, unpack, visits_of
from clusterscale.contracts import Bounds, Ints, Mechanism
from clusterscale.cube.blocks import Source, read_block
from clusterscale.cube.bounds import merge_bounds
from clusterscale.storage.manifest import from_sealed

__all__ = ["CeilingTask", "Ceilings", "Found", "LookupTask", "SettingVisits", "VisitsSummary"]
__all__ += ["VisitsTask", "compute_ceilings", "count_visits", "from_bytes", "look_up", "to_bytes"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
_CERTAIN = 1 - 1e-9  # an AUC above this is stated as 1

Found = tuple[Ints, list[list[Singles]]]


@dataclass(frozen=True, slots=True)
class VisitsTask:
    """A block of users, whose visits are counted for each setting."""

    source: Source
    settings: tuple[Setting, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class SettingVisits:
    """Visits of some users in a setting.

    Attributes
    ----------
    keys
        int64, shape (neighbours, user), as :func:`~clusterscale.certify.visits.pack` makes them:
        of users who are added, and of users who are replaced by somebody idle; one row if both
        are the same.
    bounds
        Limits of what one of them changes in each release.
    """

    keys: NDArray[np.int64]
    bounds: tuple[Bounds, ...]


def count_visits(task: VisitsTask) -> list[SettingVisits]:
    """Count the visits of the users of a block, for each setting."""
    settings = task.settings
    windows = list(dict.fromkeys((span, one.steps) for one in settings for span in one.spans))
    blocks = dict(
        zip(windows, read_block(task.source, windows, task.start, task.stop), strict=True)
    )
    visits = {window: visits_of(block.traces) for window, block in blocks.items()}
    found = []
    for setting in settings:
        own = [(span, setting.steps) for span in setting.spans]
        ways = [
            pack(_together([visits[window][way] for window in own]), series=setting.series)
            for way in range(1 + task.source.null_roi)
        ]
        bounds = tuple(blocks[window].bounds for window in own)
        found.append(SettingVisits(np.stack(ways), bounds))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class VisitsSummary:
    """Number of users by key, of those added and those replaced, and limits in each release."""

    added: Counter[int]
    replaced: Counter[int]
    bounds: tuple[Bounds, ...]

    @classmethod
    def of(cls, visits: SettingVisits) -> VisitsSummary:
        """Return the summary of some users."""
        counters = [_count(keys) for keys in visits.keys]
        return cls(counters[0], counters[-1], visits.bounds)

    def plus(self, other: VisitsSummary) -> VisitsSummary:
        """Return the summary of these and other users."""
        bounds = tuple(map(merge_bounds, self.bounds, other.bounds))
        return VisitsSummary(self.added + other.added, self.replaced + other.replaced, bounds)

    @property
    def least_bounds(self) -> Bounds:
        """The smallest limits of any release: noise that is scaled to them is the smallest."""
        fields = ("event", "user_day", "user", "series", "rois")
        least = {name: min(getattr(one, name) for one in self.bounds) for name in fields}
        return replace(self.bounds[0], **least)


def _count(keys: Ints) -> Counter[int]:
    values, counts = np.unique(keys, return_counts=True)
    return Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))


def to_bytes(visits: Sequence[SettingVisits]) -> bytes:
    """Return visits as the content of a file; :func:`from_bytes` reads it."""
    content = io.BytesIO()
    arrays = {f"keys_{i}": one.keys for i, one in enumerate(visits)}
    limits = [[asdict(bounds) for bounds in one.bounds] for one in visits]
    arrays["bounds"] = np.frombuffer(json.dumps(limits).encode(), np.uint8)
    np.savez(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def from_bytes(content: bytes) -> list[SettingVisits]:
    """Return the visits of a file."""
    with np.load(io.BytesIO(content)) as arrays:
        limits = json.loads(arrays["bounds"].tobytes())
        return [
            SettingVisits(arrays[f"keys_{i}"], tuple(Bounds(**fields) for fields in some))
            for i, some in enumerate(limits)
        ]


def _together(visits: Sequence[Ints]) -> Ints:
    """Return the visits of several releases together."""
    if len(visits) == 1:
        return visits[0]
    total = np.sum(visits, axis=0)
    total[:, 2] = np.max(visits, axis=0)[:, 2]
    return np.asarray(total)


@dataclass(frozen=True, slots=True)
class CeilingTask:
    """Ceilings of a bound mechanism for some visits and all group sizes.

    ``name``: of the file of the results; ``added`` and ``replaced``: keys of visits.
    """

    name: str
    mechanism: Mechanism
    group_sizes: tuple[int, ...]
    added: tuple[int, ...]
    replaced: tuple[int, ...]
    substitutes: Substitutes
    rates: tuple[float, ...]


Numbers = dict[str, list[float]]  # AUC, accuracy and true positive rates, by the key of visits


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Ceilings of some visits, by group size.

    ``tight`` and ``reason`` are those of the most visits of users who are added; ``reason`` is
    empty if there are none.
    """

    added: list[Numbers]
    replaced: list[Numbers]
    tight: list[bool]
    reason: list[str]


def compute_ceilings(task: CeilingTask) -> Ceilings:
    """Return the ceilings of a task; a pure function of it."""
    last: dict[int, Ceiling] = {}

    def add(key: int, size: int) -> Ceiling:
        last[size] = ceiling(task.mechanism, n_changed=unpack(key), group_size=size)
        return last[size]

    def replace_by(key: int, size: int) -> Ceiling:
        return against(task.mechanism, unpack(key), task.substitutes, group_size=size)

    with threadpool_limits(limits=1):
        added = _tabulate(task, task.added, add)
        replaced = _tabulate(task, task.replaced, replace_by)
    return Ceilings(
        added,
        replaced,
        tight=[size in last and last[size].tight for size in task.group_sizes],
        reason=[last[size].reason if size in last else "" for size in task.group_sizes],
    )


def _tabulate(
    task: CeilingTask, keys: Sequence[int], find: Callable[[int, int], Ceiling]
) -> list[Numbers]:
    """Return the numbers of each key; 1 where fewer visits already give a person away."""
    tables: list[Numbers] = [{} for _ in task.group_sizes]
    certain = [1.0] * (2 + len(task.rates))
    by_cells = not needs_series(task.mechanism)  # then keys with more cells reveal no less
    for key in keys:
        for numbers, size in zip(tables, task.group_sizes, strict=True):
            before = next(reversed(numbers.values()), None)
            if by_cells and before is not None and before[0] > _CERTAIN:
                numbers[str(key)] = certain
                continue
            one = find(key, size)
            numbers[str(key)] = [one.auc, one.accuracy, *(one.tpr(rate) for rate in task.rates)]
    return tables


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
    visits = from_bytes(storage.read(task.visits))
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
    contents = [from_sealed(storage.read(uri)) for uri in files]
    return [
        [_sorted([content[way][i] for content in contents]) for way in ("added", "replaced")]
        for i in range(len(contents[0]["added"]))
    ]


def _sorted(parts: Sequence[Mapping[str, list[float]]]) -> tuple[Ints, Singles]:
    rows = sorted((int(key), numbers) for part in parts for key, numbers in part.items())
    keys = np.array([key for key, _ in rows], np.int64)
    values = np.array([numbers for _, numbers in rows], np.float64).reshape(len(rows), -1)
    return keys, _up(values)


def _up(values: Floats) -> Singles:
    """Return values as float32 that are not below them."""
    singles = values.astype(np.float32)
    return np.where(singles < values, np.nextafter(singles, np.float32(2)), singles)
