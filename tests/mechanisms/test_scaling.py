"""Expanded, top-coded and relative values are those of plain arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.errors import ConfigError
from clusterscale.mechanisms import create

SEEDS = st.integers(0, 2**32)


def release(mechanism, counts):
    return mechanism.release(counts, group_size=100, rng=np.random.default_rng(1))


@given(SEEDS, st.floats(0.1, 50))
def test_expanded_counts_are_multiples_of_the_factor(seed, factor):
    counts = np.random.default_rng(seed).integers(0, 40, (3, 5))
    assert (release(create("expand", factor=factor), counts) == counts * factor).all()


def test_the_order_of_expansion_and_threshold_decides_who_is_hidden():
    """One device that stands for 5.13 people passes a threshold of 5."""
    counts = np.arange(8)[None]
    expand, hide = {"name": "expand", "factor": 5.13}, {"name": "threshold", "k": 5}
    before = release(create("chain", steps=[hide, expand]), counts)
    after = release(create("chain", steps=[expand, hide]), counts)
    assert before[0].tolist() == pytest.approx([0] * 5 + [5.13 * count for count in (5, 6, 7)])
    assert after[0].tolist() == pytest.approx([5.13 * count for count in range(8)])


def test_noise_cannot_follow_an_expansion():
    with pytest.raises(ConfigError, match="laplace adds noise and must come before expand, which"):
        create("chain", steps=[{"name": "expand", "factor": 2.0}, LAPLACE])


LAPLACE = {"name": "laplace", "epsilon": 1.0, "sensitivity": 1.0}


@given(SEEDS, st.integers(1, 30))
def test_a_top_code_is_the_largest_value(seed, at):
    counts = np.random.default_rng(seed).integers(0, 40, (3, 5))
    values = release(create("top_code", at=at), counts)
    assert (values == np.minimum(counts, at)).all()


@given(SEEDS, st.integers(2, 30), st.data())
def test_a_bottom_code_stands_for_small_values(seed, at, data):
    least = data.draw(st.integers(1, at - 1))
    counts = np.random.default_rng(seed).integers(0, 40, (3, 5))
    values = release(create("bottom_code", at=at, least=least), counts)
    assert values.tolist() == [[0 if n < least else max(n, at) for n in row] for row in counts]


def test_a_bottom_code_without_a_range_is_a_threshold():
    with pytest.raises(ConfigError, match="least must be below at, 4: else use threshold with k"):
        create("bottom_code", at=4, least=4)


@given(SEEDS)
def test_shares_add_up_to_one_where_there_is_anyone(seed):
    counts = np.random.default_rng(seed).integers(0, 3, (3, 6))
    counts[:, 0] = 0
    shares = release(create("share_of_total"), counts)
    total = counts.sum(axis=0)
    assert shares.sum(axis=0) == pytest.approx(np.where(total > 0, 1.0, 0.0))
    assert (shares * total == pytest.approx(counts)) or total.min() == 0
    whole = release(create("share_of_total", of="release"), counts)
    assert whole * counts.sum() == pytest.approx(counts)


@given(SEEDS)
def test_scaled_values_are_the_counts_again_in_visits(seed):
    counts = np.random.default_rng(seed).integers(1, 40, (3, 5))
    for steps in (
        [{"name": "expand", "factor": 5.13}],
        [{"name": "share_of_total"}],
        [{"name": "share_of_total", "of": "release"}],
        [{"name": "expand", "factor": 5.13}, {"name": "share_of_total"}],
    ):
        mechanism = create("chain", steps=steps)
        assert mechanism.in_visits(release(mechanism, counts), counts) == pytest.approx(counts)
