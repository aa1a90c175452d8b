"""Numbers of visits have the law that they are said to have."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from mechanisms.published import RARE, fits
from scipy import stats

from clusterscale.errors import ConfigError, InputError, UnknownNameError
from clusterscale.priors.zero_knowledge import Constant, Exponential, LogNormal, VisitCounts
from clusterscale.priors.zero_knowledge.synthesis import ACTIVITIES

LAWS = [Exponential(), LogNormal(), LogNormal(sigma=0.4), Constant()]
RANDOM = LAWS[:-1]
N = 20_000


def law_of(activity, mean):
    """The law before it is rounded, as scipy has it."""
    if isinstance(activity, Exponential):
        return stats.expon(scale=mean)
    return stats.lognorm(s=activity.sigma, scale=mean * np.exp(-(activity.sigma**2) / 2))


def draw(activity, mean, n=N, seed=1):
    return activity.draw(mean, n, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("activity", RANDOM, ids=lambda law: law.label)
@pytest.mark.parametrize("seed", [1, 2])
def test_many_visits_have_the_law(activity, seed):
    """So many that rounding is nothing to them."""
    found = draw(activity, 1e7, seed=seed)
    assert stats.kstest(found, law_of(activity, 1e7).cdf).pvalue > RARE


@pytest.mark.parametrize("activity", RANDOM, ids=lambda law: law.label)
def test_another_law_is_told_apart(activity):
    """The test above can fail: a mean that is 6 % off is seen."""
    assert stats.kstest(draw(activity, 1.06e7), law_of(activity, 1e7).cdf).pvalue < RARE


@pytest.mark.parametrize("activity", RANDOM, ids=lambda law: law.label)
@pytest.mark.parametrize("mean", [0.8, 1.7, 4.7, 30.0])
def test_few_visits_are_rounded_and_at_least_one(activity, mean):
    """P(k) is the law's mass from k − ½ to k + ½, and all below 1½ is 1."""
    most = 400
    cdf = law_of(activity, mean).cdf(np.arange(1, most) + 0.5)
    expected = N * np.append(np.diff(cdf, prepend=0.0), 1 - cdf[-1])
    found = np.minimum(draw(activity, mean), most)
    assert found.min() >= 1
    assert fits(np.bincount(found, minlength=most + 1)[1:], expected)


@pytest.mark.parametrize("activity", LAWS, ids=lambda law: law.label)
@pytest.mark.parametrize("mean", [5e4, 3e9])
def test_mean_is_the_one_asked_for(activity, mean):
    found = draw(activity, mean)
    error = 0.0 if isinstance(activity, Constant) else law_of(activity, mean).std() / np.sqrt(N)
    assert found.mean() == pytest.approx(mean, abs=4 * error + 0.5)


@for_each(("mean", "visits"), [(0, 1), (0.2, 1), (1.4, 1), (1.6, 2), (7.0, 7)])
def test_constant_is_the_mean_rounded(mean, visits):
    np.testing.assert_array_equal(draw(Constant(), mean, n=5), np.full(5, visits))


@pytest.mark.parametrize("activity", LAWS, ids=lambda law: law.label)
def test_who_is_never_active_makes_one_visit(activity):
    np.testing.assert_array_equal(draw(activity, 0.0, n=9), np.ones(9))


@given(
    st.sampled_from(LAWS),
    st.floats(0, 1e5),
    st.floats(0, 1e5),
    st.integers(0, 50),
    st.integers(0, 2**32 - 1),
)
def test_a_larger_mean_makes_nobody_less_active(activity, one, other, n, seed):
    """Equal generators are left in equal states, too."""
    rngs = [np.random.default_rng(seed) for _ in range(2)]
    less, more = (
        activity.draw(mean, n, rng=rng)
        for mean, rng in zip(sorted([one, other]), rngs, strict=True)
    )
    assert less.dtype == np.int64
    assert less.shape == (n,)
    assert (less >= 1).all()
    assert (less <= more).all()
    assert rngs[0].random() == rngs[1].random()


@pytest.mark.parametrize("activity", LAWS, ids=lambda law: law.label)
@pytest.mark.parametrize("mean", [-1e-9, -3.0, np.nan, np.inf])
def test_what_is_no_mean_is_refused(activity, mean):
    with pytest.raises(
        InputError, match=rf"^the mean of visits is {mean}: it must be finite and not negative$"
    ):
        draw(activity, mean)


@for_each("sigma", [0.0, -1.0, 5.1, np.nan, "1"])
def test_what_is_no_deviation_is_refused(sigma):
    with pytest.raises(ConfigError, match=r"^activity\.lognormal\.sigma: "):
        ACTIVITIES.create("lognormal", sigma=sigma)


def test_the_law_is_chosen_by_name():
    assert list(ACTIVITIES) == ["constant", "exponential", "lognormal"]
    assert ACTIVITIES.create("lognormal", sigma=0.4) == LAWS[2]
    assert ACTIVITIES.create("lognormal").sigma == 1.0
    with pytest.raises(UnknownNameError, match="exponential"):
        ACTIVITIES.create("exponental")
    with pytest.raises(ConfigError, match="sigma"):
        ACTIVITIES.create("exponential", sigma=1.0)


@pytest.mark.parametrize("activity", LAWS, ids=lambda law: law.label)
def test_visits_draw_from_their_law(activity):
    visits = pickle.loads(pickle.dumps(VisitCounts(6.0, activity)))
    found = visits.draw(100, rng=np.random.default_rng(4))
    np.testing.assert_array_equal(found, draw(activity, 6.0, n=100, seed=4))


def test_visits_are_exponential_unless_told_otherwise():
    assert VisitCounts(3.0) == VisitCounts(3.0, Exponential())
