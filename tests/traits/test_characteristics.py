"""Characteristics against loops over dense arrays, and what is said of those who were nowhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import traits as oracle
from traits.crowd import crowds, days_for, traces_of

from clusterscale.analyses import traits
from clusterscale.analyses.traits.characteristics import is_weekend, movement
from clusterscale.cube.transforms import cut, pick, with_null_roi
from clusterscale.errors import InputError

MONDAY = 738_886  # 2024-01-01


def by_name(table):
    return dict(zip(traits.CHARACTERISTICS, table.T, strict=True))


@given(st.data(), crowds())
def test_they_are_what_loops_give(data, dense):
    days = data.draw(days_for(dense.shape[2]))
    found = traits.characteristics(traces_of(dense), days)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, oracle.characteristics(dense, days), rtol=1e-12, atol=1e-12)


@given(st.data(), crowds())
def test_who_else_is_there_matters_to_unicity_alone(data, dense):
    days = data.draw(days_for(dense.shape[2]))
    users = data.draw(st.permutations(range(len(dense))))
    found = traits.characteristics(traces_of(dense), days)
    shuffled = traits.characteristics(pick(traces_of(dense), np.array(users)), days)
    np.testing.assert_array_equal(shuffled, found[list(users)])
    half = pick(traces_of(dense), np.array(users[: len(users) // 2 + 1]))
    alone = traits.characteristics(half, days)
    np.testing.assert_array_equal(alone[:, :-1], shuffled[: half.n_held, :-1])
    assert (alone[:, -1] >= shuffled[: half.n_held, -1]).all()


@given(crowds())
def test_a_null_roi_is_no_place(dense):
    days = np.full(dense.shape[2], MONDAY)
    plain = traces_of(dense)
    np.testing.assert_array_equal(
        traits.characteristics(with_null_roi(plain), days), traits.characteristics(plain, days)
    )


def test_those_who_were_nowhere_have_zeros():
    dense = np.zeros((3, 2, 48), bool)
    dense[1, 0, 5] = True
    found = traits.characteristics(traces_of(dense), MONDAY + np.arange(48) // 24)
    assert (found[[0, 2]] == 0).all()
    one = {name: values[1] for name, values in by_name(found).items()}
    assert one["total_events"] == one["unique_rois"] == one["active_epochs"] == 1
    assert one["spatial_entropy"] == one["temporal_entropy"] == 0
    assert one["events_per_weekday"] == 0.5
    assert one["unicity"] == 1 / 48


def test_a_week_has_five_days_and_a_weekend():
    days = MONDAY + np.arange(168) // 24
    assert is_weekend(days).tolist() == [False] * 120 + [True] * 48
    dense = np.zeros((1, 4, 168), bool)
    dense[0, 0, [0, 1, 30]] = True
    dense[0, 1:3, 130] = True
    found = {name: values[0] for name, values in by_name(
        traits.characteristics(traces_of(dense), days)
    ).items()}  # fmt: skip
    assert found["total_events"] == 5
    assert found["rois_per_active_epoch"] == 5 / 4
    assert found["events_per_weekday"] == found["active_epochs_per_weekday"] == 3 / 5
    assert found["events_per_weekend_day"] == 2 / 2
    assert found["active_epochs_per_weekend_day"] == 1 / 2
    assert found["spatial_entropy"] == pytest.approx(oracle.entropy([3, 1, 1]))
    assert found["temporal_entropy"] == pytest.approx(oracle.entropy([1, 1, 1, 2]))


def test_a_period_without_weekend_says_nothing_of_weekends():
    dense = np.ones((2, 2, 24), bool)
    found = by_name(traits.characteristics(traces_of(dense), np.full(24, MONDAY)))
    assert (found["events_per_weekend_day"] == 0).all()
    assert (found["events_per_weekday"] == 48).all()
    assert (found["spatial_entropy"] == 1).all()


@given(st.data(), crowds())
def test_a_period_is_as_if_nothing_else_were(data, dense):
    n_epochs = dense.shape[2]
    first = data.draw(st.integers(0, n_epochs - 1))
    last = data.draw(st.integers(first + 1, n_epochs))
    days = MONDAY + np.arange(n_epochs) // 2
    np.testing.assert_array_equal(
        traits.characteristics(cut(traces_of(dense), first, last), days[first:last]),
        traits.characteristics(traces_of(dense[:, :, first:last]), days[first:last]),
    )


def test_every_epoch_has_a_day():
    with pytest.raises(InputError, match="9 epochs and 8 days"):
        movement(traces_of(np.ones((1, 1, 9), bool)), np.zeros(8, int))


@given(crowds())
def test_frequencies_are_shares_of_visits(dense):
    found = traits.frequency(traces_of(dense))
    counts = dense.sum(axis=(0, 1))
    if counts.sum():
        np.testing.assert_allclose(found, counts / counts.sum())
        assert found.sum() == pytest.approx(1)
    else:
        assert np.isnan(found).all()
