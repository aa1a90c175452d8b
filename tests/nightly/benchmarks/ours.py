"""The engine's side: one known-subset target, as a whole and phase by phase."""

from collections.abc import Sequence
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from clock import median_of

from clusterscale import attacks, contracts, groups, mechanisms
from clusterscale.attacks.linear import eliminate
from clusterscale.attacks.statistics import features, summarise
from clusterscale.contracts import (
    Examples,
    Game,
    GroupRequest,
    Knowledge,
    Members,
    Release,
    Scores,
    Traces,
)
from clusterscale.priors.known_subset import KnownSubset
from clusterscale.seeds import stream

__all__ = ["CLASSIFIERS", "PHASES", "Task", "model_seed", "publish", "run_attacks"]

CLASSIFIERS = ("logistic", "nearest", "forest", "perceptron")
PHASES = ("draw and count", "statistics", "elimination", *CLASSIFIERS)
STEP = 0.1

Published = tuple[Knowledge, Release]


@dataclass(frozen=True, slots=True)
class Task:
    """One target of an audit."""

    traces: Traces
    prior: KnownSubset
    group_size: int
    target: int

    def set_up(self) -> Game:
        """Draw and count, the same groups every time."""
        rng = stream(0, "groups", self.target)
        return self.prior.set_up(
            GroupRequest(self.traces, self.target, group_size=self.group_size, rng=rng)
        )

    def listen(self) -> tuple[Game, Members, Members]:
        """Return the game and who is in its training groups and challenges, which it hides."""
        heard = []

        def draw(pool, n_groups, **wanted):
            found = list(slices(pool, n_groups, **wanted))
            heard.append(np.concatenate([members for members, _ in found]))
            return iter(found)

        slices = groups.Pool.slices
        with patch.object(groups.Pool, "slices", draw):
            game = self.set_up()
        training, challenge = heard
        return game, training, challenge

    def run(self, names: Sequence[str] = CLASSIFIERS) -> dict[str, Scores]:
        """Do all there is to do for a target, and return the scores of its challenges."""
        return run_attacks(publish(self.set_up()), names)

    def time(self) -> dict[str, float]:
        """Return the seconds of each phase, and of the whole when run in one go."""
        game = self.set_up()
        published = publish(game)
        examples = published[0].training
        samples = (game.adversary.training.counts, game.challenge.counts)
        seconds = {
            "draw and count": median_of(self.set_up),
            "statistics": median_of(lambda: [summarise(counts) for counts in samples]),
            "elimination": median_of(lambda: select(examples)),
        }
        for name in CLASSIFIERS:  # statistics and elimination are known after the first call
            seconds[name] = median_of(lambda name=name: run_attacks(published, (name,)))
        seconds["whole"] = median_of(self.run)
        return seconds


def select(examples: Examples) -> np.ndarray:
    """Return the features that the classifiers train on."""
    inputs = features(examples.release)
    return eliminate(inputs, examples.labels, n_keep=len(inputs), step=STEP)


def publish(game: Game) -> Published:
    """Return what the adversary holds and what it must judge, all new: nothing derived is known."""
    exact = mechanisms.create("exact")
    size, counts = game.group_size, game.challenge.counts
    challenge = contracts.publish(counts, exact, group_size=size, rng=_draws())
    return game.adversary.study(challenge, exact, rng=_draws()), challenge


def run_attacks(published: Published, names: Sequence[str]) -> dict[str, Scores]:
    """Train each attack and score the challenges."""
    knowledge, challenge = published
    return {
        name: attacks.create(name).fit(knowledge, rng=_draws()).score(challenge) for name in names
    }


def model_seed() -> int:
    """Return the seed that forest and perceptron draw here, so that a peer's can be the same."""
    return int(_draws().integers(2**31))


def _draws() -> np.random.Generator:
    return np.random.default_rng(0)
