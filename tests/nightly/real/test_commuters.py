"""Synthetic commuters as regular as those of the London tube fall in groups of any size."""

import numpy as np
import pytest
from running import run

from clusterscale.analyses.audit import AuditPlan
from clusterscale.cube.synthetic import synthesise
from clusterscale.runtime import Local

pytest.importorskip("distributed")
pytestmark = [pytest.mark.nightly(group="real"), pytest.mark.dask, pytest.mark.timeout(1200)]

FOUR = ["logistic", "perceptron", "forest", "nearest"]


def best(cube, folder, period, sizes):
    """Return, for each group size, the mean over six targets of the best of the four attacks."""
    plan = AuditPlan(
        seed=1,
        null_roi=True,
        control=False,
        targets={"tertiles": 2},
        group_sizes=sizes,
        periods=[period],
        priors=[{"name": "same_groups"}],
        mechanisms=[{"name": "exact"}],
        attacks=[{"name": name} for name in FOUR],
    )
    with Local().open() as executor:
        results = run(plan, cube, folder, executor)
    assert (results.status == "done").all(), results.error.values
    return results.auc.max("attack").mean("target").values.ravel()


def test_commuters_in_stable_groups_are_found_and_cabs_less(tmp_path):
    """NDSS18 Figs 5 and 7, best attack: commuters ≥ .99 up to groups of 1,000; cabs far below."""
    commuters = synthesise("tfl", str(tmp_path / "tfl"), seed=1)
    cabs = synthesise("sfc", str(tmp_path / "sfc"), seed=1)
    week = {"name": "fourth week", "first": 504, "epochs": 168, "observed": [0, 168, 336]}
    regular = best(commuters, tmp_path / "commuters", week, [10, 100, 1000])
    week = {"name": "third week", "first": 336, "epochs": 168, "observed": [0, 168]}
    irregular = best(cabs, tmp_path / "cabs", week, [10, 100])
    assert (regular >= 0.95).all()
    assert (irregular < regular[:2] - 0.1).all()
    assert (np.diff(irregular) < 0).all()
