"""How the time of a task grows with each of its sizes, all others kept.

A task is what an audit does for one target: draw and count, then four classifiers on statistics
and the spectral attack. Users are made up at once: eight places each, visited at any hour.
"""

from dataclasses import dataclass, replace

import numpy as np
from clock import least_of
from ours import CLASSIFIERS, Task
from show import print_table

from clusterscale.contracts import Traces
from clusterscale.cube import with_null_roi
from clusterscale.priors.known_subset import KnownSubset

__all__ = ["made_up", "show_scaling"]

ATTACKS = (*CLASSIFIERS, "spectral")
ALPHA = 0.3
CHALLENGES = 100
N_EPOCHS, N_EVENTS, N_PLACES = 168, 50, 8
REPEATS = 2


@dataclass(frozen=True, slots=True)
class Size:
    """All that a task's time depends on."""

    targets: int = 1
    training: int = 200
    group_size: int = 100
    rois: int = 200
    users: int = 4000


STEPS = {
    "targets": (1, 2, 4, 8),
    "training": (100, 200, 400, 800),
    "group_size": (30, 100, 300, 1000),
    "rois": (50, 100, 200, 400, 800),
    "users": (1000, 2000, 4000, 8000, 16_000),
}
TITLES = {
    "targets": "targets",
    "training": "training groups",
    "group_size": "group size m",
    "rois": "ROIs",
    "users": "users",
}


def show_scaling() -> None:
    """Print seconds at every size, and the exponents that fit them best."""
    rows = []
    for name, values in STEPS.items():
        times = np.array([_time(replace(Size(), **{name: value})) for value in values])
        steps = "  ".join(
            f"{n:,}: {whole:.2f}" for n, (whole, _) in zip(values, times, strict=True)
        )
        fits = (f"{_exponent(values, column):.2f}" for column in times.T)
        rows.append((TITLES[name], steps, *fits))
    base = Size()
    print_table(
        "Scaling: seconds of whole tasks, set-up and five attacks",
        ("varied", "size: seconds", "exponent", "of set-up"),
        rows,
        f"Otherwise {base.targets} target, {base.training} training groups and {CHALLENGES} "
        f"challenges of {base.group_size} members, {base.rois} ROIs with another for nowhere, "
        f"{N_EPOCHS} epochs, {base.users:,} users with {N_EVENTS} events, alpha {ALPHA}. "
        f"Least of {REPEATS} runs; exponents by least squares on logarithms.",
    )


def made_up(n_users: int, n_rois: int, *, seed: int = 0) -> Traces:
    """Return a random crowd; few ROIs are popular and many are not."""
    rng = np.random.default_rng(seed)
    popularity = rng.lognormal(sigma=1.0, size=n_rois)
    places = rng.choice(n_rois, (n_users, N_PLACES), p=popularity / popularity.sum())
    visited = np.take_along_axis(places, rng.integers(N_PLACES, size=(n_users, N_EVENTS)), axis=1)
    cells = np.sort(visited * N_EPOCHS + rng.integers(N_EPOCHS, size=visited.shape), axis=1)
    new = np.diff(cells, axis=1, prepend=-1) > 0
    offsets = np.concatenate([[0], np.cumsum(new.sum(axis=1))]).astype(np.int64)
    return with_null_roi(Traces(offsets, cells[new].astype(np.int32), n_rois, N_EPOCHS))


def _time(size: Size) -> tuple[float, float]:
    """Return the seconds of the whole and of drawing and counting."""
    traces = made_up(size.users, size.rois)
    prior = KnownSubset(alpha=ALPHA, training=size.training, challenges=CHALLENGES)
    tasks = [Task(traces, prior, size.group_size, target) for target in range(size.targets)]
    whole = least_of(lambda: [task.run(ATTACKS) for task in tasks], REPEATS)
    return whole, least_of(lambda: [task.set_up() for task in tasks], REPEATS)


def _exponent(sizes: tuple[int, ...], seconds: np.ndarray) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
