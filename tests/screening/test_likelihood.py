"""The likelihood attack of a screen is that of the output distribution, beside one's own."""

from math import comb

import numpy as np
import pytest
from conftest import draw_dense, write_cube
from loops import for_each
from running import run_screen as run
from screening.brute import Brute

from clusterscale.analyses.screening import Screen, ScreenPlan
from clusterscale.attacks import create as attack
from clusterscale.cube import measure_bounds
from clusterscale.cube.blocks import Source
from clusterscale.mechanisms import create
from clusterscale.mechanisms.cell_key import perturbation_table
from clusterscale.runtime import SerialExecutor

SIZE, N_USERS, SHAPE = 15, 100, (4, 12)
every_count = np.arange(SIZE + 1)
PLAN = ScreenPlan(groups=60, attacks=(attack("likelihood"),))


def is_equal(values, published):
    return (values[:, None] == published[None]).astype(float)


def unchanged(values):
    return is_equal(values, every_count)


def hidden(values, k=3):
    return is_equal(values, np.where(every_count < k, 0, every_count))


def labelled(values, k=3):
    return is_equal(values, np.where((every_count < k) & (every_count > 0), k / 2, every_count))


def to_nearest(values, counts=every_count, base=5):
    return is_equal(values, base * np.floor(counts / base + 0.5))


def at_random(values, counts=every_count, base=3):
    up = counts % base / base
    low = counts - counts % base
    return is_equal(values, low) * (1 - up) + is_equal(values, low + base) * up


def by_keys(values, deviation=3, variance=2.0):
    table, steps = perturbation_table(deviation, variance), np.arange(-deviation, deviation + 1)
    rows = table[np.minimum(every_count, len(table) - 1)]
    return sum(is_equal(values, every_count + step) * rows[:, i] for i, step in enumerate(steps))


def laplace(values, scale=1.0):
    return np.exp(-np.abs(values[:, None] - every_count) / scale) / (2 * scale)


def geometric(values, scale=2.0):
    """Discrete noise, clipped: what is beyond an end is published as the end."""
    q, far = np.exp(-1 / scale), np.arange(-400, 401)
    noise = q ** np.abs(far) * (1 - q) / (1 + q)
    clipped = np.clip(every_count[:, None] + far, 0, SIZE)
    return np.stack([np.where(clipped == value, noise, 0).sum(axis=1) for value in values])


def binomials(values, draws, p):
    """Probability of each value as the number of successes among the draws of each count."""
    law = [[comb(n, k) * p**k * (1 - p) ** (n - k) if 0 <= k <= n else 0 for k in row]
           for n, row in zip(draws, values.T.astype(int).tolist(), strict=True)]  # fmt: skip
    return np.array(law).T


def sampled(values, remove=0.3):
    wanted = np.broadcast_to(values[:, None], (len(values), SIZE + 1))
    return binomials(wanted, every_count.tolist(), 1 - remove)


def answered(values, p=0.2):
    n_yes = np.round(values * (1 - p) + SIZE * p)
    return binomials(n_yes[:, None] - every_count, (SIZE - every_count).tolist(), p)


def perturbed(values, below=4, epsilon=0.7):
    """By a fine grid of quantiles of the noise."""
    share = (np.arange(200_000) + 0.5) / 200_000
    noise = -np.sign(share - 0.5) * np.log1p(-2 * np.abs(share - 0.5)) / epsilon
    published = np.maximum(np.rint(every_count[:below, None] + noise), 0.0)
    small = [[np.mean(row == value) for row in published] for value in values]
    return np.concatenate([small, is_equal(values, every_count[below:])], axis=1)


THRESHOLD, LABEL = {"name": "threshold", "k": 3}, {"name": "threshold", "k": 3, "shown": "label"}
NEAREST = {"name": "round_to_base", "base": 5, "rule": "nearest"}
RANDOM = {"name": "round_to_base", "base": 3}
GEOMETRIC = {"name": "laplace", "epsilon": 0.5, "unit": "event", "discrete": True, "clip": True}
SMALL = np.where(every_count < 3, 0, every_count)
OWN = [
    ({"name": "exact"}, unchanged),
    (THRESHOLD, hidden),
    (LABEL, labelled),
    (NEAREST, to_nearest),
    (RANDOM, at_random),
    ({"name": "chain", "steps": (THRESHOLD, NEAREST)}, lambda values: to_nearest(values, SMALL)),
    ({"name": "chain", "steps": (THRESHOLD, RANDOM)}, lambda values: at_random(values, SMALL)),
    ({"name": "cell_key", "deviation": 3, "variance": 2.0}, by_keys),
    ({"name": "laplace", "epsilon": 1.0, "unit": "event"}, laplace),
    (GEOMETRIC, geometric),
    ({"name": "sample_events", "remove": 0.3}, sampled),
    ({"name": "randomized_response", "p": 0.2}, answered),
    ({"name": "perturb_small", "below": 4, "epsilon": 0.7}, perturbed),
]


