"""What every prior and every strategy of a recovery must keep, whatever it is called."""

import pickle

import numpy as np
import pytest
from loops import for_each

from clusterscale.analyses.recovery import BELIEFS, STRATEGIES, with_null
from clusterscale.analyses.recovery.epoch_belief import EpochBelief
from clusterscale.analyses.recovery.estimates import Aggregate, InferencePrior, InferenceStrategy
from clusterscale.analyses.recovery.functional import _visits_of

OBSERVED = 170


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(8)
    there = with_null((rng.random((30, 7, 180)) < 0.3) & (rng.random((30, 1, 180)) < 0.6))
    return _visits_of(there)


def belief_of(name, visits, epoch=175):
    return BELIEFS.create(name).belief(visits, OBSERVED, epoch)


def same(one: EpochBelief, other: EpochBelief):
    return all(
        np.array_equal(getattr(one, part), getattr(other, part))
        for part in ("begin", "end", "user", "probability")
    )


@for_each("name", list(BELIEFS))
def test_a_prior(name, visits):
    belief = BELIEFS.create(name)
    assert isinstance(belief, InferencePrior)
    assert pickle.loads(pickle.dumps(belief)) == belief
    found = belief_of(name, visits)
    assert same(found, belief_of(name, visits))
    assert found.n_users == visits.n_users
    assert found.n_rois == visits.n_places + 1
    for begin, end in zip(found.begin, found.end, strict=True):
        assert (np.diff(found.user[begin:end]) > 0).all()
    table = found.table()
    assert ((table > 0) <= (table <= 1)).all()
    total = table.sum(axis=1)
    if name.startswith("last"):
        assert set(np.unique(table)) <= {0, 1}
    else:
        np.testing.assert_allclose(total, 1)
    assert (total > 0).all()
    alike = [t for t in range(OBSERVED, 180) if belief.season(t) == belief.season(175)]
    assert all(same(belief_of(name, visits, t), found) for t in alike)
    assert belief.needs <= OBSERVED


@for_each("prior", list(BELIEFS))
@for_each("name", list(STRATEGIES))
def test_a_strategy(name, prior, visits):
    strategy = STRATEGIES.create(name)
    assert isinstance(strategy, InferenceStrategy)
    assert pickle.loads(pickle.dumps(strategy)) == strategy
    truth, believed = visits.truth(175), belief_of(prior, visits)
    counts = (truth.end - truth.begin).astype(np.float64)
    noisy = counts + np.random.default_rng(1).laplace(size=len(counts))
    activity = np.arange(visits.n_users)[::-1].copy()
    for values in (counts, noisy, np.zeros_like(counts), np.full_like(counts, 1e9)):
        estimate = strategy.estimate(believed, Aggregate(values, activity))
        again = strategy.estimate(believed, Aggregate(values, activity))
        assert same(estimate.belief, again.belief)
        shares = estimate.belief.table() * estimate.weights
        assert shares.shape == (visits.n_users, len(counts))
        assert np.isfinite(shares).all()
        assert (shares >= 0).all()
        if not estimate.normalised:  # an assignment
            most = np.rint(np.clip(values[:-1], 0, visits.n_users))
            assert (shares[:, :-1].sum(axis=0) <= most).all()
            assert (shares.sum(axis=1) > 0).all()
