#!/usr/bin/env python3
"""Compare stated ε with exact ε for random chains of trace steps and noise.

    python tests/nightly/benchmarks/stability.py [--chains 2000] [--seed 0]

Each chain has one to three trace steps (merged hours and places, caps, samples) and discrete
Laplace noise per event, user-day or user, on the few events of one user, with or without a null
ROI; some epochs are on two days. It is bound as a publication binds it. The exact ε is found by
listing all that the steps can leave, with probabilities, with and without each raw unit; the
package's statements of stability are not used. Refused are chains whose sensitivity would depend
on the data, or whose stated one is too small for these data. Prints a row for each unit, and the
chains whose exact ε is above the stated one.
"""

import argparse
import random
import sys
from collections import Counter
from itertools import count
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2]))

from oracles.stability import (
    coordinates,
    counted,
    exact_epsilon,
    follow,
    neighbours,
    random_case,
)
from show import sum_up

from clusterscale.analyses.publish.plan import bind_without_data, exceeds_sensitivity
from clusterscale.contracts import Traces
from clusterscale.cube import with_null_roi
from clusterscale.cube.bounds import bounds_before, merge_bounds
from clusterscale.mechanisms import create

DRAWS = 20  # of traces, of which bounds are measured


def largest_bounds(mechanism, trace, frame, n_rois, *, null_roi):
    """Return the frames of the steps, and bounds measured over several draws."""
    n_epochs = len(frame.days)
    cells = np.array(sorted(roi * n_epochs + epoch for roi, epoch in trace), np.int64)
    found = None
    for seed in range(DRAWS):
        frames, rng = [frame], np.random.default_rng(seed)
        traces = Traces(np.array([0, len(cells)]), cells, n_rois, n_epochs)
        for step in mechanism.trace_steps:
            traces, after = step.apply(traces, frames[-1], rng=rng)
            frames.append(after)
        traces = with_null_roi(traces) if null_roi else traces
        bounds = bounds_before(mechanism.trace_steps, frames, traces)
        found = bounds if found is None else merge_bounds(found, bounds)
    return frames, found


def try_chain(seed):
    """Return the unit, what became of the chain, its stated and its exact ε."""
    trace, epochs, n_rois, steps = random_case(seed)
    rng = random.Random(f"noise {seed}")
    unit = rng.choice(["event", "user_day", "user"])
    null_roi = rng.random() < 0.3 and not any(step["name"] == "sample_traces" for step in steps)
    stated = rng.choice([None, None, 1.0, 2.0, 4.0, 8.0, 16.0])
    noise = {"name": "laplace", "epsilon": rng.choice([0.5, 1.0, 2.0]), "unit": unit}
    noise |= {"discrete": True} | ({"sensitivity": stated} if stated else {})
    mechanism = create("chain", steps=[*steps, noise])
    frame = coordinates(epochs, n_rois)
    frames, bounds = largest_bounds(mechanism, trace, frame, n_rois, null_roi=null_roi)
    bound = bind_without_data(mechanism, frames, null_roi=null_roi)
    if bound is None:
        return unit, "refused: depends on data", 0.0, 0.0
    if exceeds_sensitivity(bound, bounds):
        return unit, "refused: too small", 0.0, 0.0
    exact = 0.0

    def law_of(events):
        law, after, _ = follow(events, epochs, steps, n_rois)
        return {counted(x, len(after), null_roi=null_roi): share for x, share in law.items()}

    inside = law_of(trace)
    for left, gone in neighbours(trace, epochs, unit):
        outside = {frozenset(): 1.0} if gone else law_of(left)
        exact = max(exact, exact_epsilon(inside, outside, bound.noise.scale))
    return unit, "stated", bound.guarantee.epsilon, exact


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tally, wrong, done = Counter(), [], 0
    for seed in count(options.seed * 10**6):
        try:
            unit, fate, stated, exact = try_chain(seed)
        except OverflowError:  # too many outcomes to list: another one is drawn
            continue
        tally[unit, fate] += 1
        if fate == "stated":
            tally[unit, "tight"] += exact > 0.99 * stated
            tally[unit, "half"] += exact > 0.5 * stated
            wrong += [(seed, unit, stated, exact)] if exact > stated * (1 + 1e-9) else []
        done += 1
        if done == options.chains:
            break
    columns = ["refused: depends on data", "refused: too small", "stated", "half", "tight"]
    print("unit", *columns, sep=" | ")
    for unit in ("event", "user_day", "user"):
        print(unit, *(tally[unit, column] for column in columns), sep=" | ")
    for row in wrong[:20]:
        print(*row)
    tight, stated = (
        sum(n for (_, what), n in tally.items() if what == of) for of in ("tight", "stated")
    )
    sum_up(
        "stability",
        f"{len(wrong)} of {options.chains} chains have an exact ε above the stated one",
        f"{tight} of {stated} are tight",
    )


if __name__ == "__main__":
    main()