@for_each(("settings", "likelihood"), OWN[-3:])
def test_moments_are_those_of_the_output(settings, likelihood):
    law = create(**settings).law_for_attacks(SIZE)
    chances = law.likelihood(law.possible[:, None], every_count[None])[:, 0]
    np.testing.assert_allclose(chances.sum(axis=0), 1, atol=1e-11)
    np.testing.assert_allclose(chances, likelihood(law.possible), atol=1e-5)
    mean, variance = law.moments(every_count)
    rng, counts = np.random.default_rng(5), np.repeat(every_count[None, None], 1 << 14, axis=0)
    drawn = create(**settings).release(counts, group_size=SIZE, rng=rng)[:, 0]
    error = np.sqrt(variance / len(drawn)) + 1e-9
    assert np.abs(drawn.mean(axis=0) - mean).max() < 5 * error.max(), "five standard errors"
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.12, atol=1e-9)


def binomial(n, p):
    """Probabilities of counts 0 … SIZE, shape (cell, count)."""
    k = np.arange(n + 1)
    law = np.array([comb(n, i) for i in k]) * p[:, None] ** k * (1 - p[:, None]) ** (n - k)
    return np.pad(law, ((0, 0), (0, SIZE - n)))


def evidence(values, p, likelihood, here):
    """Log ratio of each value, shape (group, cell), by enumerating all counts."""
    distinct, which = np.unique(values, return_inverse=True)
    given, others = likelihood(distinct), binomial(SIZE - 1, p)
    inside = np.roll(others, 1, axis=1) if here else others
    with np.errstate(divide="ignore"):
        ratio = np.log(given @ inside.T) - np.log(given @ binomial(SIZE, p).T)
    return np.maximum(np.take_along_axis(ratio, which.reshape(values.shape), axis=0), -1e4)


def auc_of(inside, outside):
    """Share of pairs of different groups that are in order, near ties as half a pair."""
    gap = inside[:, None] - outside[None]
    won = np.where(np.abs(gap) < 1e-4 * (1 + np.abs(inside[:, None])), 0.5, gap > 0)
    return won[~np.eye(len(won), dtype=bool)].mean()


@pytest.fixture(scope="module")
def screened(tmp_path_factory):
    dense = draw_dense(np.random.default_rng(3), N_USERS, *SHAPE)
    cube = write_cube(str(tmp_path_factory.mktemp("users") / "cube.zarr"), dense)
    mechanisms = tuple(create(**settings) for settings, _ in OWN)
    screen = Screen(5, False, (("all", (0, SHAPE[1])),), (SIZE,), mechanisms, PLAN)
    found = run(screen, cube, tmp_path_factory.mktemp("screen"), SerialExecutor()).load()
    bounds = measure_bounds(cube.traces(), cube.frame().days, cube.frame().until)
    ((setting, _),) = screen.settings()
    source = Source(cube.uri, cube.fingerprint, False, 5)
    return found, Brute(dense, source, setting, PLAN, bounds)


@for_each(("settings", "likelihood"), OWN)
def test_the_likelihood_of_a_screen_is_that_of_the_output(screened, settings, likelihood):
    """On the same releases of 100 users, mean losses differ by less than .001."""
    found, brute = screened
    mechanism = create(**settings)
    bound, groups = mechanism.bind(brute.bounds), range(PLAN.groups)
    counts = np.stack([brute.base(g) for g in groups])

    def publish(use, more):
        some = [brute.publish(bound, mechanism.id, g, counts[g] + more[g], use) for g in groups]
        return np.stack(some).reshape(len(some), -1)[:, seen]

    seen = brute.dense.any(axis=0).ravel()
    p = (brute.dense.sum(axis=0).ravel()[seen] + 0.5) / (N_USERS + 1)
    nobody, stand_in = np.zeros(len(groups), int), brute.dense[brute.stand_in].astype(int)
    absent, present = publish("nobody", nobody), publish("present", nobody + 1)
    replaced = publish("stand-in", stand_in)
    away, away_replaced = (evidence(v, p, likelihood, False) for v in (absent, replaced))
    here, here_replaced = (evidence(v, p, likelihood, True) for v in (present, replaced))
    losses = found.privacy_loss.sel(mechanism=mechanism.id).values.squeeze()
    own = []
    for user, trace in enumerate(brute.dense.reshape(N_USERS, -1)[:, seen]):
        apart = np.array([user not in brute.members[g] for g in groups])
        inside = np.where(trace, here, away).sum(axis=1)[apart]
        outside = np.where(trace, here_replaced, away_replaced).sum(axis=1)[apart]
        own.append(max(0.0, 2 * auc_of(inside, outside) - 1))
    assert np.abs(losses - own).max() < 0.02, "in float32, a few near ties are in order or not"
    assert abs(np.mean(losses) - np.mean(own)) < 0.001
