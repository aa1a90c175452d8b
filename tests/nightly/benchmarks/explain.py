"""Whether ``--explain`` tells how long a command takes: ten configs, predicted and measured.

    python tests/nightly/benchmarks/explain.py FOLDER [--cluster NAME] [--only NAME ...] [--busy N]

Each line is one config on synthetic users: seconds that ``clusterscale COMMAND CONFIG --explain``
prints, and those that the run takes in processes of its own, from the interpreter to the report.
``--busy`` runs N processes beside them that use a processor each; predicted seconds are those of
``time``, as many times longer as ``now`` says. Processor seconds are compared as well. The last
line has the largest factor, and the one that ``--explain`` states. Cubes are made in FOLDER where
they are not there yet, and loops are compiled, outside all times.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from show import sum_up

import clusterscale as cs
from clusterscale.analyses.audit.resources import UNSURE
from clusterscale.study import measure_slowness

WEEK = {"name": "week", "first": 0, "epochs": 168}
SUBSET = {"name": "known_subset", "alpha": 0.5, "training": 200, "challenges": 100}
LAPLACE = {"name": "laplace", "epsilon": 1.0, "unit": "event"}
CHAIN = {
    "name": "chain",
    "steps": [
        {"name": "cap_contributions", "per_day": 10},
        {
            "name": "laplace",
            "epsilon": 1.0,
            "unit": "user_day",
            "clip": True,
            "integers": "round",
        },
    ],
}


def audits() -> dict[str, tuple[str, int, dict[str, Any]]]:
    """Return, by name, the preset, the number of users and the audit of each config."""
    every = ["logistic", "nearest", "forest", "perceptron", "spectral", "cells", "contradiction"]
    every += ["projection", "diagonal", "likelihood"]
    past = {"name": "fourth week", "first": 504, "epochs": 168, "observed": [0, 168, 336]}
    return {
        "quickstart": (
            "tfl",
            2000,
            {
                "targets": {"tertiles": 1},
                "priors": [SUBSET],
                "group_sizes": [20, 100, 300],
                "mechanisms": [
                    {"name": "exact"},
                    LAPLACE,
                    {"name": "suppress_small", "below": 5},
                    CHAIN,
                ],
                "attacks": [{"name": "logistic"}, {"name": "projection"}],
            },
        ),
        "every-attack": (
            "tfl",
            2000,
            {
                "targets": {"random": 6},
                "priors": [SUBSET],
                "group_sizes": [50, 500],
                "mechanisms": [{"name": "exact"}],
                "attacks": [{"name": name} for name in every],
                "control": False,
            },
        ),
        "past-groups": (
            "tfl",
            2000,
            {
                "periods": [past],
                "targets": {"random": 8},
                "priors": [{"name": "same_groups", "beta": 150}],
                "group_sizes": [100, 1000],
                "mechanisms": [{"name": "exact"}],
                "attacks": [{"name": "logistic"}, {"name": "spectral"}],
                "control": False,
            },
        ),
        "no-knowledge": (
            "milan",
            2000,
            {
                "null_roi": False,
                "targets": {"random": 3},
                "priors": [{"name": "zero_knowledge", "reference": 500, "refit": "shared"}],
                "group_sizes": [200],
                "mechanisms": [{"name": "exact"}, {"name": "suppress_small", "up_to": 1}],
                "attacks": [{"name": "cells"}, {"name": "likelihood"}],
            },
        ),
        "many-targets": (
            "milan",
            2000,
            {
                "targets": {"random": 300},
                "priors": [SUBSET],
                "group_sizes": [100],
                "mechanisms": [{"name": "exact"}, LAPLACE],
                "attacks": [{"name": "projection"}],
                "control": False,
            },
        ),
    }


def others() -> dict[str, tuple[str, str, int, dict[str, Any]]]:
    """Return, by name, the command, the preset, the number of users and the config."""
    week = {"seed": 1, "null_roi": True, "periods": [WEEK], "group_sizes": [100]}
    noise = [{"name": "exact"}, {"name": "laplace", "epsilon": 0.1, "unit": "event"}]
    small = {"targets": {"random": 12}, "priors": [SUBSET], "attacks": [{"name": "projection"}]}
    audit = week | small | {"mechanisms": noise, "control": False}
    screen = {"groups": 200, "attacks": [{"name": "projection"}, {"name": "diagonal"}]}
    learnt = [{"name": name} for name in ("roi_day", "time_day_week", "last_week", "last_hour")]
    recovery = {"seed": 1, "first": 0, "observed": 504, "epochs": 168, "priors": learnt}
    recovery |= {"strategies": [{"name": "bayes"}, {"name": "max_user"}], "mechanisms": noise[1:]}
    many = audit | {"targets": {"random": 100}}
    return {
        "certify": ("certify", "tfl", 20_000, {"audit": audit}),
        "screen": ("screen", "tfl", 20_000, {"audit": audit | {"screen": screen}}),
        "blocks": ("screen", "tfl", 200_000, {"audit": audit | {"screen": screen}}),
        "recover": ("recover", "tfl", 20_000, {"recovery": recovery}),
        "traits": ("traits", "tfl", 2000, {"audit": many, "traits": {}}),
    }


def seconds_in(shown: str) -> dict[str, float]:
    """Return the seconds now in all tables of ``--explain``; of a range, the middle."""
    now = re.search(r"^now +about ([\d.]+) times", shown, re.M)
    total = {"s": 0.0, "cpu": 0.0}
    for name, numbers in re.findall(
        r"^(work|time) +(?:about )?([\d,]+(?: to [\d,]+)?) s", shown, re.M
    ):
        parts = [float(each.replace(",", "")) for each in numbers.split(" to ")]
        total["s" if name == "time" else "cpu"] += float(np.sqrt(parts[0] * parts[-1]))
    total["s"] *= float(now[1]) if now else 1.0
    return total


@contextmanager
def busy(n: int) -> Iterator[None]:
    """Run ``n`` processes that do nothing but use a processor."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def spent() -> float:
    """Return the processor seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(words: list[str]) -> str:
    """Run a command and return what it prints."""
    return subprocess.run(
        words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cluster", default="serial")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--busy", type=int, default=0)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    slowness = measure_slowness()
    print(f"this machine takes {slowness:.2f} times the processor time of the reference")
    print(f"{'config':14}{'s told':>9}{'s taken':>9}{'ratio':>7}", end="")
    print(f"{'cpu told':>10}{'cpu taken':>11}{'ratio':>7}")
    worst = {"s": 1.0, "cpu": 1.0}
    week = {"seed": 1, "null_roi": True, "periods": [WEEK]}
    every = {
        name: ("audit", preset, users, {"audit": {**week, **audit}})
        for name, (preset, users, audit) in audits().items()
    } | others()
    with busy(given.busy):
        compare(given, every, worst)
    sum_up(
        "explain",
        f"at most off by a factor of {worst['s']:.2f} (seconds), {worst['cpu']:.2f} (processor), "
        f"{UNSURE} is stated",
    )


def compare(given: argparse.Namespace, every: dict[str, Any], worst: dict[str, float]) -> None:
    """Predict and measure each config, print a line for each, and note the largest factors."""
    for name in given.only or every:
        verb, preset, users, sections = every[name]
        uri = given.folder / f"{preset}{users}.zarr"
        if not uri.exists():
            cs.synthesise(preset, str(uri), users=users, seed=1)
        output = given.folder / "run"
        path = given.folder / "config.yaml"
        content = {"cube": str(uri), "output": str(output), **sections}
        path.write_text(yaml.safe_dump({**content, "cluster": {"name": given.cluster}}))
        words = [sys.executable, "-m", "clusterscale", verb, str(path)]
        for again in (False, True):  # the first compiles loops, which are kept
            kept = verb == "traits"  # which is of an audit that is not timed
            shutil.rmtree(output / verb if again and kept else output, ignore_errors=True)
            if kept and not again:
                run([*words[:3], "audit", str(path)])
            told = seconds_in(run([*words, "--explain"]))
            before, start = spent(), time.perf_counter()
            run(words)
        taken = {"s": time.perf_counter() - start, "cpu": spent() - before}
        print(f"{name:14}", end="")
        for kind, width in (("s", 9), ("cpu", 10)):
            ratio = taken[kind] / told[kind]
            worst[kind] = max(worst[kind], ratio, 1 / ratio)
            print(f"{told[kind]:{width}.1f}{taken[kind]:{width + (kind == 'cpu')}.1f}", end="")
            print(f"{ratio:7.2f}", end="")
        print(flush=True)


if __name__ == "__main__":
    main()
