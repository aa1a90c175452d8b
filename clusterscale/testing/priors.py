"""Checks of priors."""

import pickle
from collections.abc import Iterator

import numpy as np

from clusterscale.contracts import Examples, Game, GroupRequest, Knowledge, Prior, Release, publish
from clusterscale.cube import with_null_roi
from clusterscale.errors import PoolError
from clusterscale.foreign import read_only
from clusterscale.seeds import stream
from clusterscale.testing.checks import Check, expect, named, run
from clusterscale.testing.population import coordinates, exact, traces

__all__ = ["check_prior", "checks_of_prior"]

_SIZE, _TARGET = 6, 4


def check_prior(prior: Prior | type[Prior]) -> None:
    """Check a prior.

    Parameters
    ----------
    prior
        An object, or a class that needs no settings, whose groups can be drawn from 60 users.

    Raises
    ------
    AssertionError
        Naming the first failed check, what is wrong and what would be right.
    """
    run(checks_of_prior(), prior)


def checks_of_prior() -> Iterator[tuple[str, Check]]:
    """List the checks of a prior.

    Yields
    ------
    tuple[str, Callable[..., None]]
        Name and function; the function takes a class or an object, and raises AssertionError.
    """
    yield from named(Prior, globals())


def _set_up(prior: Prior) -> Game:
    past = [with_null_roi(traces(0, 24))] if prior.needs_past else []
    request = GroupRequest(
        with_null_roi(traces(24, 48)),
        _TARGET,
        frame=coordinates(24, 48),
        past=past,
        group_size=_SIZE,
        validate=True,
        rng=stream(2, "groups"),
    )
    return prior.set_up(read_only(request))


def _study(game: Game) -> Knowledge:
    first = publish(game.challenge.counts[:1], exact(), group_size=_SIZE, rng=stream(2, "release"))
    return game.adversary.study(first, exact(), rng=stream(2, "noise"))


def _samples(prior: Prior) -> list[Examples]:
    """Return the challenges, the training groups and the validation groups, if there are any."""
    game = _set_up(prior)
    knowledge, challenge = _study(game), game.challenge
    asked = Examples(
        Release(challenge.counts, _SIZE, "exact", exact().noise), challenge.labels, challenge.blocks
    )
    return [asked, knowledge.training, *filter(None, [knowledge.validation])]


def sets_up_the_same_game(prior: Prior) -> None:
    """The same request, with the same state of ``rng``, gives the same game.

    All randomness comes from the generators of the request.
    """
    once, again = (pickle.dumps(_set_up(prior)) for _ in range(2))
    expect(once == again, "two games differ")


def learns_the_same(prior: Prior) -> None:
    """The adversary derives the same knowledge from the same release and state of ``rng``."""
    once, again = (pickle.dumps(_study(_set_up(prior))) for _ in range(2))
    expect(once == again, "two studies of the same release differ")


def counts_groups(prior: Prior) -> None:
    """Counts are int32 of shape (group, roi, epoch) and count every member in every epoch.

    With a null ROI, each member is in at least one ROI in each epoch.
    """
    for sample in _samples(prior):
        counts = sample.release.values
        wanted = (len(sample.labels), traces().n_rois + 1, 24)
        expect(counts.shape == wanted, f"counts have shape {counts.shape}, not {wanted}")
        expect(counts.dtype == np.int32, f"counts are {counts.dtype}")
        full = (counts.sum(axis=1) >= _SIZE).all()
        expect(full, f"a group of {_SIZE} counts fewer members in some epoch")


def labels_half_of_groups(prior: Prior) -> None:
    """Half of the groups of each kind contain the target, and each group has a block."""
    for sample in _samples(prior):
        share = float(np.mean(sample.labels))
        expect(share == 0.5, f"the target is in {share:.0%} of the groups")
        n_blocks, n_groups = len(sample.blocks), len(sample.labels)
        expect(n_blocks == n_groups, f"{n_groups} groups have {n_blocks} blocks")


def announces_its_groups(prior: Prior) -> None:
    """``n_rows`` and ``studies`` announce how many groups are counted and studied.

    ``--explain`` estimates time and memory from them.
    """
    game = _set_up(prior)
    n_challenges = len(game.challenge.labels)
    expect(
        prior.n_challenges == n_challenges, f"{n_challenges} challenges, not {prior.n_challenges}"
    )
    n_studies, n_own = prior.studies(validate=True, control=False)
    expect((n_studies > 0) == (n_own > 0), f"studies returns {(n_studies, n_own)}")
    per_release = game.adversary.retrains_per_release
    wanted = n_challenges if per_release else n_studies > 0
    expect(n_studies == wanted, f"studies announces {n_studies} studies, not {wanted}")
    rows = {id(one.release.values): len(one.labels) for one in _samples(prior)}
    n_rows = prior.n_rows(int(prior.needs_past), validate=True, control=False) + n_own
    expect(sum(rows.values()) == n_rows, f"{sum(rows.values())} groups, but {n_rows} announced")


def announces_whereabouts(prior: Prior) -> None:
    """``gives_whereabouts`` says whether the knowledge includes where the target was."""
    given = _study(_set_up(prior)).whereabouts is not None
    expect(given == prior.gives_whereabouts, f"gives_whereabouts is {prior.gives_whereabouts}")


def refuses_too_few_users(prior: Prior) -> None:
    """``check`` accepts groups that can be drawn, and raises PoolError for others."""
    n_users = traces().n_users
    prior.check(n_users, _SIZE)
    try:
        prior.check(n_users, n_users)
    except PoolError:
        return
    raise AssertionError(f"groups of {n_users} of {n_users} users are accepted")
