#!/usr/bin/env python3
r"""Try whether the tests notice a random sample of small changes (mutants) of the package.

    pytest --cov=clusterscale --cov-branch --cov-context=test --cov-report= --junitxml=tests.xml
    python tests/nightly/mutants/mutants.py . --coverage .coverage --junit tests.xml --seed 1 \
      -n 100 --out new.json
    python tests/nightly/mutants/mutants.py . --coverage .coverage --junit tests.xml --from \
      old.json --out new.json --compare old.json

The tests of a mutant are those that cover its line, the cheapest first, up to a limit. This needs
the ``coverage`` package; --python names the Python of the tests, if it is another one. A run that
was interrupted goes on where it was.
"""

import argparse
import itertools
import json
import random
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from mutant_runs import PACKAGE, Slot
from mutant_sites import Module, names_in

IDENTITY = ("file", "where", "text", "original", "mutated", "nth")


def find(checkout):
    """Return the modules of the package by file, and all mutants of it."""
    files = sorted(str(it.relative_to(checkout)) for it in checkout.glob(f"{PACKAGE}/**/*.py"))
    modules = {file: Module(checkout, file) for file in files}
    # Compiled code holds the functions and constants that it uses, of other files as well.
    compiled = {f"{PACKAGE}/jit.py"} | {it for it in files if modules[it].kernels}
    for module in [modules[it] for it in compiled]:
        used = module.compiled_names
        compiled |= {it for it, names in module.imports.items() if names & used}
    counts, mutants = Counter(), [it for module in modules.values() for it in module.mutants]
    for mutant in mutants:
        same = identity(mutant | {"nth": 0})  # equal changes of equal lines differ by their order
        mutant["nth"] = counts[same]
        counts[same] += 1
        mutant["compiles"] = mutant["file"] in compiled
    return modules, mutants


def identity(mutant):
    """Return what a mutant is known by, also where its line has moved."""
    return tuple(mutant[it] for it in IDENTITY)


def read_coverage(path):
    """Return the tests of each line of each file; the test of a line run outside of any is ''.

    What a fixture runs may be checked by any test of the file, though only the first one runs it:
    then the name of the file stands for all of its tests.
    """
    from coverage import CoverageData

    covered = defaultdict(lambda: defaultdict(set))
    for name in sorted(path.glob(".coverage*")) if path.is_dir() else [path]:
        data = CoverageData(basename=str(name))
        data.read()
        names = {}
        for context in data.measured_contexts():
            test, _, phase = context.partition("|")
            names[context] = test.partition("::")[0] if phase in ("setup", "teardown") else test
        for measured in data.measured_files():
            # The package may have been installed, or in the checkout, or in a copy of it.
            file = f"{PACKAGE}/" + measured.rsplit(f"/{PACKAGE}/", 1)[-1]
            for line, contexts in data.contexts_by_lineno(measured).items():
                covered[file][line] |= {names[it] for it in contexts}
    return covered


def read_seconds(path, tests):
    """Return how long each test took; without those that did not pass, which cannot kill."""
    nodes = {}
    for node in {test.partition("[")[0] for test in tests}:
        nodes[node.replace("/", ".").replace(".py::", ".").replace("::", ".")] = node
    seconds, unknown = {}, 0
    for case in ElementTree.parse(path).iter("testcase"):
        name, bracket, parameters = case.get("name").partition("[")
        node = nodes.get(f"{case.get('classname')}.{name}")
        if node and all(case.find(it) is None for it in ("failure", "error", "skipped")):
            seconds[node + bracket + parameters] = float(case.get("time"))
        unknown += node is None
    if unknown:  # few tests run nothing of the package; many mean that coverage data is missing
        print(f"the coverage data does not have {unknown} of the tests in {path}")
    return seconds


