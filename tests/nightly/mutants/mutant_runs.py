"""Run tests on a mutant in a private copy of the checkout; also the pytest plugin of these runs."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from mutant_sites import mutate

PACKAGE = "clusterscale"
PADDING = 4000  # more bytes than any mutation adds
COLLECTING = 180.0  # seconds that it may take to import and to collect


class Slot:
    """A private copy of the checkout in which one mutant at a time is tried."""

    def __init__(self, folder, options):
        self.options, self.tree, self.temporary = options, folder / "tree", folder / "tmp"
        self.cache, self.progress = folder / "numba", folder / "progress"
        shutil.rmtree(folder, ignore_errors=True)
        hidden = shutil.ignore_patterns(
            ".git", "__pycache__", ".hypothesis", ".coverage*", ".*_cache", "runs"
        )
        shutil.copytree(options.checkout, self.tree, ignore=hidden)
        # Compiled functions are cached by time and size of all files of the package. A mutated file
        # keeps both by means of this padding, so that mutants elsewhere need not compile anew.
        for file in (self.tree / PACKAGE).rglob("*.py"):
            self._write(file, file.read_bytes(), file.stat().st_size + PADDING)

    @staticmethod
    def _write(file, content, size):
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
            compiled.unlink()  # it is known by time and size as well
        padding = b"\n#" + b"-" * (size - len(content) - 2)
        file.write_bytes(content + padding)
        os.utime(file, ns=(10**18, 10**18))

    def run(self, tests, limit, mutant=None, exit_first=True):
        """Run the tests on the mutant; return its fate, and the tests that failed."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        shutil.rmtree(self.tree / ".hypothesis", ignore_errors=True)
        self.temporary.mkdir(parents=True)
        (self.temporary / "tests.json").write_text(json.dumps(tests))
        self.progress.write_text("")
        apart = mutant is not None and mutant["compiles"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("COV", "PYTEST"))}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment |= {
            "PYTHONPATH": os.pathsep.join([str(self.tree), str(Path(__file__).resolve().parent)]),
            "NUMBA_CACHE_DIR": str(self.temporary / "numba" if apart else self.cache),
            "TMPDIR": str(self.temporary),
            "MUTANTS_TESTS": str(self.temporary / "tests.json"),
            "MUTANTS_PROGRESS": str(self.progress),
        }
        command = [self.options.python, "-m", "pytest", "-p", "mutant_runs", "-n", "0", "-q"]
        command += ["-p", "no:cacheprovider", "-o", "timeout=0", "--tb=no", "--hypothesis-seed=0"]
        command += ["--basetemp", str(self.temporary / "base"), *["-x"] * exit_first]
        command += [] if self.options.markers is None else ["-m", self.options.markers]
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        try:
            if mutant:
                file = self.tree / mutant["file"]
                original, size = file.read_bytes(), file.stat().st_size
                content = (self.options.checkout / mutant["file"]).read_bytes()
                self._write(file, mutate(content, mutant), size)
            with open(self.temporary / "output", "wb") as output:
                process = subprocess.Popen(
                    command + files, cwd=self.tree, env=environment, start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                )  # fmt: skip
            try:
                return self._watch(process, limit)
            finally:
                end(process)
        finally:
            if mutant:
                self._write(file, original.rstrip(b"-").removesuffix(b"\n#"), size)

    def _watch(self, process, limit):
        last, since, current = 0, time.monotonic(), None
        while (code := wait(process)) is None:
            lines = self.progress.read_text().splitlines()
            if len(lines) > last:
                last, since = len(lines), time.monotonic()
                current = next((it[6:] for it in reversed(lines) if it.startswith("start ")), None)
            if time.monotonic() - since > (limit(current) if current else COLLECTING):
                break
        end(process)
        lines = self.progress.read_text().splitlines()
        origin = next((it[8:] for it in lines if it.startswith("package ")), None)
        if origin != str(self.tree / PACKAGE / "__init__.py"):
            raise RuntimeError(
                f"the tests import {origin}: {(self.temporary / 'output').read_text()}"
            )
        failed = [it[5:] for it in lines if it.startswith("fail ")]
        current = next((it[6:] for it in reversed(lines) if it.startswith("start ")), "collection")
        if code is None:
            return "timeout", [current]
        if failed or code < 0 or code == 4:  # 4: a conftest.py could not be imported
            return "killed", failed or [current]
        return {0: "survived", 5: "no test"}.get(code, "error"), []


def wait(process):
    """Return the exit code if the process ends soon."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(0.2)


def end(process):
    """End a process and those that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def note(*words):
    """Tell the process that waits for these tests how far they are."""
    with open(os.environ["MUTANTS_PROGRESS"], "a") as file:
        print(*words, file=file)


def pytest_load_initial_conftests():
    """Say which package the tests import, before anything imports it: it may be broken."""
    note("package", importlib.util.find_spec(PACKAGE).origin)


def pytest_collection_modifyitems(items):
    """Keep the selected tests, in their order."""
    order = {
        test: i for i, test in enumerate(json.loads(Path(os.environ["MUTANTS_TESTS"]).read_text()))
    }
    items[:] = sorted((it for it in items if it.nodeid in order), key=lambda it: order[it.nodeid])


def pytest_collectreport(report):
    """Note a file that cannot be imported."""
    report.failed and note("fail", report.nodeid)


def pytest_runtest_logstart(nodeid):
    """Note a test that starts."""
    note("start", nodeid)


def pytest_runtest_logreport(report):
    """Note a test that fails."""
    report.failed and note("fail", report.nodeid)
