"""Statistics of noise are those that NumPy and SciPy give, and see each part of a table."""

from itertools import repeat

import numpy as np
import pytest
from consistency.tables import EVENT, bound, draw_counts
from loops import for_each
from scipy import stats

from clusterscale.release.checks.noise_law import NAMES, ReferenceMoments, estimate_null

COUNTS = draw_counts(3, shape=(10, 30))
LAPLACE = bound(**EVENT)
EVERYWHERE = np.ones_like(COUNTS, bool)


def releases(seed=1, mechanism=LAPLACE):
    rng = np.random.default_rng(seed)
    while True:
        yield mechanism.release(COUNTS, group_size=20, rng=rng)


def pilot(known=EVERYWHERE, mechanism=LAPLACE, n=60):
    drawn = releases(mechanism=mechanism)
    return estimate_null(ReferenceMoments.of(COUNTS, known, drawn, n), drawn, n)


def statistic(values, name, known=EVERYWHERE, mechanism=LAPLACE):
    found, off = pilot(known, mechanism).measure(values)
    return found[NAMES.index(name)], off[NAMES.index(name)]


VALUES = next(releases(9))
NOISE = VALUES - COUNTS


def test_as_many_as_names():
    found, off = pilot().measure(VALUES)
    assert len(found) == len(off) == len(NAMES)
    assert (off < 6).all()


@pytest.mark.parametrize("known", [EVERYWHERE, COUNTS < 3], ids=["all", "some"])
def test_moments_are_those_of_the_known_noise(known):
    noise = NOISE[known]
    for name, due in (
        ("mean of the noise", noise.mean()),
        ("standard deviation of the noise", noise.std()),
        ("mean size of the noise", np.abs(noise).mean()),
        ("share of whole values", 0),
    ):
        assert statistic(VALUES, name, known)[0] == pytest.approx(due)


def test_shares_up_to_quantiles_are_the_distribution_function():
    frame = pilot().reference
    found, _ = pilot().measure(VALUES)
    shares = found[np.array(NAMES) == "share of noise up to a quantile"]
    due = stats.ecdf(NOISE.ravel()).cdf.evaluate(frame.edges)
    np.testing.assert_allclose(shares, due)


def test_correlations_are_those_of_numpy():
    frame = pilot().reference
    away = (VALUES - frame.mean) / frame.spread
    square = (away**2).sum()
    at_lag = [(away[:, lag:] * away[:, :-lag]).sum() / square for lag in range(1, 30)]
    for name, due in (
        ("correlation of the noise from one epoch to the next", at_lag[0]),
        (
            "correlation of the noise from one ROI to the next",
            (away[1:] * away[:-1]).sum() / square,
        ),
        ("largest correlation of the noise between epochs at any distance", np.abs(at_lag).max()),
    ):
        assert statistic(VALUES, name)[0] == pytest.approx(due)


def test_moments_of_cells_are_those_of_the_releases():
    drawn = releases()
    frame = ReferenceMoments.of(COUNTS, EVERYWHERE, drawn, 50)
    again = releases()
    every = np.array([next(again) for _ in range(50)])
    np.testing.assert_allclose(frame.mean, every.mean(axis=0))
    np.testing.assert_allclose(frame.spread, every.std(axis=0))
    assert not frame.fixed.any()
    assert np.bincount(frame.parts).tolist() == [38, 37, 38, 37, 38, 37, 38, 37]


@for_each(
    ("name", "values"),
    [
        ("smallest root size of the noise in a ROI, in standard errors",
         COUNTS + NOISE * (np.arange(10) != 4)[:, None]),
        ("largest root size of the noise in a ROI, in standard errors",
         COUNTS + NOISE * np.where(np.arange(10) == 4, 5, 1)[:, None]),
        ("smallest root size of the noise in an epoch, in standard errors",
         COUNTS + NOISE * (np.arange(30) != 4)),
        ("largest root size of the noise in an epoch, in standard errors",
         COUNTS + NOISE * np.where(np.arange(30) == 4, 9, 1)),
        ("correlation of the noise from one epoch to the next", COUNTS + NOISE[:, :1]),
        ("correlation of the noise from one ROI to the next", COUNTS + NOISE[:1]),
        ("largest correlation of the noise between epochs at any distance",
         COUNTS + np.tile(NOISE[:, :6], 5)),
        ("share of whole values", np.rint(VALUES)),
        ("share of values that are exactly 0", np.maximum(VALUES, 0)),
        ("mean of the noise", VALUES + 1),
        ("mean size of the noise", COUNTS + NOISE / 2),
    ],
)  # fmt: skip
def test_each_sees_its_fault(name, values):
    assert statistic(values, name)[1] > 4


def test_fixed_cells_are_counted_one_by_one():
    small = bound("perturb_small", below=3, epsilon=0.5)
    values = next(releases(2, small))
    assert statistic(values, NAMES[0], mechanism=small)[0] == 0
    values[COUNTS >= 3] += 1
    found, off = statistic(values, NAMES[0], mechanism=small)
    assert found == (COUNTS >= 3).sum()
    assert off == 8 * found


def test_what_never_varies_is_no_noise():
    frame = ReferenceMoments.of(COUNTS, EVERYWHERE, repeat(COUNTS.astype(float)), 20)
    assert frame.fixed.all()
    assert not frame.varied.any()
    found, off = estimate_null(frame, repeat(COUNTS.astype(float)), 20).measure(
        COUNTS.astype(float)
    )
    assert off == pytest.approx(np.zeros(len(NAMES)), abs=1e-9)
    assert np.isfinite(found).all()
