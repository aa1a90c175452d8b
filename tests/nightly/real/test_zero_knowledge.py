"""An adversary who knows nobody does as well as one who knows half of all users (POPETS24 §6).

Its studies hold the paper's own attack to the paper's words; here are ours beside it, and real
people.
"""

import numpy as np
import pytest
from real.zero_knowledge import adversaries, attack, laplace, suppress

from clusterscale.cube import Calendar, Grid, TraceCube
from clusterscale.cube.synthetic import synthesise

pytest.importorskip("distributed")
pytestmark = [pytest.mark.nightly(group="real"), pytest.mark.dask, pytest.mark.timeout(900)]


def study(cube, n_targets, group_size, mechanisms):
    """Return the mean AUC of each prior, mechanism and attack, and its standard errors."""
    priors = adversaries(cube.n_users // 2, challenges=100)
    fields = {
        "priors": list(priors.values()),
        "mechanisms": mechanisms,
        "group_sizes": [group_size],
        "attacks": [{"name": "cells"}, {"name": "likelihood"}],
    }
    auc = attack(cube, n_targets, fields).squeeze(["period", "group_size"], drop=True)
    labels = [str(label) for label in auc.mechanism.values]
    auc = auc.assign_coords(prior=list(priors), mechanism=labels)
    # of the difference from the one who knows: the same people, so it is what counts
    error = (auc - auc.sel(prior="known")).std("target") / np.sqrt(n_targets)
    return auc.mean("target"), error


def check_that_nothing_is_lost(auc, error):
    """Within .05, or what the targets leave uncertain (two standard errors of the difference)."""
    lost = auc.sel(prior="known") - auc
    assert (lost <= np.maximum(0.05, 2 * error)).all(), lost.values.round(3)


def test_users_as_sparse_as_those_of_milan(tmp_path):
    """Raw counts tell all, defences leave less, noise for a day hides; with laws as with groups."""
    cube = synthesise("milan", str(tmp_path / "cube"), seed=0)
    mechanisms = [
        {"name": "exact"},
        suppress(5),
        laplace(1.0, "event", 1.0),
        laplace(1.0, "user_day", 10.0),
    ]
    auc, error = study(cube, 6, 1000, mechanisms)
    check_that_nothing_is_lost(auc, error)
    exact, five, event, day = (auc.isel(mechanism=i) for i in range(len(mechanisms)))
    assert (exact > 0.93).all()
    assert (exact.sel(attack="likelihood") > 0.98).all()
    assert (exact > five).all()
    assert (exact > event).all()
    assert (event > day).all()
    # over the adversaries, for six targets leave each mean a standard error of some .04
    assert day.sel(attack="cells").mean("prior") < 0.6
    # a law in place of groups is as good as a trained attack
    own = auc.sel(prior="own")
    assert (own.sel(attack="likelihood") > own.sel(attack="cells") - 0.03).all()


def test_riders_of_bicycles(real_data, tmp_path):
    """Real ones, with ten events or more; others were at many times and places of theirs."""
    from clusterscale.ingestion import READERS, IngestOptions, ingest  # needs dask

    uri = str(tmp_path / "cube")
    ingest(
        str(real_data / "valleybike_1min.parquet"),
        uri,
        IngestOptions(
            reader=READERS.create("events"),
            locator=Grid.parse("42.05,-72.72,42.45,-72.48/20x12"),
            calendar=Calendar.parse("2018-08-20T00:00", "1h", 28 * 24, "America/New_York"),
            min_events=10,
        ),
    )
    mechanisms = [{"name": "exact"}, laplace(1.0, "event", 1.0)]
    auc, error = study(TraceCube(uri), 2, 250, mechanisms)
    check_that_nothing_is_lost(auc, error)
    assert (auc.sel(mechanism="exact") > 0.88).all()
