"""What few people did, hidden or blurred, against plain loops."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from mechanisms.published import BOUNDS, MATRICES, RARE, publish, refusal
from scipy import stats

from clusterscale import mechanisms
from clusterscale.errors import ConfigError, InputError
from clusterscale.mechanisms import user_level


def small(**params):
    return mechanisms.create("suppress_small", **params)


def unpopular(fraction):
    return mechanisms.create("suppress_unpopular", fraction=fraction)


def perturb(below=3, epsilon=0.5):
    return mechanisms.create("perturb_small", below=below, epsilon=epsilon)


@given(counts=MATRICES, threshold=st.integers(1, 9))
def test_small_counts_are_zeroed(counts, threshold):
    below = publish(small(below=threshold), counts)
    up_to = publish(small(up_to=threshold), counts)
    for cell, count in np.ndenumerate(counts):
        assert below[cell] == (0 if count < threshold else count)
        assert up_to[cell] == (0 if count <= threshold else count)
    np.testing.assert_array_equal(publish(small(below=threshold), below), below)
    np.testing.assert_array_equal(publish(small(up_to=threshold), up_to), up_to)
    if threshold > 1:
        np.testing.assert_array_equal(publish(small(up_to=threshold - 1), counts), below)


def test_noisy_values_are_held_against_the_threshold_as_they_are():
    values = np.array([[2.999, 3.0, -4.0, 3.5, 0.0]])
    for mechanism, expected in (
        (small(below=3), [[0, 3, 0, 3.5, 0]]),
        (small(up_to=3), [[0, 0, 0, 3.5, 0]]),
    ):
        revised = values.copy()
        mechanism.revise(revised)
        np.testing.assert_array_equal(revised, expected)


@given(counts=MATRICES, k=st.integers(2, 9))
def test_a_threshold_hides_small_counts_in_three_ways(counts, k):
    zero, hidden, label = (
        publish(mechanisms.create("threshold", k=k, shown=shown), counts)
        for shown in ("zero", "hidden", "label")
    )
    for cell, count in np.ndenumerate(counts):
        assert zero[cell] == hidden[cell] == (0 if count < k else count)
        assert label[cell] == (k / 2 if 0 < count < k else count)
    np.testing.assert_array_equal(zero, publish(small(below=k), counts))


@for_each(
    ("rule", "contributions", "hidden"),
    [  # by the definitions of both rules, for cells to which each person contributes one visit
        ({"n": 1, "share": 0.5}, 1, True),
        ({"n": 1, "share": 0.5}, 2, False),  # exactly half
        ({"n": 2, "share": 0.85}, 2, True),
        ({"n": 2, "share": 0.85}, 3, False),
        ({"n": 3, "share": 0.3}, 9, True),
        ({"n": 3, "share": 0.3}, 10, False),
        ({"percent": 10.0}, 2, True),
        ({"percent": 10.0}, 3, False),
        ({"percent": 100.0}, 2, True),
        ({"percent": 100.0}, 3, False),
    ],
)
def test_dominated_cells_are_hidden(rule, contributions, hidden):
    if "share" in rule:
        assert hidden == (rule["n"] / contributions > rule["share"])
    else:
        assert hidden == (contributions - 2 < rule["percent"] / 100)
    values = publish(mechanisms.create("dominance", **rule), np.array([[contributions]]))
    assert values.item() == (0 if hidden else contributions)


@pytest.mark.parametrize(
    ("name", "fields", "error"),
    [
        ("threshold", {"k": 1}, "k: is 1, but should be greater than or equal to 2"),
        ("dominance", {}, "give exactly one of share, percent"),
        ("dominance", {"share": 0.5, "percent": 10.0}, "give exactly one of share, percent"),
        ("dominance", {"n": 2, "percent": 10.0}, "n is for share: percent is about the two"),
    ],
)
def test_rules_of_small_counts_that_make_no_sense_are_refused(name, fields, error):
    with pytest.raises(ConfigError, match=error):
        mechanisms.create(name, **fields)


FRACTIONS = st.sampled_from([0.1, 0.2, 0.25, 0.29, 1 / 3, 0.5, 0.57, 0.6, 0.75, 0.8, 0.9, 0.99])


def least(sums, n):
    """The n lowest, ties by index."""
    return {i for _, i in sorted((total, i) for i, total in enumerate(sums))[:n]}


@given(counts=MATRICES, fraction=FRACTIONS)
def test_unpopular_cells_are_zeroed(counts, fraction):
    n_rois, n_epochs = counts.shape[-2:]
    share = Fraction(fraction).limit_denominator(100)
    few_rois, few_epochs = int(share * n_rois), int(share * n_epochs)
    if not few_rois or not few_epochs:
        with pytest.raises(ConfigError) as caught:
            publish(unpopular(fraction), counts)
        assert str(caught.value) == (
            f"suppress_unpopular: fraction {fraction} of {n_rois} ROIs or {n_epochs} epochs is "
            "less than one"
        )
        return
    released = publish(unpopular(fraction), counts)
    for batch in np.ndindex(counts.shape[:-2]):
        matrix = counts[batch].tolist()
        rois = least([sum(row) for row in matrix], few_rois)
        epochs = least([sum(column) for column in zip(*matrix, strict=True)], few_epochs)
        for roi in range(n_rois):
            for epoch in range(n_epochs):
                hidden = roi in rois and epoch in epochs
                assert released[batch][roi, epoch] == (0 if hidden else matrix[roi][epoch])
    np.testing.assert_array_equal(publish(unpopular(fraction), released), released)


@pytest.mark.parametrize(("fraction", "n", "share"), [(0.29, 100, 29), (0.8, 5, 4), (0.35, 20, 7)])
def test_share_is_that_of_the_decimal_number(fraction, n, share):
    """.29 · 100 is 28.999999999999996."""
    released = publish(unpopular(fraction), np.ones((n, n), np.int32))
    assert (released == 0).sum() == share**2
    assert (released[:share, :share] == 0).all()


def test_ties_go_by_index():
    """Every other place is quiet, every third hour, and more of them than are hidden."""
    counts = 1 + np.arange(100)[:, None] % 2 + (np.arange(99) % 3 > 0)
    released = publish(unpopular(0.25), counts)
    np.testing.assert_array_equal(np.flatnonzero((released == 0).any(axis=1)), np.arange(0, 50, 2))
    np.testing.assert_array_equal(np.flatnonzero((released == 0).any(axis=0)), np.arange(0, 72, 3))


@given(counts=MATRICES, below=st.integers(1, 8), seed=st.integers(0, 99))
def test_small_counts_are_perturbed(counts, below, seed):
    """The same noise, drawn one by one."""
    released = publish(perturb(below), counts, seed=seed)
    rng = np.random.default_rng(seed)
    for cell, count in np.ndenumerate(counts):
        if count < below:
            noisy = int(count) + rng.laplace(0.0, 2.0)
            assert released[cell] == max(round(noisy), 0)
        else:
            assert released[cell] == count


def test_law_of_perturbed_counts():
    """Rounded Laplace noise, what is below 0 gathered there."""
    counts = np.ones((200, 10, 20), np.int32)
    released = publish(perturb(), counts).astype(int).ravel()
    at = np.arange(60)
    upper, lower = (stats.laplace(1, 2.0).cdf(at + half) for half in (0.5, -0.5))
    law = np.where(at == 0, upper, upper - lower)
    observed = np.bincount(np.minimum(released, 59), minlength=60)
    keep = law * released.size > 5
    expected = np.append(law[keep], law[~keep].sum()) * released.size
    observed = np.append(observed[keep], observed[~keep].sum())
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > RARE


def test_nothing_is_promised():
    fixed = "a deterministic function of the counts"
    blended = (
        "(below, epsilon)-crowd-blending (Gehrke et al. 2012), which is not differential "
        "privacy: counts at or above the threshold are published unchanged"
    )
    for mechanism, reason in (
        (small(below=2), fixed),
        (unpopular(0.5), fixed),
        (perturb(), blended),
    ):
        guarantee = mechanism.guarantee
        assert (guarantee.unit, guarantee.epsilon, guarantee.reason) == ("none", np.inf, reason)
        assert mechanism.noise is None
        assert mechanism.bind(BOUNDS) is mechanism
        assert user_level(mechanism, BOUNDS).epsilon == np.inf


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (small(below=11), "suppress_small: below 11 covers all counts of 10"),
        (small(up_to=10), "suppress_small: up to 10 covers all counts of 10"),
        (perturb(below=11), "perturb_small: below 11 covers all counts of 10"),
    ],
)
def test_thresholds_beyond_every_count(mechanism, message):
    with pytest.raises(ConfigError) as caught:
        publish(mechanism, np.zeros((2, 3), np.int32))
    assert str(caught.value) == message
    assert publish(mechanism, np.zeros((2, 3), np.int32), group_size=11) is not None


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[-1, 2]], "counts from -1 to 2 are impossible in a group of 10 members"),
        ([[0, 11]], "counts from 0 to 11 are impossible in a group of 10 members"),
        ([[0.5, 1.0]], "counts are not whole numbers"),
    ],
)
def test_what_is_no_count_is_refused(counts, message):
    with pytest.raises(InputError) as caught:
        publish(perturb(), np.array(counts))
    assert str(caught.value) == message


@for_each(
    ("name", "params", "message"),
    [
        ("suppress_small", {}, "give exactly one of below, up_to"),
        ("suppress_small", {"below": 1, "up_to": 1}, "give exactly one of below, up_to"),
        (
            "suppress_small",
            {"below": 0},
            "below: is 0, but should be greater than or equal to 1",
        ),
        (
            "suppress_small",
            {"up_to": 1.5},
            "up_to: is 1.5, but should be a whole number",
        ),
        (
            "suppress_unpopular",
            {"fraction": 0.0},
            "fraction: is 0.0, but should be greater than 0",
        ),
        (
            "suppress_unpopular",
            {"fraction": 1.0},
            "fraction: is 1.0, but should be less than 1",
        ),
        (
            "perturb_small",
            {"below": 3, "epsilon": 0.0},
            "epsilon: is 0.0, but should be greater than 0",
        ),
        (
            "perturb_small",
            {"below": 0, "epsilon": 1.0},
            "below: is 0, but should be greater than or equal to 1",
        ),
        ("perturb_small", {"epsilon": 1.0}, "below: is missing"),
    ],
)
def test_nonsense_is_refused(name, params, message):
    assert refusal(name, **params) == message
