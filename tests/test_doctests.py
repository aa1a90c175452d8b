"""Every example in a docstring, and in the guide to the API, runs and shows what it says."""

import doctest
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import clusterscale

WHOLE_RUNS = ("clusterscale",)  # examples that take seconds


def examples():
    """Return the docstrings with examples, by module."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    names = [
        "clusterscale",
        *(m.name for m in walk_packages(clusterscale.__path__, "clusterscale.")),
    ]
    for name in names:
        if name.endswith("__main__"):
            continue
        try:
            module = import_module(name)
        except ImportError as error:
            if not str(error.name).startswith(("dask", "distributed", "kubernetes")):
                raise
            continue
        for test in finder.find(module):
            if test.examples:
                marks = pytest.mark.slow if test.name in WHOLE_RUNS else ()
                yield pytest.param(test, marks=marks, id=test.name)
    page = Path(clusterscale.__file__).parent / "guide" / "python.md"
    text = page.read_text().replace("\n```", "\n")
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    yield pytest.param(test, marks=[pytest.mark.dask, pytest.mark.slow], id=page.name)


@pytest.mark.parametrize("example", list(examples()))
def test_example(example, request):
    example.globs["getfixture"] = request.getfixturevalue
    result = doctest.DocTestRunner(verbose=False).run(example)
    assert result.failed == 0
    assert result.attempted > 0


def test_the_package_has_a_worked_example():
    assert "clusterscale" in [example.id for example in examples()]
