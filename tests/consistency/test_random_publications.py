"""What follows from random publications, beside integer programs over all cells of their lattice.

``tests/nightly/benchmarks/publications.py`` compares thousands, and prints each that differs.
"""

import pytest
from loops import mostly_slow
from oracles.publication_findings import Tally, run
from oracles.wrong_declarations import WRONG


def compare(mode, seeds, folder):
    tally = Tally()
    for seed in seeds:
        own = folder / str(seed)
        own.mkdir()
        run(mode, seed, own, tally)
        # What a repair leaves open, since it follows whatever is hidden, it says; and a check says
        # what follows only if sums count hidden cells.
        told = "left open, and told", "missed, and told"
        faults = [one for one in tally.faults if not one.startswith(told)]
        assert not faults, (seed, tally.faults, tally.kinds)


# More would take long: those that a benchmark compares are thousands.
@mostly_slow("first", range(0, 144, 6))
def test_what_follows_is_what_integer_programs_find(first, tmp_path):
    compare("follows", range(first, first + 3), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11_000_320, 12_000_710])
def test_what_once_followed_from_a_wrong_reading_does_not(seed, tmp_path):
    compare("follows", [seed], tmp_path)


@mostly_slow("first", range(1000, 1100, 10))
def test_nothing_is_told_of_true_counts_that_does_not_follow(first, tmp_path):
    compare("honest", range(first, first + 5), tmp_path)


@mostly_slow("seed", range(2 * len(WRONG)), n_quick=8)
def test_a_wrong_declaration_is_never_consistent(seed, tmp_path):
    compare("wrong", [seed], tmp_path)