class Selector:
    """Choose the tests of a mutant."""

    def __init__(self, modules, covered, seconds, options):
        self.modules, self.covered, self.seconds, self.options = modules, covered, seconds, options
        self.of_file = defaultdict(list)
        for test in seconds:
            self.of_file[test.partition("::")[0]].append(test)

    def limit(self, test):
        """Return how many seconds a test may take, which may have to set up its file's fixtures."""
        slowest = max(self.seconds[it] for it in self.of_file[test.partition("::")[0]])
        return self.options.grace + self.options.factor * slowest

    def _within(self, file, lines):
        covered = self.covered.get(file, {})
        return set().union(*(covered[line] for line in lines if line in covered)) - {""}

    def _of_module(self, file):
        found = self._within(file, self.modules[file].body_lines)
        users = [it for it, module in self.modules.items() if file in module.imports]
        return found or set().union(
            *(self._within(it, self.modules[it].body_lines) for it in users)
        )

    def _of_kernel(self, file, name):
        # Coverage sees no line of compiled code: take the lines that name it, or what calls it.
        found, queue = set(), [(file, name)]
        for file, name in queue:  # it grows
            for user, module in self.modules.items():
                if user == file or name in module.imports.get(file, ()):
                    found |= self._within(
                        user, module.lines_of.get(name, set()) & module.body_lines
                    )
                    calls = [(user, it.name) for it in module.kernels if name in names_in(it.body)]
                    queue += [it for it in calls if it not in queue]
        return found

    def _covering(self, mutant):
        file, lines = mutant["file"], range(mutant["first"], mutant["last"] + 1)
        if mutant["kernel"]:
            return self._of_kernel(file, mutant["kernel"]) or self._of_module(file)
        if mutant["in_function"]:
            found = self._within(file, lines)
            # Lines that only other processes run (workers, commands) have no test in the data.
            if found or not any(line in self.covered.get(file, {}) for line in lines):
                return found
        return self._of_module(file)

    def _order(self, mutant, test):
        # Bands of cost rather than exact seconds: within a band, the tests of the same part of the
        # package come first, and those of a file stay together and share its fixtures.
        parts, seconds = Path(mutant["file"]).with_suffix("").parts, self.seconds[test]
        near = test.startswith((f"tests/{parts[1]}/", f"tests/test_{parts[1]}.py"))
        return (
            sum(seconds > it for it in (0.05, 0.5, 5)),
            not near,
            test.partition("::")[0],
            seconds,
            test,
        )

    def choose(self, mutant):
        """Return the tests to run, in order, and how many there would be without the limits."""
        found = self._covering(mutant)
        found = found.union(*(self.of_file.get(it, ()) for it in found))
        covering = sorted(found & set(self.seconds), key=lambda test: self._order(mutant, test))
        total = itertools.accumulate(self.seconds[it] for it in covering)
        within = sum(it <= self.options.max_seconds for it in total)
        return covering[: min(max(within, 1), self.options.max_tests)], len(covering)


def describe(mutant):
    """Return a line about a mutant and its fate."""
    old, new = (" ".join(mutant[it].split())[:60] for it in ("original", "mutated"))
    fate = (
        f"{mutant['fate']:9} {mutant['run']}/{mutant['covering']} tests" if "fate" in mutant else ""
    )
    by = f" by {mutant['by']}" if mutant.get("by") else ""
    place = f"{mutant['file']}:{mutant['line']}:{mutant['column']}"
    return f"{fate}  {place}  {old} -> {new}{by}" + "  DOUBTFUL" * mutant.get("doubtful", False)


def sample(mutants, options):
    """Return the mutants to try, and what is known of them from an earlier run into this file."""
    if options.source:
        wanted = [identity(it) for it in json.loads(options.source.read_text())]
        known = {identity(it): it for it in mutants}
        for it in wanted:
            known.get(it) or print("gone from the source:", *it, sep="  ")
        chosen = [known[it] for it in wanted if it in known]
    else:
        chosen = random.Random(options.seed).sample(mutants, min(options.number, len(mutants)))
    if options.out.exists():
        done = {identity(it): it for it in json.loads(options.out.read_text())}
        keys = ("fate", "by", "run", "covering", "seconds", "doubtful")
        for it in chosen:
            old = done.get(identity(it), {})
            if old.get("fate") not in (None, *options.again):
                it.update({key: old[key] for key in keys if key in old})
    return chosen


