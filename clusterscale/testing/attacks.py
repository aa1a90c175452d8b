"""Checks of attacks."""

import pickle
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from clusterscale.attacks.base import score_groups
from clusterscale.contracts import (
    Attack,
    Distinguisher,
    Knowledge,
    Release,
    Scores,
    Values,
    publish,
)
from clusterscale.foreign import read_only
from clusterscale.game import play
from clusterscale.seeds import stream
from clusterscale.testing.checks import Check, expect, named, run
from clusterscale.testing.population import GROUP_SIZE, exact, games

__all__ = ["check_attack", "checks_of_attack", "measure"]


def check_attack(attack: Attack | type[Attack]) -> None:
    """Check an attack.

    Parameters
    ----------
    attack
        An object, or a class that needs no settings.

    Raises
    ------
    AssertionError
        Naming the first failed check, what is wrong and what would be right.
    """
    run(checks_of_attack(), attack)


def checks_of_attack() -> Iterator[tuple[str, Check]]:
    """List the checks of an attack.

    Yields
    ------
    tuple[str, Callable[..., None]]
        Name and function; the function takes a class or an object, and raises AssertionError.
    """
    yield from named(Attack, globals())


def measure(attack: Attack) -> tuple[Values, Values]:
    """Return its AUC on 30 targets with unchanged counts, and that of its control, (target,)."""
    outcomes = [
        next(play(deepcopy(game), [exact()], [attack], seed=1, path=(i,)))
        for i, game in enumerate(games())
    ]
    return (
        np.array([outcome.auc for outcome in outcomes]),
        np.array([outcome.control_auc for outcome in outcomes]),
    )


@dataclass(frozen=True)
class _Training:
    """A trained attack, what it was given, and the scores of the challenge."""

    distinguisher: Distinguisher
    scores: Scores
    knowledge: Knowledge
    challenge: Release


def _play() -> tuple[Knowledge, Release]:
    """Return what the adversary knows, and the releases that it has to distinguish."""
    game = games()[0]
    challenge = publish(
        game.challenge.counts, exact(), group_size=GROUP_SIZE, rng=stream(0, "noise")
    )
    return deepcopy((game.adversary.study(challenge, exact(), rng=stream(0, "noise")), challenge))


def _train(attack: Attack) -> _Training:
    """Train an attack and score the challenge; both releases are read-only."""
    knowledge, challenge = _play()
    distinguisher = attack.fit(read_only(knowledge), rng=stream(0, "attack"))
    scores = score_groups(attack, distinguisher, read_only(challenge))
    return _Training(distinguisher, scores, knowledge, challenge)


# The checks that only look at a trained attack share one training.
_trained = lru_cache(maxsize=1)(_train)


def gives_a_score_for_each_group(attack: Attack) -> None:
    """``score`` returns float64 of shape (group,), and never NaN."""
    trained = _trained(attack)
    scores, wanted = trained.scores, (len(trained.challenge.values),)
    found = getattr(scores, "shape", type(scores).__name__)
    expect(found == wanted, f"scores have shape {found}, not {wanted}")
    expect(scores.dtype == np.float64, f"scores are {scores.dtype}: use .astype(np.float64)")
    expect(not np.isnan(scores).any(), "a score is NaN")


def states_that_it_needs_whereabouts(attack: Attack) -> None:
    """``fit`` works where ``knowledge.whereabouts`` is None, or ``needs_whereabouts`` is True."""
    if attack.needs_whereabouts:
        return
    knowledge = replace(_play()[0], whereabouts=None)
    try:
        attack.fit(knowledge, rng=stream(0, "attack"))
    except (AttributeError, TypeError) as error:
        expect(False, f"fit needs whereabouts ({error}): set needs_whereabouts = True")


def repeats_with_its_generator(attack: Attack) -> None:
    """Training twice with the same state of ``rng`` gives the same scores.

    All randomness comes from ``rng``.
    """
    same = np.array_equal(_trained(attack).scores, _train(attack).scores)
    expect(same, "scores differ after training twice with the same rng")


def leaves_its_input(attack: Attack) -> None:
    """Training and scoring do not write to the releases, which are read-only."""
    trained, (knowledge, challenge) = _trained(attack), _play()
    same = np.array_equal(trained.challenge.values, challenge.values)
    expect(same, "score changes the release")
    given, unchanged = trained.knowledge.training.release, knowledge.training.release
    expect(np.array_equal(given.values, unchanged.values), "fit changes the training release")


def has_a_threshold(attack: Attack) -> None:
    """What ``fit`` returns has a finite ``threshold``: scores at or above it mean *inside*."""
    threshold = _trained(attack).distinguisher.threshold
    expect(np.isfinite(threshold), f"the threshold is {threshold}")


def distinguisher_survives_pickling(attack: Attack) -> None:
    """What ``fit`` returns gives the same scores after pickling.

    Define its class at the top level of a module.
    """
    trained = _trained(attack)
    copy = pickle.loads(pickle.dumps(trained.distinguisher))
    scores = trained.distinguisher.score(trained.challenge)
    expect(np.array_equal(copy.score(trained.challenge), scores), "scores differ")


def scores_groups_separately(attack: Attack) -> None:
    """The score of a group does not depend on the other groups of the release."""
    trained, first = _trained(attack), np.array([0])
    alone = trained.distinguisher.score(trained.challenge.take(first))
    together = trained.distinguisher.score(trained.challenge)
    # A perceptron works in single precision, and rows together are summed in another order.
    same = np.allclose(alone, together[:1], rtol=1e-6, atol=1e-6)
    expect(same, f"a group scores {alone[0]:g} alone and {together[0]:g} with others")


def does_not_beat_its_control(attack: Attack) -> None:
    """With shuffled labels, the AUC is that of guessing; with true labels it is not below.

    Both within four standard errors of the mean over 30 targets: a sound attack fails with a
    probability of about 1 in 16,000. An attack that ignores the labels of training passes, as those
    of its challenges are shuffled instead. One that compares with the groups without the target
    can fail, as what is called so is half with it: compare with all groups, or with
    ``knowledge.whereabouts.mean_trace``.
    """
    auc, control = measure(attack)
    error = np.std(control, ddof=1) / np.sqrt(len(control))
    expect(
        abs(control.mean() - 0.5) <= 4 * error,
        f"the mean AUC with shuffled labels is {control.mean():.2f}, not 0.5",
    )
    error = np.std(auc, ddof=1) / np.sqrt(len(auc))
    expect(
        auc.mean() >= 0.5 - 4 * error,
        f"the mean AUC is {auc.mean():.2f}: higher scores must mean inside",
    )
