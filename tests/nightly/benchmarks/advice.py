"""Advice on the San Francisco cabs against a brute-force search of 200 mechanisms.

Every one of 200 mechanisms is attacked and its utility measured on many groups. The optimum is the
mechanism with the highest score among those whose mean AUC is shown to keep the limit. The adviser
searches the same mechanisms; the script prints what its advice is worth, how many pairs of target
and mechanism both attacked, and the seconds of that. Before any of it, a small audit makes
the workers import what attacks need.

    python tests/nightly/benchmarks/advice.py CUBE FOLDER [--targets 24] [--workers 2]
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from contextlib import suppress
from typing import Any

import numpy as np
from show import sum_up

from clusterscale import runtime, study
from clusterscale.analyses.advise import Advice, AdvicePlan, AdviseAnalysis
from clusterscale.analyses.advise.exposure import read_attacked
from clusterscale.analyses.advise.goal import UNITS, score_utility
from clusterscale.analyses.audit import AuditAnalysis, AuditPlan, open_results
from clusterscale.cube import TraceCube

WHOLE = {"clip": True, "integers": "round"}
CAP = {"name": "cap_contributions", "per_day": 4}
LAPLACE = {"name": "laplace", "epsilon": 1.0, **WHOLE}


def spaced(least: float, most: float, n: int) -> dict[str, float]:
    return {"least": least, "most": most, "n": n}


FAMILIES: list[dict[str, Any]] = [
    {"mechanism": {"name": "threshold", "k": 5}, "over": {"k": (3, 5, 7, 10, 15, 20)}},
    {
        "mechanism": {"name": "round_to_base"},
        "over": {"base": (3, 5, 10, 20), "rule": ("random", "nearest")},
    },
    {"mechanism": {"name": "cell_key", "deviation": 5}, "over": {"variance": (1.0, 2.0, 3.0)}},
    {"mechanism": {"name": "fixed_ranges"}, "over": {"size": (5, 10, 20)}},
    {"mechanism": {"name": "coarsen_space"}, "over": {"factor": (2, 4)}},
    {"mechanism": {"name": "coarsen_time"}, "over": {"factor": (2, 4)}},
    {
        "mechanism": {"name": "laplace", "unit": "event", "clip": True, "discrete": True},
        "over": {"epsilon": spaced(0.02, 5.0, 31)},
    },
    {"mechanism": {**LAPLACE, "unit": "user_day"}, "over": {"epsilon": spaced(0.1, 100.0, 20)}},
    {
        "mechanism": {"name": "gaussian", "delta": 1e-5, **WHOLE},
        "over": {"epsilon": spaced(0.5, 200.0, 20)},
    },
    {
        "mechanism": {"name": "fourier", **WHOLE},
        "over": {"epsilon": spaced(0.2, 10.0, 12), "coefficients": (10, 20)},
    },
    {
        "mechanism": {"name": "chain", "steps": [CAP, {**LAPLACE, "unit": "user_day"}]},
        "over": {"steps.0.per_day": (2, 4, 8), "steps.1.epsilon": spaced(0.1, 10.0, 14)},
    },
    {
        "mechanism": {
            "name": "chain",
            "steps": [{**LAPLACE, "unit": "event"}, {"name": "suppress_small", "below": 3}],
        },
        "over": {"steps.1.below": (3, 5), "steps.0.epsilon": spaced(0.02, 5.0, 19)},
    },
]

GOALS: dict[str, dict[str, Any]] = {
    "hotspots": {
        "goal": [{"measure": {"name": "hotspot_f1"}}, {"measure": {"name": "hotspot_tau"}}],
        "limits": {"attacked": {"mean_auc": 0.75}},
    },
    "counts": {
        "goal": [
            {"measure": {"name": "mean_relative_error"}},
            {"measure": {"name": "events_kept"}},
        ],
        "limits": {"attacked": {"mean_auc": 0.9}},
    },
    "least exposed": {
        "goal": [
            {"measure": {"name": "jensen_shannon"}, "bound": 0.15},
            {"measure": {"name": "mean_relative_error"}, "bound": 1.0},
        ],
    },
}


def audit_of(n_targets: int) -> dict[str, Any]:
    return {
        "seed": 1,
        "periods": [{"name": "first week", "first": 0, "epochs": 168}],
        "targets": {"random": n_targets},
        "priors": [{"name": "known_subset", "alpha": 0.5, "training": 120, "challenges": 60}],
        "group_sizes": [50],
        "mechanisms": [{"name": "exact"}],
        "attacks": [{"name": "logistic"}, {"name": "projection"}],
        "screen": {"groups": 60},
        "control": False,
    }


def advice_of(goal: dict[str, Any], families: int, n_targets: int, n_confirm: int) -> Advice:
    plan = {
        "families": FAMILIES[:families],
        "search_targets": n_targets,
        "confirm_targets": n_confirm,
    }
    return Advice(
        AdvicePlan.model_validate({**plan, **goal}, strict=False),
        AuditPlan.model_validate(audit_of(n_targets), strict=False),
    )


class Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._name, self._since = "", time.perf_counter()

    def __call__(self, now: study.Progress) -> None:
        moment = time.perf_counter()
        self.seconds[self._name] = self.seconds.get(self._name, 0.0) + moment - self._since
        self._name, self._since = now.stage, moment

    def of(self, word: str) -> float:
        return sum(value for name, value in self.seconds.items() if word in name)


class Stops(runtime.SerialExecutor):
    """Runs nothing, so that a study only claims its folder."""

    def map_batches(self, function: Any, items: Any) -> Any:
        raise InterruptedError


def reuse(done: str, advice: Advice, cube: TraceCube, folder: str) -> None:
    """Copy the certificates and the screen of another goal: they do not depend on goals here."""
    if not os.path.exists(f"{done}/results.zarr") or os.path.exists(f"{folder}/advise"):
        return
    with suppress(InterruptedError):
        study.run(AdviseAnalysis(advice), cube, folder, Stops())
    for name in ("certify", "screen"):
        shutil.copytree(f"{done}/{name}", f"{folder}/advise/{name}", dirs_exist_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cube")
    parser.add_argument("folder")
    parser.add_argument("--targets", type=int, default=24)
    parser.add_argument("--confirm", type=int, default=60)
    parser.add_argument("--families", type=int, default=len(FAMILIES), help="the first so many")
    parser.add_argument("--goals", nargs="*", default=list(GOALS), choices=list(GOALS))
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    cube, goals = TraceCube(chosen.cube), {name: GOALS[name] for name in chosen.goals}
    sizes = chosen.families, chosen.targets, chosen.confirm
    with runtime.Local(workers=chosen.workers).open() as executor:
        brute_clock, rows = Clock(), []
        every = advice_of(next(iter(goals.values())), *sizes)
        print(f"{len(every.candidates)} candidates", flush=True)
        first = AuditPlan.model_validate(audit_of(8), strict=False)
        study.run(AuditAnalysis(first), cube, f"{chosen.folder}/first", executor)
        for name, goal in goals.items():
            clock = Clock()
            advice = advice_of(goal, *sizes)
            folder = f"{chosen.folder}/{name.replace(' ', '-')}"
            reuse(f"{chosen.folder}/{next(iter(goals))}/advise", advice, cube, folder)
            started = time.perf_counter()
            found = study.run(AdviseAnalysis(advice), cube, folder, executor, on_progress=clock)
            seconds = time.perf_counter() - started
            clock(study.Progress("end", 0))
            rows.append((name, advice, found, clock, seconds))
            print(name, found.verdict, found.attrs["yaml"], f"{seconds:.0f} s", flush=True)
            print(
                found.attrs["findings"], {k: round(v) for k, v in clock.seconds.items()}, flush=True
            )
        measures = {
            aim.measure.id: aim.measure for _, advice, *_ in rows for aim in advice.plan.goal
        }
        utility = every.measuring((), 64).utility.model_copy(
            update={"measures": tuple(measures.values())}
        )
        plan = every.audit.model_copy(
            update={"mechanisms": every.candidates, "utility": utility, "seed": 2}
        )
        brute = study.run(
            AuditAnalysis(plan), cube, f"{chosen.folder}/brute", executor, on_progress=brute_clock
        )
        brute_clock(study.Progress("end", 0))
    report(rows, brute, chosen.folder)


def report(rows: list[Any], brute: Any, folder: str) -> None:
    brute = brute.compute()
    attacked = [read_attacked(brute, key) for key in brute.mechanism.values]
    whole, n_whole = cost([brute])
    print(f"brute force: {n_whole:,} attacked pairs of target and mechanism, {whole:,.0f} s")
    print("goal | advice | best shown | best likely | lost | pairs | seconds | share")
    for name, advice, found, _, _ in rows:
        (value, sure), (_, likely) = (
            worth(advice, brute, attacked, end) for end in ("high", "mean")
        )
        home = f"{folder}/{name.replace(' ', '-')}/advise"
        parts = [
            path for path in sorted(os.listdir(home)) if path.startswith(("attack", "confirm"))
        ]
        own = [open_results(f"{home}/{part}") for part in parts if not part.endswith("screen")]
        seconds, pairs = cost(own)
        mine = np.nan
        if key := found.attrs["advised"]:
            mine = float(value[list(brute.mechanism.values).index(key)])
        best = [float(value[some].max(initial=-np.inf)) for some in (sure, likely)]
        print(
            f"{name} | {mine:.4f} | {best[0]:.4f} | {best[1]:.4f} | "
            f"{(best[0] - mine) / abs(best[0]):.1%} | {pairs:,} | {seconds:,.0f} | "
            f"{seconds / whole:.1%} of the seconds, {pairs / n_whole:.1%} of the pairs"
        )
    sum_up("advice", f"{seconds / whole:.1%} of the seconds, {pairs / n_whole:.1%} of the pairs")


def cost(audits: list[Any]) -> tuple[float, int]:
    """Return the seconds of training and scoring in audits, and the pairs that they attacked."""
    seconds = sum(float(audit.seconds.sum()) for audit in audits)
    return seconds, sum(int(audit.auc.notnull().any("attack").sum()) for audit in audits)


def worth(advice: Advice, brute: Any, attacked: list[Any], end: str) -> tuple[Any, Any]:
    """Return what each mechanism is worth, and whether it is allowed, by brute force.

    Worth is the score; for a goal of bounds, the negative mean AUC. A limit on attacks holds if the
    ``end`` of the interval of the mean AUC is within it.
    """
    aims, limits = advice.plan.goal, advice.plan.limits
    names = [aim.measure.id for aim in aims]
    values = brute.utility.sel(measure=names).values.reshape(-1, len(names)).astype(float)
    allowed = np.array(
        [
            limits.attacked is None or getattr(one, end) <= limits.attacked.mean_auc
            for one in attacked
        ]
    )
    for aim, column in zip(aims, values.T, strict=True):
        if aim.bound is not None:
            allowed &= column <= aim.bound if aim.is_loss else column >= aim.bound
    if limits.guarantee is not None:
        allowed &= np.isin(brute.guarantee_unit.values[0], UNITS)
        allowed &= brute.guarantee_epsilon.values[0] <= limits.guarantee.epsilon
    scores = np.array([score_utility(aims, row) for row in values])
    return (np.array([-one.mean for one in attacked]) if advice.plan.by_bounds else scores), allowed


if __name__ == "__main__":
    main()
