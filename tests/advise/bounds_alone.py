"""A goal of bounds alone, drawn at random, and attacks on all candidates that keep the bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from conftest import write_cube
from running import advise, run

from clusterscale.analyses.advise import Advice, AdvicePlan
from clusterscale.analyses.advise.exposure import read_attacked
from clusterscale.analyses.audit import AuditPlan
from clusterscale.runtime import SerialExecutor
from clusterscale.testing.population import draw_dense

LAPLACE = {"name": "laplace", "unit": "event", "clip": True, "discrete": True}
METHODS: list[dict[str, Any]] = [
    *({**LAPLACE, "epsilon": epsilon} for epsilon in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)),
    *({"name": "threshold", "k": k} for k in (2, 3, 4)),
    *({"name": "round_to_base", "base": base} for base in (2, 3, 5)),
    *({"name": "fixed_ranges", "size": size} for size in (2, 3)),
    {"name": "cell_key", "deviation": 3, "variance": 2.0},
    {"name": "suppress_unpopular", "fraction": 0.3},
]
BOUNDS = (("hotspot_f1", 0.3, 0.7), ("events_kept", 0.3, 0.9), ("jensen_shannon", 0.3, 0.1))


def draw(number: int) -> tuple[Advice, np.random.Generator]:
    """Return the advice of a goal, and what its people are drawn from."""
    rng = np.random.default_rng(number)
    chosen = rng.choice(len(METHODS), int(rng.integers(6, 15)), replace=False)
    goal = []
    for i in rng.choice(len(BOUNDS), int(rng.integers(1, 3)), replace=False):
        name, easy, hard = BOUNDS[i]
        goal.append({"measure": {"name": name}, "bound": easy + rng.random() * (hard - easy)})
    plan = {
        "goal": goal,
        "families": [{"mechanism": METHODS[i]} for i in chosen[1:]],
        "finalists": int(rng.integers(1, 5)),
        "search_targets": 6,
        "confirm_targets": 4,
    }
    audit = {
        "seed": number,
        "null_roi": False,
        "periods": [{"name": "all", "first": 0, "epochs": 24}],
        "targets": {"random": 6},
        "priors": [{"name": "known_subset", "alpha": 0.5, "training": 40, "challenges": 60}],
        "group_sizes": [12],
        "mechanisms": [METHODS[chosen[0]]],
        "attacks": [{"name": "projection"}, {"name": "likelihood"}],
        "screen": {"groups": 40},
        "control": False,
        "verdict": {"trials": 40},
    }
    validate: Any = {"strict": False}
    known = AdvicePlan.model_validate(plan, **validate), AuditPlan.model_validate(audit, **validate)
    return Advice(*known), rng


def compare(number: int, folder: Path) -> tuple[str, float, int, int]:
    """Return who is advised, how much less exposed the best is, and of how many, and attacked.

    The best is among those which groups as many as those of the confirmation show to keep bounds.
    """
    advice, rng = draw(number)
    cube = write_cube(str(folder / "cube.zarr"), draw_dense(rng, 80, 6, 24))
    found = advise(advice, cube, str(folder / "advice"), SerialExecutor()).load()
    users = advice.split(cube, cube).search[: advice.plan.search_targets]
    plan = advice.attacking(advice.candidates, users)
    plan = plan.model_copy(update={"utility": advice.measuring((), 200).utility})
    every = run(plan, cube, str(folder / "all"), SerialExecutor()).load()
    aucs = {key: read_attacked(every, key).mean for key in every.mechanism.values.tolist()}
    keeping = set(aucs)
    for aim in advice.plan.goal:
        of_groups = every.sel(measure=aim.measure.id).squeeze(("period", "group_size"))
        reach = 2 * of_groups.utility_sd / advice.plan.confirm_groups**0.5
        sign = 1 if aim.is_loss else -1
        keeps = sign * of_groups.utility + reach <= sign * aim.bound
        keeping &= set(every.mechanism.values[keeps.values].tolist())
    known = keeping & set(found.mechanism.values[found.reached != "listed"].tolist())
    best = min((aucs[key] for key in known), default=np.nan)
    name = str(found.attrs["advised"])
    return name, aucs.get(name, np.nan) - best, len(known), int(found.attrs["n_attacked"])
