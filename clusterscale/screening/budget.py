"""How to stay within a worker's memory: groups by the slice, mechanisms by the pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clusterscale.contracts import MEMORY, Mechanism
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import block_size
from clusterscale.errors import ConfigError
from clusterscale.screening.counting import check_groups
from clusterscale.screening.evidence_table import table_bytes
from clusterscale.screening.plan import Screen, ScreenPlan

__all__ = ["ScreenCost", "ScreenResources"]
__all__ += ["check", "part_size", "plan_screen_resources", "predict", "slice_size"]

_SERIES_USERS = 32
_PROCESS = 350 * 10**6  # the interpreter and its libraries
# Seconds a processor of 2020 takes for a term, a weighed value, a compared pair, an event.
_GATHER, _WEIGH, _COMPARE, _READ = 4e-10, 1.2e-7, 1.2e-10, 1e-8
_COUNTED = 5 * 3  # bytes a group and cell while counts are added up: two parts and their sum


@dataclass(frozen=True, slots=True)
class ScreenResources:
    """How a setting's mechanisms are screened.

    ``width``: groups whose table is made at once; ``passes``: mechanisms that share one reading
    of the store.
    """

    width: int
    passes: tuple[tuple[Mechanism, ...], ...]

    @property
    def kept(self) -> int:
        """Tables that a worker keeps from one block to the next."""
        return max(map(len, self.passes))


def check(screen: Screen, cube: TraceCube) -> None:
    """Raise :class:`ConfigError`, naming the keys, if a screen cannot be made of ``cube``."""
    faults = [
        f"mechanisms.{i}: {mechanism.name} looks at all counts at once: one more visit can change "
        "what is published anywhere, so nobody can be scored by their own cells alone; leave it "
        "out of a screen, and audit chosen targets instead"
        for i, mechanism in enumerate(screen.mechanisms)
        if mechanism.reach == "release"
    ]
    for size in screen.group_sizes:
        check_groups(cube.n_users, size, screen.plan.groups)
    if faults:
        raise ConfigError("\n".join(faults))


def plan_screen_resources(
    memory: int,
    cube: TraceCube,
    plan: ScreenPlan,
    mechanisms: Sequence[Mechanism],
    *,
    n_rows: int,
    n_cells: int,
) -> ScreenResources:
    """Keep as many tables as fit into ``memory`` bytes a worker.

    Where even one does not, it is made for fewer groups at a time, and anew for each block, which
    costs time and changes no result.

    Parameters
    ----------
    n_rows, n_cells
        Cells where anybody was, and all.

    Raises
    ------
    ConfigError
        If there is not enough for a single group, with the memory that would be.
    """
    n_attacks, n_groups = len(plan.attacks), plan.groups
    n_users = min(block_size(cube), cube.n_users)
    block = 3 * cube.cell_bytes * n_users * (cube.n_events // cube.n_users + 1)
    by_series = any(mechanism.reach == "series" for mechanism in mechanisms)
    each = table_bytes(n_rows, n_cells, 1, n_attacks) + 4 * n_cells * by_series
    free = memory - _PROCESS - block
    if each * n_groups <= free:
        kept = int(free // (each * n_groups))
        parts = range(0, len(mechanisms), kept)
        return ScreenResources(n_groups, tuple(tuple(mechanisms[i : i + kept]) for i in parts))
    sums = 4 * n_users * n_attacks * 2 * n_groups  # kept for the whole block, slice after slice
    width = (free - sums) // each
    if width < 1:
        raise ConfigError(
            f"memory: {memory:,} bytes a worker are too few for a block of {n_users:,} users and "
            f"{n_cells:,} cells; give {_PROCESS + block + sums + each:,} or more with `memory`"
        )
    return ScreenResources(int(width), tuple((mechanism,) for mechanism in mechanisms))


def part_size(cube: TraceCube, mechanisms: Iterable[Mechanism]) -> int:
    """Return how many users a task scores, and a chunk of the results holds.

    A block, unless series must be published for each user: that takes a tenth of a second each.
    """
    by_series = any(mechanism.reach == "series" for mechanism in mechanisms)
    return min(_SERIES_USERS, block_size(cube)) if by_series else block_size(cube)


def slice_size(memory: int, n_cells: int, n_groups: int) -> int:
    """Return how many groups can be counted at once."""
    return max(1, min(n_groups, (memory - _PROCESS) // (_COUNTED * n_cells)))


@dataclass(frozen=True, slots=True)
class ScreenCost:
    """What a screen will take.

    ``n_readings``: times the store is read, for counting and for each pass of mechanisms;
    ``worker_bytes``: the most that a worker uses; ``core_seconds``: the time of one processor, and
    ``seconds``: that of the whole cluster, told from rates of a common processor, if events are
    spread evenly over time.
    """

    n_users: int
    n_rows: int
    n_blocks: int
    n_readings: int
    store_bytes: int
    worker_bytes: int
    core_seconds: float
    seconds: float


def predict(
    screen: Screen, cube: TraceCube, memory: int = MEMORY, n_workers: int = 1
) -> ScreenCost:
    """Predict what a screen costs, without running anything.

    Parameters
    ----------
    screen, cube
        What to ask, and of whom.
    memory
        Bytes that a worker may use.
    n_workers
        How many there are; no more work at a time than there are blocks of users.

    Raises
    ------
    ConfigError, PoolError
        If the cube cannot answer, or memory is too short.
    """
    check(screen, cube)
    size, n_groups, n_attacks = block_size(cube), screen.plan.groups, len(screen.plan.attacks)
    n_blocks = -(-cube.n_users // size)
    turns = -(-n_blocks // n_workers)
    n_readings, worker_bytes, total, wall = 0, 0, 0.0, 0.0
    for setting, mechanisms in screen.settings():
        n_epochs = setting.span[1] - setting.span[0]
        n_cells = (cube.n_rois + screen.null_roi) * n_epochs
        found = plan_screen_resources(
            memory, cube, screen.plan, mechanisms, n_rows=n_cells, n_cells=n_cells
        )
        n_readings += 1 + len(found.passes)
        table = table_bytes(n_cells, n_cells, found.width, n_attacks)
        worker_bytes = max(worker_bytes, _PROCESS + found.kept * table)
        events = cube.n_events * n_epochs / cube.n_epochs
        events += cube.n_users * n_epochs * 0.8 * screen.null_roi
        one = events * 2 * n_attacks * n_groups * _GATHER
        one += cube.n_users * n_attacks * n_groups**2 * _COMPARE
        by_user = one * len(mechanisms) + cube.n_events * _READ * (1 + len(found.passes))
        tabulating = n_cells * n_groups * _WEIGH * len(mechanisms)
        # what does not fit at once is made anew for every block
        a_worker = turns if found.width < n_groups else 1
        total += by_user + tabulating * min(n_blocks, n_workers * a_worker)
        wall += by_user * turns / n_blocks + tabulating * a_worker
    n_rows = cube.n_users * len(screen.mechanisms)
    n_rows *= len(screen.periods) * len(screen.group_sizes)
    store = cube.n_events * cube.cell_bytes + (cube.n_users + 1) * 8
    return ScreenCost(cube.n_users, n_rows, n_blocks, n_readings, store, worker_bytes, total, wall)
