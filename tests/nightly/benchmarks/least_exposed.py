"""Advice for goals of bounds alone, beside attacks on all candidates that keep the bounds.

Each goal has its own people, 6 to 14 candidates, number of finalists and bounds. All candidates are
then attacked in the way of the search, and their utility is measured on many groups. No candidate
that keeps the bounds may be less exposed, by its mean AUC, than the advised one.

    PYTHONPATH=tests python tests/nightly/benchmarks/least_exposed.py FOLDER [--goals 20]
"""

import argparse
from pathlib import Path

import numpy as np
from advise.bounds_alone import compare
from show import sum_up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--goals", type=int, default=20)
    chosen = parser.parse_args()
    gaps = []
    for number in range(chosen.goals):
        folder = chosen.folder / str(number)
        folder.mkdir(parents=True)
        name, gap, n, n_attacked = compare(number, folder)
        gaps += [gap] if name else []
        print(f"{number}: {n} keep the bounds, {n_attacked} attacked, {name or 'none'}: {gap:.3f}")
    worst = max(gaps, default=np.nan)
    sum_up("least_exposed", f"{len(gaps)} advised", f"at most {worst:.3f} above the least exposed")


if __name__ == "__main__":
    main()
