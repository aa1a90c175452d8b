"""Record the CPU seconds of each test in the JUnit file, on the scale of a reference machine.

CPU seconds of this process in the test and in fixtures of its own, without those in which numba
compiled, divided by how much longer than on the reference machine a fixed loop takes here.
``.ci/times`` reads them. Tests neither see nor depend on them.
"""

import importlib
import time

import pytest
from numba.core import event

REFERENCE = 0.012  # seconds of the loop on a quiet core of the reference machine


class CpuSeconds:
    """A pytest plugin; used where a JUnit file is written."""

    def __init__(self):
        for name in ("bokeh.plotting", "distributed", "dp_accounting", "scipy.stats", "sklearn"):
            with_it = importlib.util.find_spec(name.partition(".")[0])
            importlib.import_module(name) if with_it else None  # or the first test would pay for it
        self._slower = max(1.0, min(_loop() for _ in range(7)) / REFERENCE)
        self._recorder = event.RecordingListener()
        event.register("numba:compile", self._recorder)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        self._began, self._shared = time.process_time(), 0.0
        self._recorder.buffer.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        began = time.process_time()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                # Where one asks for another, both end here: the outer counts for both.
                self._shared = max(self._shared, time.process_time() - began)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        if call.when == "teardown":
            seconds = time.process_time() - self._began - self._shared
            seconds -= _compiling(self._recorder.buffer)
            item.user_properties.append(("cpu", f"{max(0.0, seconds) / self._slower:.3f}"))
        return (yield)


def _loop():
    began = time.process_time()
    sum(number * number for number in range(300_000))
    return time.process_time() - began


def _compiling(events):
    """Return the seconds of the outermost compilations; each compiles the kernels it calls."""
    total = depth = began = 0
    for when, what in events:
        depth += 1 if what.is_start else -1
        if what.is_start and depth == 1:
            began = when
        elif not what.is_start and depth == 0:
            total += when - began
    return total
