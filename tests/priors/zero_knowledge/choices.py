"""Every way to go about a release, every defence, and a small crowd to try them on."""

import numpy as np
from conftest import draw_dense
from oracles.dense import traces_of

from clusterscale import mechanisms, priors
from clusterscale.contracts import CellCoordinates, GroupRequest, publish
from clusterscale.cube import with_null_roi
from clusterscale.seeds import stream

N_USERS, N_ROIS, N_DAYS, SIZE, TARGET = 40, 6, 3, 8, 7
DAYS = np.repeat(np.arange(N_DAYS), 8)
FRAME = CellCoordinates(DAYS, *np.random.default_rng(0).random((2, N_ROIS)))
SMALL = {"reference": 40, "training": 16, "challenges": 4, "validation": 8}

EVENT = {"name": "laplace", "epsilon": 2.0, "unit": "event"}
HIDDEN = {"name": "suppress_small", "up_to": 1}
DEFENCES = {
    "raw": mechanisms.create("exact"),
    "suppressed": mechanisms.create(**HIDDEN),
    "noisy": mechanisms.create(**EVENT, clip=True),
    "user-day": mechanisms.create("laplace", epsilon=2.0, sensitivity=5.0, unit="user_day"),
    "noisy, then suppressed": mechanisms.create("chain", steps=[EVENT, HIDDEN]),
}
OPTIONS = {
    "of the paper": {},
    "shared": {"refit": "shared"},
    "independent": {"sampling": "independent"},
    "partial": {"known_fraction": 0.4},
    "lognormal": {"activity": {"name": "lognormal", "sigma": 0.8}},
    "not corrected": {"correction": "none"},
    "matched": {"correction": "matched"},
    "mixed": {"rhythm": "mixed", "rank": 2},
    "mixed and matched": {"rhythm": "mixed", "correction": "matched"},
    "counts": {"crowd": "counts"},
    "counts, mixed": {"crowd": "counts", "rhythm": "mixed", "correction": "matched"},
    "positions unknown": {"positions": "unknown"},
    "all ROIs": {"knows": "rois"},
    "two ROIs": {"knows": "rois", "top_rois": 2, "times": "random"},
    "counts of ROIs": {"knows": "rois", "top_rois": 1, "crowd": "counts"},
    "nowhere": {"null_roi": True},
    "nowhere, partial": {"null_roi": True, "known_fraction": 0.4, "rhythm": "mixed"},
    "nowhere, ROIs": {"null_roi": True, "knows": "rois", "times": "random"},
}


def people(seed=0, n_users=N_USERS):
    dense = draw_dense(np.random.default_rng(seed), n_users, N_ROIS, len(DAYS))
    dense[TARGET] = draw_dense(np.random.default_rng(9), 1, N_ROIS, len(DAYS))[0]
    return traces_of(dense)


def set_up(option="of the paper", *, traces=None, frame=FRAME, size=SIZE, seed=0, **fields):
    settings = SMALL | OPTIONS[option] | fields
    null_roi = settings.pop("null_roi", False)
    traces = people() if traces is None else traces
    return priors.create("zero_knowledge", **settings).set_up(
        GroupRequest(
            with_null_roi(traces) if null_roi else traces,
            TARGET,
            frame=frame,
            group_size=size,
            validate=True,
            rng=stream(seed, "groups"),
            control=stream(seed, "control"),
        )
    )


def released(game, by="raw", row=0):
    counts = game.challenge.counts[[row]]
    rng = np.random.default_rng(5)
    return publish(counts, DEFENCES[by], group_size=game.group_size, rng=rng)
