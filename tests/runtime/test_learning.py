"""dask-ml under the adversary's rules: against plain loops, scikit-learn, and itself."""

from dataclasses import replace

import numpy as np
import pytest

from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.tuning import list_cases
from clusterscale.attacks import create
from clusterscale.attacks.learned import CrossValidated
from clusterscale.contracts import Examples, Knowledge, Release
from clusterscale.errors import InputError, MissingError
from clusterscale.metrics import auc
from clusterscale.runtime import CLUSTERS
from clusterscale.runtime.learning import (
    cross_validate,
    evaluate_on_fresh_groups,
    scheduled,
)
from clusterscale.seeds import stream

pytestmark = pytest.mark.dask

pytest.importorskip("dask_ml")

SEED, PATH = 5, ("here", 3)


@pytest.fixture(scope="module", params=["serial", pytest.param("local", marks=pytest.mark.slow)])
def executor(request):
    if request.param == "serial":
        with CLUSTERS.create("serial").open() as executor:
            yield executor
        return
    yield request.getfixturevalue("local_cluster")  # whose client is not Dask's default


@pytest.fixture
def alone():
    with CLUSTERS.create("serial").open() as executor:
        yield executor


@pytest.fixture
def case(plan_fields, cube):
    plan = AuditPlan.model_validate(plan_fields)
    *_, case = list_cases(plan, cube, plan.targets.choose(cube, plan.seed), 1)
    return case


ATTACKS = (
    create("logistic"),
    create("nearest", neighbours=1),
    create("logistic", cost=1e-4),
    create("forest", trees=3, elimination_step=0.5),
    create("perceptron", hidden=8),
)


def draws(attack):
    return stream(SEED, "tuning", *PATH, attack.id)


def search(form, executor, attacks=ATTACKS, n_folds=3):
    return cross_validate(form, attacks, executor, n_folds=n_folds, seed=SEED, path=PATH)


def test_cross_validation_is_that_of_a_plain_loop(case, executor):
    training, _ = case.form()
    folds = CrossValidated(folds=3).split(training, rng=stream(SEED, "tuning folds", *PATH))
    expected = np.empty((len(ATTACKS), 3))
    for fold, (learn, check) in enumerate(folds):
        knowledge, asked = Knowledge(training.take(learn)), training.take(check)
        for i, attack in enumerate(ATTACKS):
            found = attack.fit(knowledge, rng=draws(attack)).score(asked.release)
            expected[i, fold] = auc(asked.labels, found)
    found = search(case.form, executor)
    in_any_order = (sorted(scores.T.tolist()) for scores in (found, expected))
    np.testing.assert_allclose(*in_any_order, rtol=0, atol=1e-12)
    assert len(np.unique(found)) > 5


def test_judgement_is_by_groups_that_nothing_was_trained_on(case, executor):
    training, fresh = case.form()
    expected = [
        auc(fresh.labels, attack.fit(Knowledge(training), rng=draws(attack)).score(fresh.release))
        for attack in ATTACKS
    ]
    found = evaluate_on_fresh_groups(case.form, ATTACKS, executor, seed=SEED, path=PATH)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_an_error_on_a_worker_ends_the_search(case, executor):
    """dask-ml by itself would send the task that fails to the cluster again, for ever."""
    nowhere = replace(case.task.source, uri="/nowhere", fingerprint="none")
    lost = replace(case, task=replace(case.task, source=nowhere))
    with pytest.raises(MissingError, match="/nowhere"):
        search(lost.form, executor)


def twins():
    """Make groups that come twice, with labels that say nothing of what is in them."""
    rng = np.random.default_rng(8)
    values = np.repeat(rng.poisson(3, (40, 2, 12)).astype(np.int32), 2, axis=0)
    labels = np.repeat(rng.permutation(40) < 20, 2)
    return Examples(Release(values, 5, "exact"), labels, np.repeat(np.arange(40), 2))


def test_groups_of_one_block_are_never_on_both_sides(alone):
    examples = twins()
    nearest = (create("nearest", neighbours=1),)
    assert search(lambda: (examples, None), alone, nearest, n_folds=8).mean() < 0.65
    parted = replace(examples, blocks=np.arange(80))
    assert search(lambda: (parted, None), alone, nearest, n_folds=8).mean() > 0.85


def test_without_fresh_groups_nothing_is_judged(alone):
    found = evaluate_on_fresh_groups(
        lambda: (twins(), None), ATTACKS[:2], alone, seed=SEED, path=PATH
    )
    assert np.isnan(found).all()
    assert len(found) == 2


def test_too_few_blocks_for_the_folds(alone):
    few = twins().take(np.arange(4))
    with pytest.raises(InputError, match="3 folds need as many groups"):
        search(lambda: (few, None), alone)


def test_an_executor_that_cannot_compute_graphs_is_refused():
    class Other:
        """An executor of somebody else."""

    with pytest.raises(TypeError, match="Other cannot compute Dask graphs"), scheduled(Other()):
        pytest.fail("there is nothing to compute on")