def main(options):
    """Try the mutants, and write what became of them after each."""
    modules, mutants = find(options.checkout)
    chosen, slots, lock = sample(mutants, options), SimpleQueue(), Lock()
    covered = read_coverage(options.coverage)
    tests = set().union(*(it for lines in covered.values() for it in lines.values()))
    selector = Selector(modules, covered, read_seconds(options.junit, tests), options)
    print(f"{len(mutants)} mutants, {len(chosen)} chosen; {len(selector.seconds)} tests that pass")

    def save(mutant):
        with lock:
            print(describe(mutant), flush=True)
            new = options.out.with_suffix(".new")
            new.write_text(json.dumps(chosen, indent=1))
            new.replace(options.out)

    def retry(mutant):
        selected, mutant["covering"] = selector.choose(mutant)
        mutant["run"], started, slot = len(selected), time.monotonic(), slots.get()
        try:
            run = slot.run(selected, selector.limit, mutant) if selected else ("uncovered", [])
        finally:
            slots.put(slot)
        fate, by = run
        mutant |= {"by": by[0] if by else None, "seconds": round(time.monotonic() - started, 1)}
        mutant["fate"] = fate  # last: a mutant with a fate is complete
        save(mutant)

    if options.dry:
        for it in chosen:
            selected, n_covering = selector.choose(it)
            took = sum(selector.seconds[test] for test in selected)
            print(describe(it), f"  {len(selected)} of {n_covering} tests, {took:.1f} s")
        return
    rest = [it for it in chosen if "doubtful" not in it]
    for i in range(options.jobs if rest else 0):
        slots.put(Slot(options.work / str(i), options))
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(retry, [it for it in rest if "fate" not in it]))
    # A test that fails on the source as it is has not noticed anything.
    killers = sorted({it["by"] for it in rest} & set(selector.seconds))
    failed = slots.get().run(killers, selector.limit, exit_first=False)[1] if killers else []
    for it in rest:
        it["doubtful"] = it["by"] in failed
        save(it) if it["doubtful"] or it is rest[-1] else None
    print(dict(Counter(it["fate"] for it in chosen)))
    if options.compare:
        before = {identity(it): it for it in json.loads(options.compare.read_text())}
        pairs = [(before[identity(it)], it) for it in chosen if identity(it) in before]
        for old, new in pairs:
            if old["fate"] != new["fate"]:
                print(f"was {describe(old)}\nis  {describe(new)}")
        print("before:", dict(Counter(old["fate"] for old, _ in pairs)))


def parse():
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add, path = parser.add_argument, lambda text: Path(text).absolute()
    add("checkout", type=path, help="folder with the package and its tests")
    add("--coverage", type=path, required=True, help="data file, or folder of several")
    add(
        "--junit",
        type=path,
        required=True,
        help="durations of the tests; only those it has are run",
    )
    add(
        "--out", type=path, required=True, help="JSON file to write; what it has is not tried again"
    )
    add("--from", type=path, dest="source", help="try the mutants of this JSON file")
    add("--compare", type=path, help="print whose fate differs from this JSON file")
    add("-n", "--number", type=int, default=100)
    add("--seed", type=int, default=0)
    add("--python", default=sys.executable, help="Python of the tests")
    add("--work", type=path, default=Path("/tmp/mutants"), help="folder for private copies")
    add("--jobs", type=int, default=1)
    add("--max-tests", type=int, default=1000, help="of a mutant")
    add("--max-seconds", type=float, default=60, help="that the tests of a mutant take together")
    add(
        "--factor", type=float, default=5, help="longest time of a test, as a multiple of its usual"
    )
    add("--grace", type=float, default=60, help="seconds that each test may take beyond that")
    add("--markers", help="of pytest -m, instead of those in pyproject.toml")
    add("--again", action="append", default=[], help="try mutants of this fate again")
    add("--dry", action="store_true", help="only print the mutants and how many tests they have")
    return parser.parse_args()


if __name__ == "__main__":
    main(parse())
