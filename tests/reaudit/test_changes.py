"""A release beside the last ones of its series."""

import json
from dataclasses import replace

import numpy as np
import pytest
from oracles.verdicts import FOUND, verdict

from clusterscale.reauditing.policy_evaluation import change_since
from clusterscale.reauditing.release_metrics import Exposures, UtilityValue

USERS = np.arange(40)


def exposed(loss, users=USERS, *, width=0.01, everyone=True):
    loss = np.broadcast_to(np.asarray(loss, float), users.shape)
    low, high = np.maximum(loss - width, 0), np.minimum(loss + width, 1)
    return Exposures(users, loss.copy(), low, high, "projection", everyone)


def measured(**utility):
    found = {name: UtilityValue(value, 1.0) for name, value in utility.items()}
    return replace(FOUND, utility=found)


def row(number, **utility):
    return verdict(number, utility=json.dumps(utility))


def test_the_first_of_a_series_has_nothing_to_be_compared_with():
    change = change_since([], exposed(0.3), measured(pearson=0.5), limit=0.5)
    assert change.drift is None
    assert change.utility == {}


def test_exposure_is_compared_with_the_mean_of_the_last_and_utility_with_the_last():
    last = [
        (row(0, pearson=0.1, gone=1.0), exposed(0.2)),
        (row(1, pearson=0.4), exposed(0.4, USERS[:20])),
    ]
    change = change_since(last, exposed(0.6), measured(pearson=0.5, new=0.1), limit=0.5)
    assert change.utility == pytest.approx({"pearson": 0.1})
    drift = change.drift
    assert drift.n_common == 40
    assert drift.change == pytest.approx(0.6 - (20 * 0.3 + 20 * 0.2) / 40)
    assert drift.n_newly_exposed == 40
    assert drift.n_no_longer_exposed == 0


def test_who_may_only_seem_to_cross_is_not_counted():
    last = [(row(0), exposed(0.49, width=0.2))]
    drift = change_since(last, exposed(0.51, width=0.2), measured(), limit=0.5).drift
    assert drift.n_newly_exposed == 0


def test_targets_are_not_compared_with_everyone():
    last = [(row(0, pearson=0.5), exposed(0.2, everyone=False))]
    change = change_since(last, exposed(0.9), measured(pearson=0.5), limit=0.5)
    assert change.drift is None
    assert change.utility == {"pearson": 0.0}
