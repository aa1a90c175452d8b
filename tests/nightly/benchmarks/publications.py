#!/usr/bin/env python3
"""Compare what follows from random publications with integer programs over all their cells.

    python tests/nightly/benchmarks/publications.py [MODE] [--number 200] [--seed 1] [--only SEED]

Modes:

- ``follows``: which counts are determined, and their ranges, beside an oracle that knows all cells;
  and that nothing is determined in the repaired tables. Prints how many were missed, told though
  they do not follow, and have too wide a range.
- ``honest``: true counts, however published, never contradict, and what is told follows; cells of
  which nothing is told are not looked at, which is quick.

- ``wrong``: publications that give a count away, of which one declaration is misspelled or wrong,
  are never consistent. Prints how many of them are refused when they are read.

Each fault is printed with the seed of its publication, which ``--only`` checks alone.
"""

import argparse
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np
from oracles.publication_findings import Tally, run
from show import sum_up

from clusterscale.release.checks import disclosure
from clusterscale.release.reasons import Reasons

_NONE = np.empty(0, np.int64)


def main():
    """Print the figures of a mode."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "mode", nargs="?", default="follows", choices=["follows", "honest", "wrong"]
    )
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--thorough", action="store_true", help="what is left open must be so")
    parser.add_argument("--no-reasons", action="store_true", help="do not look for reasons")
    options = parser.parse_args()
    if options.no_reasons:  # most of the time of a check, and not compared with anything
        disclosure.chain = lambda low, high, relations, cell, width: Reasons(_NONE, _NONE)
    tally, first = Tally(thorough=options.thorough), 1_000_000 * options.seed
    numbers = [options.only] if options.only else range(first, first + options.number)
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            try:
                run(options.mode, number, Path(folder), tally)
            except Exception:
                tally.note("crash")
                print(number, traceback.format_exc()[-600:], file=sys.stderr, flush=True)
        for fault, n in tally.latest.items():
            print(f"{number}: {n} {fault} ({', '.join(sorted(tally.kinds))})", flush=True)
        tally.latest.clear()
    figures = [f"{len(numbers)} publications", f"{tally.n_hidden} hidden counts"]
    figures += [f"{tally.n_determined} determined"]
    figures += [f"{n} {verdict}" for verdict, n in sorted(tally.verdicts.items())]
    figures += [f"{fault} {n}" for fault, n in sorted(tally.faults.items())] or ["no faults"]
    sum_up("publications", *figures)


if __name__ == "__main__":
    main()
