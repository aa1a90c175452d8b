"""Studies of NDSS18: nothing is left out, and the table on cabs is what others copied from it."""

import numpy as np
import pytest
from loops import for_each
from oracles.ndss18 import EPSILONS, TABLE_3

from clusterscale.config import find_studies, load_study

pytestmark = pytest.mark.slow  # reading the studies takes seconds

STUDIES = {name: load_study(path) for name, path in find_studies(["ndss18"]).items()}

# Sections VI and VII; figure 1 draws the game, table I lists symbols.
ITEMS = [
    *("Figure 2", "Figure 3a", "Figure 3b", "Figure 4", "Figure 5", "Figure 6a", "Figure 6b"),
    *("Figure 7", "Figure 8", "Figure 9a", "Figure 9b", "Figure 10"),
    *(f"Figure {number}" for number in ("11a", "11b", "11c", "11d", "12a", "12b", "13a", "13b")),
    *("Table II", "Table III"),
]
LABELS = {
    "LPA(Δ/ε)": "laplace(epsilon={}, clip=True, integers='round')",
    "GSM": "gaussian(epsilon={}, delta=0.1, clip=True, integers='round')",
    "FPA": "fourier(epsilon={}, coefficients=20, clip=True, integers='round')",
    "EFPAG": "enhanced_fourier(epsilon={}, delta=0.1, clip=True, integers='round')",
    "LPA(1/ε)": "laplace(epsilon={}, sensitivity=1.0, unit='event', clip=True, integers='round')",
}


def test_every_figure_and_table_of_the_experiments_stands_in_one_study():
    found = [item for study in STUDIES.values() for item in study.items()]
    assert sorted(found) == sorted(ITEMS)


def test_table_3_is_copied_whole():
    study = STUDIES["ndss18/noise-errors-cabs"]
    figures = [figure for published in study.published for figure in published.figures()]
    found = {figure.selection.at["mechanism"]: figure.value for figure in figures}
    assert len(figures) == len(found)
    expected = {
        LABELS[row].format(epsilon): value
        for row, values in TABLE_3.items()
        for epsilon, value in zip(EPSILONS, values, strict=True)
    }
    assert found == expected


@for_each("name", STUDIES)
def test_cabs_are_compared_and_presets_say_something_that_can_be(name):
    study = STUDIES[name]
    assert study.is_real == name.endswith("-cabs")
    assert study.is_real or study.claims
    assert not study.audit.control  # the paper has none, and they take half of the time


@for_each("name", STUDIES)
def test_numbers_are_no_further_than_they_are_printed(name):
    for published in STUDIES[name].published:
        values = np.array([figure.value for figure in published.figures()])
        steps = values / published.step
        np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)
