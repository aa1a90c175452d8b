"""Tables that are published in tests."""

import numpy as np
from oracles.entries import build

from clusterscale.contracts import Bounds
from clusterscale.mechanisms import MECHANISMS
from clusterscale.mechanisms import create as mechanism
from clusterscale.release.checks import PublishedTable, create

BOUNDS = Bounds(event=1, user_day=3, user=6, series=3, rois=4, null_roi=False)
EVENT = {"name": "laplace", "epsilon": 1.0, "unit": "event"}
UP_TO = {"name": "suppress_small", "up_to": 2}


def bound(name, **fields):
    """A mechanism by its name, with the fields of its example where none are given."""
    made = mechanism(name, **fields) if fields else build(MECHANISMS, name)
    return made.bind(BOUNDS)


def chain(*steps):
    return bound("chain", steps=list(steps))


def draw_counts(seed=1, shape=(8, 24), mean=3.0, size=20):
    rng = np.random.default_rng([seed, 77])
    busy = rng.gamma(1.5, mean / 1.5, (shape[0], 1))
    return np.minimum(rng.poisson(busy, shape), size).astype(np.int32)


def draw_visits(seed, n_users, shape=(8, 24), share=0.5):
    """Visits of users who keep to a few ROIs, bool (user, roi, epoch)."""
    rng = np.random.default_rng([seed, 78])
    place = rng.dirichlet(np.full(shape[0], 0.4), n_users)
    there = np.array([rng.choice(shape[0], shape[1], p=each) for each in place])
    awake = rng.random(there.shape) < share
    return (there[:, None] == np.arange(shape[0])[:, None]) & awake[:, None]


def released(declared, counts, seed=5, size=20):
    return declared.release(counts, group_size=size, rng=np.random.default_rng(seed))


def table(declared, counts, values=None, *, size=20, name="week 1", first=0, known=None, **totals):
    """What ``declared`` publishes of the counts, or other ``values`` in its name."""
    counts = np.asarray(counts, np.int32)
    values = released(declared, counts, size=size) if values is None else values
    known = counts if known is None else known
    given = {key: np.asarray(value, float) for key, value in totals.items()}
    values = np.array(values, np.float64)
    return PublishedTable(name, values, size, declared, first, np.asarray(known, np.int32), **given)


def find(check, published, others=(), seed=9, **fields):
    found = create(check, **fields).check(published, others, rng=np.random.default_rng(seed))
    assert found.check == check
    assert found.text
    return found
