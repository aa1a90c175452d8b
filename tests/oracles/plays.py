"""One small play, drawn from a random crowd whose members are independent."""

from dataclasses import dataclass, replace

import numpy as np
from oracles.dense import traces_of

from clusterscale import priors
from clusterscale.contracts import NO_NOISE, Examples, GroupRequest, Knowledge, Release
from clusterscale.mechanisms.noise import LaplaceNoise

EXACT = NO_NOISE


@dataclass(frozen=True)
class Play:
    """What the adversary holds, what it is asked, and the answers."""

    knowledge: Knowledge
    challenge: Release
    labels: np.ndarray


def crowd(rng, n_users=60, n_rois=6, n_epochs=24):
    """Draw users who are in each cell with the same chance, bool (user, roi, epoch)."""
    chance = rng.beta(0.5, 3.0, (n_rois, n_epochs))
    return rng.random((n_users, n_rois, n_epochs)) < chance


def publish(counts, size, noise, rng):
    """Release counts with noise of a stated law; None: of a law that is not stated."""
    if noise == EXACT:
        return Release(counts, size, "exact", noise)
    values = counts + (LaplaceNoise(2.0) if noise is None else noise).sample(counts.shape, rng=rng)
    return Release(np.floor(values) if noise is None else values, size, "noisy", noise)


def deal(seed=0, *, noise=EXACT, size=8, dense=None, validate=False, **prior):
    """Play with user 0 of a crowd as the target, under the prior ``known_subset``."""
    rng = np.random.default_rng(seed)
    traces = traces_of(crowd(rng) if dense is None else dense)
    settings = {"alpha": 0.5, "training": 40, "challenges": 40, "validation": 20} | prior
    game = priors.create("known_subset", **settings).set_up(
        GroupRequest(traces, 0, group_size=size, validate=validate, rng=rng)
    )

    own = game.adversary

    def examples(sample):
        return Examples(publish(sample.counts, size, noise, rng), sample.labels, sample.blocks)

    knowledge = Knowledge(
        examples(own.training), own.whereabouts, own.validation and examples(own.validation)
    )
    challenge = publish(game.challenge.counts, size, noise, rng)
    return Play(knowledge, challenge, game.challenge.labels)


def blind(knowledge):
    """Return the same knowledge without whereabouts."""
    return replace(knowledge, whereabouts=None)
