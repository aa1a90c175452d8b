"""What mechanisms publish in tests, and what they say when they refuse."""

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from clusterscale import mechanisms
from clusterscale.contracts import Bounds
from clusterscale.errors import ConfigError

BOUNDS = Bounds(event=1, user_day=5, user=9, series=4, rois=2, null_roi=False)
WITH_NULL = Bounds(event=2, user_day=8, user=16, series=7, rois=3, null_roi=True)

# With fixed seeds each statistic is fixed too; a sound law falls below this once in a thousand
# seeds, so a test that is run again with other seeds may fail that often.
RARE = 0.001

# Small counts of up to 6 members, alone and in batches, empty ones too.
SHAPES = st.one_of(
    st.tuples(st.integers(1, 5), st.integers(1, 6)),
    st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(1, 6)),
    st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 4), st.integers(1, 4)),
)
MATRICES = SHAPES.flatmap(lambda shape: hnp.arrays(np.int32, shape, elements=st.integers(0, 6)))


def publish(mechanism, counts, *, group_size=10, seed=5):
    return mechanism.release(counts, group_size=group_size, rng=np.random.default_rng(seed))


def refusal(name, **params):
    """Why the mechanism cannot be made, without the path of its name."""
    with pytest.raises(ConfigError) as caught:
        mechanisms.create(name, **params)
    return str(caught.value).removeprefix(f"mechanism.{name}").removeprefix(".").lstrip(": ")


def fits(observed, expected):
    """Chi-square test of numbers of draws against a law; rare outcomes are put together."""
    order = np.argsort(expected)
    observed, expected = np.asarray(observed)[order], np.asarray(expected, float)[order]
    n_rare = int(np.searchsorted(np.cumsum(expected) >= 5, True)) + 1
    observed, expected = (
        np.concatenate([[part[:n_rare].sum()], part[n_rare:]]) for part in (observed, expected)
    )
    return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > RARE


def alike(one, other):
    """Chi-square test that two samples of whole numbers come from one law."""
    values = np.unique(np.concatenate([one, other]))
    table = np.array([[np.sum(sample == value) for value in values] for sample in (one, other)])
    rare = table.sum(axis=0) < 20
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    return table.shape[1] == 1 or stats.chi2_contingency(table).pvalue > RARE


def fourier(coefficients, epsilon=2.0, l2_sensitivity=1.5, **more):
    return mechanisms.create(
        "fourier",
        epsilon=epsilon,
        coefficients=coefficients,
        l2_sensitivity=l2_sensitivity,
        **more,
    )


def enhanced(epsilon=2.0, delta=0.1, l2_sensitivity=1.5, **more):
    return mechanisms.create(
        "enhanced_fourier", epsilon=epsilon, delta=delta, l2_sensitivity=l2_sensitivity, **more
    )
