"""Print how far marginals told from a release are from those of the population (POPETS24 §4.3).

Total-variation distance of space and of time, and the mean of visits over the true one, each the
mean over releases of random groups; before any correction, after that of the paper, after matching
what the mechanism publishes on average, and, for cells, with mixed rhythms of the day.

    python tests/nightly/real/marginals.py CUBE --group-size 1000
"""

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[1]))  # both as pytest does
sys.path.append(str(Path(__file__).resolve().parents[2]))

from real.zero_knowledge import laplace, suppress

from clusterscale import mechanisms
from clusterscale.contracts import Mechanism
from clusterscale.cube import TraceCube
from clusterscale.groups import count_visits
from clusterscale.priors.zero_knowledge import SyntheticPopulation, estimate_marginals, triangulate
from clusterscale.priors.zero_knowledge.moment_matching import response_curve
from clusterscale.priors.zero_knowledge.occupancy import mix_rhythms
from clusterscale.seeds import stream

Floats = NDArray[np.float64]
EPSILONS = (0.1, 0.5, 1.0, 5.0, 10.0)
CORRECTIONS = ("none", "paper", "matched")
RANK = 3


class Crowd:
    """The users of a cube, and what is true of them."""

    def __init__(self, cube: TraceCube) -> None:
        self.traces, self.frame = cube.traces(), cube.frame()
        self.graph = triangulate(self.frame)
        self.visits = count_visits(self.traces, np.arange(self.traces.n_users)[None])[0]

    def errors(self, found: SyntheticPopulation) -> tuple[float, float, float, float]:
        """Return the distances of space, time and cells, and the mean over the true one."""
        total, cells = self.visits.sum(), found.space[:, None] * found.time
        pairs = (
            (found.space, self.visits.sum(axis=1)),
            (cells.sum(axis=0), self.visits.sum(axis=0)),
            (cells, self.visits),
        )
        far = [float(np.abs(p - q / total).sum() / 2) for p, q in pairs]
        return *far, found.activity.mean * self.traces.n_users / total

    def judge(self, mechanism: Mechanism, m: int, n: int, seed: int) -> dict[str, Floats]:
        """Return the mean errors of each correction over n releases, float64, shape (4,)."""
        rng, told = stream(seed, "marginals", mechanism.label), dict[str, list[Floats]]()
        for _ in range(n):
            members = np.sort(rng.choice(self.traces.n_users, m, replace=False))
            counts = count_visits(self.traces, members[None])
            release = np.asarray(mechanism.release(counts, group_size=m, rng=rng)[0], float)
            for name in CORRECTIONS:
                found = estimate_marginals(
                    release, m, mechanism, graph=self.graph, correction=name, rng=rng
                )
                told.setdefault(name, []).append(np.array(self.errors(found)))
            undo = response_curve(release, m, mechanism, rng=rng).invert
            mixed = mix_rhythms(release, found, self.frame.days, RANK, undo=undo)
            told.setdefault("mixed", []).append(np.array(self.errors(mixed)))
        return {name: np.mean(errors, axis=0) for name, errors in told.items()}


def settings(delta: float) -> list[Mechanism]:
    """Return the defences of POPETS24."""
    fields = [{"name": "exact"}, *(suppress(k) for k in range(1, 6))]
    fields += [laplace(epsilon, "event", 1.0) for epsilon in EPSILONS]
    fields += [laplace(epsilon, "user_day", delta) for epsilon in EPSILONS]
    noise = (laplace(epsilon, "event", 1.0) for epsilon in (1.0, 10.0))
    fields += [{"name": "chain", "steps": [each, suppress(1)]} for each in noise]
    return [mechanisms.create(**each) for each in fields]


def main(
    cube: Annotated[str, typer.Argument()],
    group_size: int = 1000,
    delta: float = 10,
    releases: int = 10,
    seed: int = 1,
) -> None:
    """Print the table of a cube."""
    crowd = Crowd(TraceCube(cube))
    table = Table("mechanism", box=box.SIMPLE, pad_edge=False)
    for title in ("space", "time", "cells", "mean"):
        table.add_column(f"{title}\nnone   paper  matched{'  mixed' * (title == 'cells')}")
    for mechanism in settings(delta):
        told = crowd.judge(mechanism, group_size, releases, seed)
        lines = []
        for i in range(4):
            names = (*CORRECTIONS, *["mixed"] * (i == 2))
            lines.append("  ".join(f"{told[name][i]:.3f}" for name in names))
        label = mechanism.label.replace(", clip=True, integers='floor'", "")
        table.add_row(label.replace(", sensitivity=1.0", ""), *lines)
    Console(width=150, highlight=False).print(table)


if __name__ == "__main__":
    typer.run(main)
