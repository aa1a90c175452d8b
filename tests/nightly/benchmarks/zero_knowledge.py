"""What the zero-knowledge adversary costs: a release studied anew, and a target studied once.

    PYTHONPATH=tests python tests/nightly/benchmarks/zero_knowledge.py FOLDER

Synthetic users of the presets milan (100 ROIs x 168 hours) and cdr (500 x 720) are made in FOLDER
where they are not there yet, outside the time. The first table is processor seconds of one thread
for one challenge's release: 5,000 made-up users, 400 + 100 groups of 1,000, ``cells`` trained and
asked. The second is wall-clock seconds a target of an audit on two workers, 100 challenges, all
that an audit does but controls. Options make everything smaller.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from running import run
from show import sum_up
from threadpoolctl import threadpool_limits

import clusterscale as cs
from clusterscale import attacks, mechanisms
from clusterscale.analyses.audit import AuditPlan
from clusterscale.contracts import GroupRequest, Mechanism, publish
from clusterscale.cube import TraceCube
from clusterscale.cube.synthetic import synthesise
from clusterscale.priors.zero_knowledge import ZeroKnowledge
from clusterscale.priors.zero_knowledge.synthesis import synthetic_traces
from clusterscale.seeds import stream

LAPLACE = {"name": "laplace", "clip": True, "integers": "floor"}
SETTINGS: list[dict[str, object]] = [
    {"name": "exact"},
    {"name": "suppress_small", "up_to": 1},
    LAPLACE | {"epsilon": 1.0, "unit": "event", "sensitivity": 1.0},
    LAPLACE | {"epsilon": 10.0, "unit": "user_day", "sensitivity": 10.0},
    LAPLACE | {"epsilon": 1.0, "unit": "user_day", "sensitivity": 10.0},
]


def cube_of(preset: str, folder: Path, users: int | None) -> TraceCube:
    """Return users of a preset; by default as many as are published."""
    path = folder / f"{preset}{users or ''}.zarr"
    if not path.exists():
        synthesise(preset, str(path), users=users, seed=0)
    return TraceCube(str(path))


def study(
    cube: TraceCube, mechanism: Mechanism, target: int, correction: str, group_size: int
) -> Iterator[tuple[str, float]]:
    """Yield the parts of one release and their processor seconds."""
    prior = ZeroKnowledge(challenges=4, correction=correction)
    game = prior.set_up(
        GroupRequest(
            cube.traces(),
            target,
            frame=cube.frame(),
            group_size=group_size,
            validate=True,
            rng=stream(0, "groups", target),
        )
    )
    noise = stream(0, "noise", target)
    release = publish(game.challenge.counts[:1], mechanism, group_size=group_size, rng=noise)
    forger, rng = game.adversary, stream(0, "study", target)
    start = time.process_time()
    population = forger.estimate(release, mechanism, forger.graph, rng=rng)
    yield "marginals", time.process_time() - start
    start = time.process_time()
    synthetic_traces(prior.reference, population, forger.graph, rng=rng)
    yield "users", time.process_time() - start
    start = time.process_time()
    knowledge = forger.study(release, mechanism, rng=rng)
    yield "study", time.process_time() - start
    start = time.process_time()
    attacks.create("cells").fit(knowledge, rng=rng).score(release)
    yield "cells", time.process_time() - start


def tell_releases(cube: TraceCube, targets: list[int], group_size: int) -> float:
    """Print seconds a release and return those of the last.

    ``study`` has marginals and users in it.
    """
    for fields in SETTINGS:
        mechanism = mechanisms.create(**fields)
        for correction in ("paper", "matched"):
            parts: dict[str, list[float]] = {}
            for target in targets:
                for name, seconds in study(cube, mechanism, target, correction, group_size):
                    parts.setdefault(name, []).append(seconds)
            told = "  ".join(f"{name} {np.median(each):5.2f}" for name, each in parts.items())
            whole = np.add(parts["study"], parts["cells"])
            label = mechanism.label.replace(", clip=True, integers='floor'", "")
            print(f"{label:52s} {correction:8s} {told}  whole {whole.mean():5.2f}", flush=True)
    return float(whole.mean())


def tell_target(
    cube: TraceCube, folder: Path, n_targets: int, group_size: int, challenges: int
) -> float:
    """Print seconds a target of an audit; return those of the last."""
    for fields in SETTINGS:
        plan = AuditPlan(
            seed=1,
            null_roi=False,
            control=False,
            targets={"random": n_targets},
            periods=[{"name": "all", "first": 0, "epochs": cube.n_epochs}],
            priors=[{"name": "zero_knowledge", "refit": "shared", "challenges": challenges}],
            group_sizes=[group_size],
            mechanisms=[fields],
            attacks=[{"name": "cells"}],
        )
        output = folder / f"audited-{time.time_ns()}"
        with cs.Local(workers=2).open() as executor:
            start = time.perf_counter()
            run(plan, cube, output, executor, memory=8 * 10**9)
            seconds = (time.perf_counter() - start) / n_targets
        print(f"{plan.mechanisms[0].label[:60]:60s} {seconds:5.1f} s a target", flush=True)
    return seconds


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--targets", type=int, default=4)
    parser.add_argument("--users", type=int, help="of each preset; by default as published")
    parser.add_argument("--group-size", type=int, default=1000)
    parser.add_argument("--challenges", type=int, default=100)
    options = parser.parse_args()
    folder, size = options.folder, options.group_size
    milan, cdr = (cube_of(preset, folder, options.users) for preset in ("milan", "cdr"))
    print("processor seconds a release, 100 ROIs x 168 hours")
    active = np.flatnonzero(np.diff(milan.offsets) >= 10)
    chosen = stream(0, "targets").choice(active, options.targets, replace=False)
    with threadpool_limits(1):  # as workers have it
        release = tell_releases(milan, [int(user) for user in chosen], size)
    print("seconds a target on two workers, 500 ROIs x 720 hours, studied once")
    target = tell_target(cdr, folder, options.targets, size, options.challenges)
    sum_up("zero_knowledge", f"{release:.2f} s a release", f"{target:.1f} s a target")


if __name__ == "__main__":
    main()
