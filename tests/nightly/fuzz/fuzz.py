#!/usr/bin/env python3
"""Search for inputs that a command handles badly, and print what became of each kind of input.

``python tests/nightly/fuzz/fuzz.py`` runs all kinds for an hour; ``fuzz.py configs --cases 10000
--seed 7`` one kind; ``fuzz.py configs --seed 7 --only 123`` repeats a case and keeps its folder.
Exits with 1 if any case has a fault.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # this file has the name of its package

from fuzz.runner import Limits, Verdict, run_cases, warm_up  # noqa: E402

KINDS = ("configs", "sources", "cubes", "runs", "releases", "published")
MEANINGS = {
    0: "accepted",
    1: "1 failed",
    2: "2 refused",
    3: "3 warn",
    4: "4 fail",
    75: "75 gave out",
}
_SHOWN = 40  # faults


def main() -> int:
    """Run the chosen kinds, print a table and how to repeat each fault; return the exit code."""
    options = _parse()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # removes files
    kinds = [importlib.import_module(f"fuzz.{name}") for name in options.kinds or KINDS]
    warm_up(kinds)
    counts: dict[str, Counter[str]] = {}
    n_faults = 0
    ends = time.monotonic() + options.seconds
    limits = Limits(options.cpu_seconds, options.wall_seconds, options.memory << 20)
    keep = options.only is not None
    root = Path(tempfile.mkdtemp(prefix="fuzz-", dir=options.folder))
    try:
        for i, kind in enumerate(kinds):
            now = time.monotonic()
            numbers = _numbers(options, now + (ends - now) / (len(kinds) - i))
            tally = counts.setdefault(kind.NAME, Counter())
            verdicts = run_cases(
                kind, numbers, seed=options.seed, root=root, jobs=options.jobs, limits=limits,
                keep=keep,
            )  # fmt: skip
            for verdict in verdicts:
                n_faults += _count(verdict, tally)
                if verdict.faults and n_faults <= _SHOWN:
                    _show(verdict, kind.NAME, options.seed)
                elif keep:
                    print(verdict.description, verdict.output, sep="\n")
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)
        _print_table(counts)  # also when it is stopped
    if keep:
        print(f"kept: {root}")
    return 1 if n_faults else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}, or all")
    parser.add_argument("--cases", type=int, help="of each kind; by default, until the time is up")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="repeat one case")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--seconds", type=float, default=3_600.0, help="for all kinds together")
    parser.add_argument("--cpu-seconds", type=int, default=60, help="bound of a case")
    parser.add_argument("--wall-seconds", type=float, default=600.0, help="bound of a case")
    parser.add_argument("--memory", type=int, default=4_096, help="bound of a case, MiB")
    parser.add_argument("--folder", help="of temporary files")
    return parser.parse_args()


def _numbers(options: argparse.Namespace, ends: float) -> Iterator[int]:
    if options.only is not None:
        yield options.only
        return
    for number in itertools.count():
        if number == options.cases or time.monotonic() > ends:
            return
        yield number


def _count(verdict: Verdict, tally: Counter[str]) -> int:
    """Count a case under its outcome and its faults; return whether it has any."""
    tally["cases"] += 1
    for name in {name for name, _ in verdict.faults}:
        tally[name] += 1
    if not verdict.faults:
        code = next((code for code in verdict.codes if code), 0)
        tally[MEANINGS[code]] += 1
    return bool(verdict.faults)


def _show(verdict: Verdict, kind: str, seed: int) -> None:
    print(f"{kind} --seed {seed} --only {verdict.number}: {verdict.description[:500]}")
    for name, words in verdict.faults:
        print(f"  {name}: {words}".replace("\n", "\n    "))
    sys.stdout.flush()


def _print_table(counts: dict[str, Counter[str]]) -> None:
    known = ["cases", *MEANINGS.values()]
    extra = sorted({name for tally in counts.values() for name in tally} - set(known))
    columns = [name for name in [*known, *extra] if any(tally[name] for tally in counts.values())]
    rows = [["kind", *columns]]
    rows += [[kind, *(f"{tally[name]:,}" for name in columns)] for kind, tally in counts.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns) + 1)]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
