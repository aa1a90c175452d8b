"""What was measured to be wrong in the code published with POPETS24 is right here.

That its search for a power begins at 0, and so flattens marginals, has its test beside the others
of marginals.
"""

from itertools import combinations

import numpy as np
from priors.zero_knowledge.choices import set_up

from clusterscale import mechanisms
from clusterscale.contracts import Traces, publish
from clusterscale.game import play
from clusterscale.seeds import stream


class Recorder:
    """An attack that keeps what it trains on and says nothing."""

    name = id = label = "recorder"
    needs_whereabouts = validates = False
    threshold = 0.0

    def __init__(self):
        self.seen = []

    def fit(self, knowledge, *, rng):
        self.seen.append(knowledge.training.release.values.copy())
        return self

    def score(self, release):
        return np.zeros(len(release.values))


def test_noise_is_not_cut_to_whole_numbers():
    """There seven of ten values get none at ε 1.2; here as good as none do."""
    game = set_up(challenges=4)
    mechanism = mechanisms.create("laplace", epsilon=1.2, sensitivity=1.0)
    release = publish(game.challenge.counts[:1], mechanism, group_size=8, rng=stream(0, "noise"))
    knowledge = game.adversary.study(release, mechanism, rng=stream(0, "study"))
    values = knowledge.training.release.values
    assert (values % 1 != 0).mean() > 0.999


def test_counts_and_noise_are_not_kept_in_eight_bits():
    """Everybody is in one place: 300 people are more than a byte can count."""
    cells = np.tile(np.arange(24, dtype=np.int32), 400)
    traces = Traces(np.arange(401) * 24, cells, 6, 24)
    game = set_up(traces=traces, size=300, reference=400, training=6, challenges=4)
    mechanism = mechanisms.create("laplace", epsilon=0.01, sensitivity=1.0)
    published = publish(game.challenge.counts, mechanism, group_size=300, rng=stream(0, "noise"))
    assert published.values.max() > 600
    assert published.values.min() < -200
    exact = mechanisms.create("exact")
    release = publish(game.challenge.counts[:1], exact, group_size=300, rng=stream(0, "noise"))
    knowledge = game.adversary.study(release, exact, rng=stream(0, "study"))
    assert knowledge.training.release.values.max() > 127


def test_every_release_has_a_population_of_its_own():
    """There workers begin with one state, and those that begin together draw the same users."""
    first, second = Recorder(), Recorder()
    exact = mechanisms.create("exact")
    for attack in (first, second):
        list(play(set_up(challenges=6), [exact], [attack], seed=1, path=(7,), control=False))
    assert len(first.seen) == 6
    for one, other in combinations(first.seen, 2):
        assert (one != other).any()
    for one, again in zip(first.seen, second.seen, strict=True):
        np.testing.assert_array_equal(one, again)
