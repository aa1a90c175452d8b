"""Loadings against scikit-learn's components and NumPy's correlations."""

import numpy as np
import pytest
from loops import for_each
from oracles import traits as oracle

from clusterscale.analyses import traits
from clusterscale.errors import InputError


def releases(seed, n_groups, n_cells, tells=3):
    """Counts of groups, of which those with the target have more in some cells."""
    rng = np.random.default_rng(seed)
    common = rng.poisson(3, (n_groups, 4)) @ rng.integers(0, 3, (4, n_cells))
    counts = common + rng.poisson(1.5, (n_groups, n_cells))
    labels = np.arange(n_groups) % 2 == 0
    counts[labels, :tells] += 2
    counts[:, n_cells // 2] = 4  # says nothing
    return counts.astype(np.int32), labels


@for_each("shape", [(30, 80), (60, 20), (12, 300)])
@for_each("components", [1, 2, 5])
def test_they_are_those_of_scikit_learn(shape, components):
    rows, labels = releases(sum(shape), *shape)
    found = traits.loading(rows, labels, components=components)
    np.testing.assert_allclose(found, oracle.loading(rows, labels, components), atol=2e-3)
    assert found[shape[1] // 2] == 0
    assert ((found >= 0) & (found <= 1)).all()


def test_published_values_are_as_good_as_counts():
    rows, labels = releases(4, 40, 50)
    noisy = rows + np.random.default_rng(1).normal(size=rows.shape)
    found = traits.loading(noisy, labels, components=3)
    np.testing.assert_allclose(found, oracle.loading(noisy, labels, 3), atol=2e-3)


def test_wide_releases_go_by_in_blocks():
    rows, labels = releases(2, 20, 5000)
    found = traits.loading(rows, labels)
    part = traits.loading(np.ascontiguousarray(rows[:, ::-1]), labels)
    np.testing.assert_allclose(found, part[::-1], atol=1e-9)


def test_what_decides_stands_out():
    rng = np.random.default_rng(3)
    rows, labels = rng.poisson(5, (200, 30)), np.arange(200) < 100
    rows[:, 7] += 40 * labels
    found = traits.loading(rows, labels, components=1)
    assert np.argmax(found) == 7
    assert found[7] > 0.99


def test_more_components_than_there_are_is_all_of_them():
    rows, labels = releases(1, 6, 10)
    np.testing.assert_allclose(
        traits.loading(rows, labels, components=5), traits.loading(rows, labels, components=99)
    )


def test_releases_that_are_all_the_same_tell_nothing():
    rows, labels = np.full((6, 4), 3), np.arange(6) < 3
    assert (traits.loading(rows, labels) == 0).all()


def test_what_does_not_fit_is_refused():
    rows, labels = releases(1, 6, 10)
    with pytest.raises(InputError, match="one for each row"):
        traits.loading(rows, labels[:-1])
    with pytest.raises(InputError, match="the labels are all equal"):
        traits.loading(rows, np.ones(6, bool))
