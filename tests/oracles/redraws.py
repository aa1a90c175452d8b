"""Games of one person, drawn again and again, on a small crowd held in memory."""

import numpy as np

from clusterscale import attacks, mechanisms, priors
from clusterscale.contracts import CellCoordinates, GroupRequest, Traces
from clusterscale.game import AttackEvaluation
from clusterscale.seeds import stream

N_USERS, N_ROIS, HOURS, DAYS, TARGET = 300, 30, 24, 3, 7


def crowd():
    """Return the traces of each of three days, and the frame: people with four usual places."""
    rng = stream(0, "crowd")
    popular = rng.dirichlet(np.ones(N_ROIS))
    seen = np.zeros((N_USERS, DAYS, N_ROIS, HOURS), bool)
    for person in seen:
        places = rng.choice(N_ROIS, 4, replace=False, p=popular)
        starts, lengths = rng.integers(0, HOURS, 4), rng.integers(1, 6, 4)
        habit = rng.uniform(0.4, 0.95)
        for day in person:
            for place, start, length in zip(places, starts, lengths, strict=True):
                if rng.random() < habit:
                    day[place, (np.arange(length) + start + rng.integers(-1, 2)) % HOURS] = True
            n = rng.poisson(2)
            day[rng.choice(N_ROIS, n, p=popular), rng.integers(0, HOURS, n)] = True
    days = [_traces(seen[:, day].reshape(N_USERS, -1)) for day in range(DAYS)]
    lat, lon = rng.uniform(40, 41, N_ROIS), rng.uniform(0, 1, N_ROIS)
    return days, CellCoordinates(np.zeros(HOURS, np.int64), lat, lon)


def _traces(seen):
    offsets = np.append(0, np.cumsum(seen.sum(axis=1))).astype(np.int64)
    return Traces(offsets, np.nonzero(seen)[1].astype(np.int32), N_ROIS, HOURS)


def play_again(people, case, n_draws, first=0, retrain=True):
    """Yield the outcomes of each draw of groups, noise and randomness of attacks.

    ``case`` has the name of a prior, its settings, a group size, a mechanism and names of attacks.
    """
    (*past, today), frame = people
    name, settings, size, (mechanism, options), tried = case
    prior, publisher = priors.create(name, **settings), mechanisms.create(mechanism, **options)
    chosen = [attacks.create(one) for one in tried]
    for draw in range(first, first + n_draws):
        request = GroupRequest(
            today,
            TARGET,
            group_size=size,
            frame=frame,
            past=past,
            rng=stream(draw, "groups", name, size),
        )
        path = (name, size)
        game = prior.set_up(request)
        evaluation = AttackEvaluation(
            game, publisher, chosen, seed=draw, path=path, control=False, retrain=retrain
        )
        yield list(evaluation.outcomes())
