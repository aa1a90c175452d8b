"""Importances are those of scikit-learn, called directly, and sides are what they say."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from clusterscale.analyses import traits
from clusterscale.errors import InputError
from clusterscale.metrics import auc
from clusterscale.seeds import stream


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(0)
    top, bottom = rng.normal(size=(20, 5)), rng.normal(size=(15, 5))
    top[:, 1] += 2
    top[:, 2] -= 1
    top[:, 3] = bottom[:, 3] = 7.25  # tells nothing
    return top, bottom


def rng():
    return stream(3, "test")


def test_they_are_those_of_scikit_learn(pair):
    found = traits.importance(*pair, trees=200, rng=rng())
    inputs, labels = np.concatenate(pair), np.repeat([1, 0], [20, 15])
    seed = int(rng().integers(1 << 32))
    forest = RandomForestClassifier(200, oob_score=True, random_state=seed).fit(inputs, labels)
    np.testing.assert_array_equal(found.forest_importance, forest.feature_importances_)
    assert found.forest_accuracy == forest.oob_score_
    model = LogisticRegression(solver="liblinear")
    model.fit(StandardScaler().fit_transform(inputs), labels)
    np.testing.assert_allclose(found.logistic_coefficient, model.coef_[0], atol=1e-9)
    for i in range(5):
        assert found.separation[i] == pytest.approx(auc(labels == 1, inputs[:, i]))
    for side, rows in zip(("top", "bottom"), pair, strict=True):
        np.testing.assert_allclose(getattr(found, f"{side}_mean"), rows.mean(axis=0))
        np.testing.assert_allclose(getattr(found, f"{side}_sd"), rows.std(axis=0))


def test_what_is_the_same_for_all_is_no_matter(pair):
    found = traits.importance(*pair, trees=100, rng=rng())
    assert found.forest_importance[3] == found.logistic_coefficient[3] == 0
    assert found.separation[3] == 0.5
    assert found.forest_importance.sum() == pytest.approx(1)
    same = traits.importance(np.ones((3, 2)), np.ones((3, 2)), trees=50, rng=rng())
    assert (same.forest_importance == 0).all()
    assert (same.logistic_coefficient == 0).all()


def test_signs_say_who_has_more(pair):
    one = traits.importance(*pair, trees=100, rng=rng())
    other = traits.importance(*pair[::-1], trees=100, rng=rng())
    assert one.logistic_coefficient[1] > 0 > one.logistic_coefficient[2]
    np.testing.assert_allclose(one.separation, 1 - other.separation)
    np.testing.assert_allclose(one.logistic_coefficient, -other.logistic_coefficient, atol=1e-3)


def test_large_sides_are_drawn_from_for_training_alone(pair, monkeypatch):
    monkeypatch.setattr(import_module("clusterscale.analyses.traits.importance"), "MOST", 6)
    top, bottom = pair
    found = traits.importance(top, bottom, trees=100, rng=rng())
    again = traits.importance(top, bottom, trees=100, rng=rng())
    draw = rng()
    few = [rows[np.sort(draw.choice(len(rows), 6, replace=False))] for rows in pair]
    seed = int(draw.integers(1 << 32))
    forest = RandomForestClassifier(100, random_state=seed)
    forest.fit(np.concatenate(few), np.repeat([1, 0], 6))
    np.testing.assert_array_equal(found.forest_importance, forest.feature_importances_)
    np.testing.assert_array_equal(found.forest_importance, again.forest_importance)
    np.testing.assert_allclose(found.top_mean, top.mean(axis=0))
    assert found.separation[1] == pytest.approx(
        auc(np.repeat([True, False], [20, 15]), np.concatenate(pair)[:, 1])
    )


@given(
    st.lists(st.sampled_from([0.5, 0.6, 0.75, 1.0]), min_size=4, max_size=40),
    st.floats(0.01, 0.5),
)
def test_sides_are_apart_and_in_order(auc, share):
    exposure = np.array(auc)
    try:
        top, bottom = traits.extreme_groups(exposure, share)
    except InputError:
        assert np.ceil(share * len(exposure) - 1e-9) < 2
        return
    assert len(top) == len(bottom) == min(np.ceil(share * len(auc) - 1e-9), len(auc) // 2)
    assert not set(top) & set(bottom)
    ranked = sorted(range(len(auc)), key=lambda i: (-auc[i], i))
    assert top.tolist() == ranked[: len(top)]
    assert bottom.tolist() == ranked[-len(bottom) :]


@given(st.lists(st.tuples(*[st.sampled_from([0.5, 0.75, 1.0])] * 2), min_size=4, max_size=40))
def test_equals_are_told_apart_by_the_second_number(pairs):
    auc, second = np.array(pairs).T
    top, bottom = traits.extreme_groups(auc, 0.5, second)
    ranked = sorted(range(len(auc)), key=lambda i: (-auc[i], -second[i], i))
    assert [*top, *bottom] == ranked[: len(top)] + ranked[-len(bottom) :]


def test_a_tenth_of_150_are_15():
    top, bottom = traits.extreme_groups(np.linspace(0, 1, 150), 0.1)
    assert top.tolist() == list(range(149, 134, -1))
    assert bottom.tolist() == list(range(14, -1, -1))


@for_each(
    ("auc", "share", "message"),
    [
        (np.ones(10), 0.1, "a share of 0.1 of 10 users is 1: each group needs at least 2"),
        (np.ones(3), 0.5, "a share of 0.5 of 3 users is 1"),
        (np.ones(10), 0.6, "above 0 and at most 0.5, not 0.6"),
        (np.ones(10), 0.0, "above 0 and at most 0.5, not 0.0"),
        (np.array([1, np.nan, 1, 1]), 0.5, "auc and second must be one finite number"),
        (np.ones((4, 4)), 0.5, "auc and second must be one finite number"),
    ],
)
def test_sides_that_cannot_be_are_refused(auc, share, message):
    with pytest.raises(InputError, match=message):
        traits.extreme_groups(auc, share)


def test_a_second_number_goes_with_each_user():
    with pytest.raises(InputError, match="auc and second must be one finite number"):
        traits.extreme_groups(np.ones(10), 0.5, np.ones(9))


def test_tables_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match=r"\(2, 3\) and \(2, 4\)"):
        traits.importance(np.ones((2, 3)), np.ones((2, 4)), rng=rng())
    with pytest.raises(InputError, match="1 users against 5"):
        traits.importance(np.ones((1, 3)), np.ones((5, 3)), rng=rng())
