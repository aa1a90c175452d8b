"""Cell keys: the published tables of probabilities, the lookup of another program, and the law."""

import numpy as np
import pandas as pd
import pytest
from cell_key_perturbation.create_perturbed_table import create_perturbed_table
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from clusterscale.errors import ConfigError
from clusterscale.mechanisms import create
from clusterscale.mechanisms.cell_key import perturbation_table


def row(table, count, least, most):
    """Return the probabilities of published values."""
    middle = table.shape[1] // 2
    return table[count, least - count + middle : most - count + middle + 1]


def test_tables_are_those_that_the_package_ptable_publishes():
    """The vignette of ptable 1.0 prints these, in four digits."""
    table = perturbation_table(2, 1.0)
    assert row(table, 0, 0, 0) == pytest.approx([1])
    assert row(table, 1, 0, 3) == pytest.approx([0.3665, 0.3665, 0.1676, 0.0995], abs=5e-5)
    assert row(table, 2, 0, 0) == pytest.approx([0.0638], abs=5e-5)
    assert row(table, 2, 2, 2) == pytest.approx([0.383], abs=5e-4)
    assert table[1] @ np.arange(-2, 3) ** 2 == pytest.approx(0.932, abs=5e-4)
    blocked = perturbation_table(2, 1.08, 1)
    assert row(blocked, 1, 0, 3) == pytest.approx([0.5133, 0, 0.46, 0.0267], abs=5e-5)


@pytest.mark.slow
@given(st.integers(1, 8), st.floats(0.05, 12), st.integers(0, 3))
@settings(max_examples=20)
def test_a_table_satisfies_its_constraints(deviation, variance, blocked):
    fields = {"deviation": deviation, "variance": variance, "blocked": blocked}
    least = max((c * (blocked + 1 - c) for c in range(1, blocked + 1)), default=0)
    if deviation <= blocked or variance < least * 1.001:
        if deviation <= blocked or variance < least * 0.999:
            with pytest.raises(ConfigError, match=r"must be above blocked|choose a larger"):
                create("cell_key", **fields)
        return
    table = perturbation_table(deviation, variance, blocked)
    steps = np.arange(-deviation, deviation + 1)
    assert table.sum(axis=1) == pytest.approx(np.ones(len(table)), abs=1e-12)
    assert (table >= 0).all()
    assert np.abs(table @ steps).max() < 1e-5
    assert (table @ steps**2).max() < variance + 1e-5
    for count, probabilities in enumerate(table):
        target = count + steps
        assert not probabilities[(target < 0) | ((target >= 1) & (target <= blocked))].any()
        left = probabilities[(target >= 0) & ~((target >= 1) & (target <= blocked)) & (steps <= 0)]
        if count > blocked:
            assert (np.diff(left) > -1e-5).all()


def test_perturbations_are_those_of_the_office_for_national_statistics():
    """Its program looks up the sum of integer record keys; the same people, to the bit."""
    mechanism, rng = (
        create("cell_key", deviation=5, variance=3.0, blocked=2),
        np.random.default_rng(7),
    )
    n, keys = 5_000, 256
    people = pd.DataFrame(
        {
            "place": rng.choice(40, n, p=rng.dirichlet(np.full(40, 0.3))).astype(str),
            "hour": rng.integers(0, 24, n).astype(str),
            "key": rng.integers(0, keys, n),
        }
    )
    counts, cell_keys = np.arange(1, 751), np.arange(keys)
    perturbed = mechanism.perturb(
        np.repeat(counts, keys).reshape(750, keys), np.tile(cell_keys / keys, (750, 1))
    )
    table = pd.DataFrame(
        {
            "pcv": np.repeat(counts, keys),
            "ckey": np.tile(cell_keys, 750),
            "pvalue": (perturbed - counts[:, None]).astype(int).ravel(),
        }
    )
    theirs = create_perturbed_table(people, table, ["place"], ["hour"], "key", threshold=0)
    cells = people.groupby(["place", "hour"])["key"].agg(["size", "sum"])
    ours = mechanism.perturb(cells["size"].to_numpy(), (cells["sum"].to_numpy() / keys) % 1.0)
    expected = theirs.set_index(["place", "hour"])["count"].reindex(cells.index)
    assert len(cells) > 300
    assert ours.tolist() == expected.astype(float).tolist()


def test_perturbations_have_the_probabilities_of_the_table():
    """χ² over 40,000 draws of each of ten counts; a sound one fails once in 100,000."""
    mechanism, n = create("cell_key", deviation=3, variance=2.0, blocked=1), 40_000
    counts = np.repeat(np.arange(10), n).reshape(10, n)
    values = mechanism.release(counts, group_size=50, rng=np.random.default_rng(3))
    law, statistic, degrees = mechanism.law(50), 0.0, 0
    for count in range(10):
        published = np.arange(14.0)[:, None]
        expected = n * law.likelihood(published, np.array([[count]]))[:, 0, 0]
        found = np.bincount(values[count].astype(int), minlength=14)
        assert not found[expected == 0].any()
        kept = expected > 0
        statistic += ((found[kept] - expected[kept]) ** 2 / expected[kept]).sum()
        degrees += kept.sum() - 1
        mean, variance = law.moments(np.array([count]))
        assert mean[0] == pytest.approx(count, abs=1e-5)
        assert variance[0] == pytest.approx(((np.arange(14) - count) ** 2 @ expected) / n)
    assert stats.chi2.sf(statistic, df=degrees) > 1e-5


def test_the_same_people_get_the_same_perturbation_in_every_table():
    mechanism, rng = create("cell_key", deviation=2, variance=1.0), np.random.default_rng(5)
    keys = rng.random(30)
    group = rng.integers(0, 2, (6, 30)).astype(bool)
    counts, cell_keys = group.sum(axis=1), (group @ keys) % 1.0
    first = mechanism.perturb(counts, cell_keys)
    order = rng.permutation(6)
    assert (mechanism.perturb(counts[order], cell_keys[order]) == first[order]).all()
