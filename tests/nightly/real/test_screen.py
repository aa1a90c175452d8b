"""Whom the screen finds exposed is whom a trained attack tells best, on the real cabs."""

import numpy as np
import pytest
from real.cabs import ingest_cabs
from running import run, screen
from scipy.stats import spearmanr

from clusterscale.analyses.audit import AuditPlan
from clusterscale.runtime import Local, SerialExecutor

pytest.importorskip("distributed")
pytestmark = [pytest.mark.nightly(group="real"), pytest.mark.dask, pytest.mark.timeout(600)]

MECHANISMS = [
    {"name": "laplace", "epsilon": 0.2, "unit": "event"},
    {"name": "suppress_small", "below": 10},
]


@pytest.fixture(scope="module")
def plan():
    """Groups of 40, where both defences leave AUCs that spread; 600 challenges tell them apart."""
    return AuditPlan(
        seed=1,
        null_roi=False,
        targets={"tertiles": 30, "unseen": "include"},  # else all are told almost always
        group_sizes=[40],
        priors=[{"name": "known_subset", "alpha": 0.5, "challenges": 600}],
        mechanisms=MECHANISMS,
        attacks=[{"name": "spectral"}],
        control=False,
        utility={"groups": 1, "measures": [{"name": "pearson"}]},
    )


def test_the_ranking_agrees_with_a_trained_attack(plan, real_data, tmp_path):
    """Spearman .6 at least under either defence; the standard error of 90 targets is .07."""
    cube = ingest_cabs(real_data, str(tmp_path / "cube"))
    screened = screen(plan, cube, tmp_path / "run", SerialExecutor())
    with Local().open() as executor:
        audited = run(plan, cube, tmp_path / "run", executor)
    users = audited.target.values
    for mechanism in audited.mechanism.values:
        trained = audited.auc.sel(mechanism=mechanism).values.ravel()
        found = screened.auc.sel(user=users, mechanism=mechanism).values.reshape(len(users), -1)
        assert trained.std() > 0.05, "AUCs spread"
        agreement = spearmanr(found.mean(axis=1), trained).statistic
        print(f"{mechanism}: Spearman {agreement:.2f}, AUC {np.mean(trained):.3f}")
        assert agreement >= 0.6
