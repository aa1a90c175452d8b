"""Plan the memory and predict the cost of a screen: slices of groups, passes of mechanisms."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clusterscale.analyses.screening.base_groups import check_groups
from clusterscale.analyses.screening.evidence_table import table_bytes
from clusterscale.analyses.screening.plan import Screen, ScreenPlan
from clusterscale.contracts import Mechanism
from clusterscale.cube import TraceCube
from clusterscale.cube.attributes import WEIGHTS
from clusterscale.cube.blocks import block_size
from clusterscale.cube.describe import raw_bytes
from clusterscale.errors import ConfigError
from clusterscale.study import PROCESS_BYTES, StudyCost, require_memory
from clusterscale.study.execution import MEMORY

_SERIES_USERS = 32
# Seconds of a processor per gathered term, weighed value, compared pair and read event.
_GATHER, _WEIGH, _COMPARE, _READ = 3.3e-10, 1e-7, 1e-10, 1e-8
_COUNTED = 5 * 3  # bytes per group and cell while counts are added up: two parts and their sum
_CELL = 4 + 4 + 4 + 8 + 8  # bytes per cell: its row, and one group's counts, release and noise


@dataclass(frozen=True, slots=True)
class ScreenResources:
    """Plan of the memory for a setting.

    ``width``: number of groups in one evidence table; ``passes``: mechanisms that share one pass
    over the store.
    """

    width: int
    passes: tuple[tuple[Mechanism, ...], ...]

    @property
    def kept(self) -> int:
        """Number of tables that a worker keeps from one block to the next."""
        return max(map(len, self.passes))


def check(screen: Screen, cube: TraceCube) -> None:
    """Check that a cube supports a screen.

    Parameters
    ----------
    screen, cube
        The screen, and the cube of its users.

    Raises
    ------
    ConfigError
        If a mechanism can use all counts at once, or publishes sums of weights that a cube does not
        have, or of series; the message names the keys.
    PoolError
        If the cube has too few users for the groups.
    """
    faults = [
        f"mechanisms.{i}: {mechanism.name} can use all counts at once (its noise_scope "
        "is release): one more visit can change any published value, so users cannot be scored by "
        "their own cells alone; leave it out of a screen, and audit chosen targets instead"
        for i, mechanism in enumerate(screen.mechanisms)
        if mechanism.noise_scope == "release"
    ]
    faults += [
        f"mechanisms.{i}: {mechanism.label} publishes sums of weights of whole series, which a "
        "screen does not score: leave it out, expand by a number, or audit chosen targets"
        for i, mechanism in enumerate(screen.mechanisms)
        if mechanism.uses_weights and mechanism.noise_scope == "series"
    ]
    faults += [
        f"mechanisms.{i}: {mechanism.label} publishes sums of weights, which the cube does not "
        "have: ingest it with a table of weights, or expand by a number"
        for i, mechanism in enumerate(screen.mechanisms)
        if mechanism.uses_weights and WEIGHTS not in cube.attributes
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
    """Plan to keep as many tables as fit into ``memory`` bytes per worker.

    If a single table does not fit, it is computed for fewer groups at a time and again for each
    block, which costs time and does not change results.

    Parameters
    ----------
    n_rows, n_cells
        Number of cells that any user visits, and of all cells.

    Raises
    ------
    ConfigError
        If the memory is too small for a single group; names the memory needed.
    """
    n_attacks, n_groups = len(plan.attacks), plan.groups
    n_users = min(block_size(cube), cube.n_users)
    block = 3 * cube.cell_bytes * n_users * (cube.n_events // cube.n_users + 1)
    by_series = any(mechanism.noise_scope == "series" for mechanism in mechanisms)
    per_group = table_bytes(n_rows, 1, n_attacks) + 4 * n_cells * by_series
    cells = _CELL * n_cells
    free = memory - PROCESS_BYTES - block - cells
    if per_group * n_groups <= free:
        kept = int(free // (per_group * n_groups))
        parts = range(0, len(mechanisms), kept)
        return ScreenResources(n_groups, tuple(tuple(mechanisms[i : i + kept]) for i in parts))
    sums = 4 * n_users * n_attacks * 2 * n_groups  # kept for the whole block, slice after slice
    width = (free - sums) // per_group
    if width < 1:
        purpose = f"for a block of {n_users:,} users and {n_cells:,} cells"
        require_memory(memory, PROCESS_BYTES + block + cells + sums + per_group, purpose)
    return ScreenResources(int(width), tuple((mechanism,) for mechanism in mechanisms))


def part_size(cube: TraceCube, mechanisms: Iterable[Mechanism]) -> int:
    """Return the number of users in a task and in a chunk of the results.

    This is a block, or fewer if series are published for each user: that takes 0.1 s per user.
    """
    by_series = any(mechanism.noise_scope == "series" for mechanism in mechanisms)
    return min(_SERIES_USERS, block_size(cube)) if by_series else block_size(cube)


def most_rows(cube: TraceCube, n_cells: int, n_epochs: int) -> int:
    """Return how many of ``n_cells`` users of a cube can visit, those of the null ROI included."""
    return min(n_cells, cube.n_events + n_epochs)


def slice_size(memory: int, n_rows: int, n_groups: int) -> int:
    """Return how many groups fit into memory while they are counted in ``n_rows`` cells."""
    return max(1, min(n_groups, (memory - PROCESS_BYTES) // (_COUNTED * n_rows)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenCost(StudyCost):
    """Predicted cost of a screen.

    Attributes
    ----------
    n_rows, n_blocks
        Numbers of results of users, and of blocks of users.
    n_readings
        Passes over the store, for counting and for each pass of mechanisms.
    """

    n_rows: int
    n_blocks: int
    n_readings: int


def predict(
    screen: Screen, cube: TraceCube, memory: int = MEMORY, n_workers: int = 1
) -> ScreenCost:
    """Predict the cost of a screen without running it.

    Parameters
    ----------
    screen, cube
        The screen, and the cube of its users.
    memory
        Bytes that a worker may use.
    n_workers
        Number of workers; blocks of users limit how many work at a time.

    Returns
    -------
    ScreenCost
        Rows, blocks, bytes and seconds.

    Raises
    ------
    ConfigError, PoolError
        If the cube does not support the screen, or the memory is too small.
    """
    check(screen, cube)
    size, n_groups, n_attacks = block_size(cube), screen.plan.groups, len(screen.plan.attacks)
    n_blocks = -(-cube.n_users // size)
    turns = -(-n_blocks // n_workers)
    n_readings, worker_bytes, total, wall = 0, 0, 0.0, 0.0
    for setting, mechanisms in screen.settings():
        n_epochs = setting.span[1] - setting.span[0]
        n_cells = (cube.n_rois + screen.null_roi) * n_epochs
        n_rows = most_rows(cube, n_cells, n_epochs)
        resources = plan_screen_resources(
            memory, cube, screen.plan, mechanisms, n_rows=n_rows, n_cells=n_cells
        )
        n_readings += 1 + len(resources.passes)
        table = table_bytes(n_rows, resources.width, n_attacks)
        worker_bytes = max(worker_bytes, PROCESS_BYTES + _CELL * n_cells + resources.kept * table)
        events = cube.n_events * n_epochs / cube.n_epochs
        events += cube.n_users * n_epochs * 0.8 * screen.null_roi
        scoring = events * 2 * n_attacks * n_groups * _GATHER
        scoring += cube.n_users * n_attacks * n_groups**2 * _COMPARE
        reading = cube.n_events * _READ * (1 + len(resources.passes))
        by_user = scoring * len(mechanisms) + reading
        tabulating = n_cells * n_groups * _WEIGH * len(mechanisms)
        # a table that does not fit at once is recomputed for every block
        n_repeats = turns if resources.width < n_groups else 1
        total += by_user + tabulating * min(n_blocks, n_workers * n_repeats)
        wall += by_user * turns / n_blocks + tabulating * n_repeats
    n_cases = len(screen.mechanisms) * len(screen.periods) * len(screen.group_sizes)
    return ScreenCost(
        n_rows=cube.n_users * n_cases,
        n_blocks=n_blocks,
        n_readings=n_readings,
        store_bytes=raw_bytes(cube),
        worker_bytes=worker_bytes,
        core_seconds=total,
        seconds=wall,
    )
