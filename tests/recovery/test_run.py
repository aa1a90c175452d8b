"""A recovery on a cluster gives what whole arrays give, whatever interrupts it."""

from math import e

import numpy as np
import pytest
import running
from conftest import write_cube
from loops import for_each

from clusterscale import open_recovery, storage
from clusterscale.analyses import recovery
from clusterscale.cube import Calendar, Grid, TraceCube, new_cube
from clusterscale.errors import ConfigError, ExistsError, MissingError
from clusterscale.mechanisms import create
from clusterscale.runtime import Serial
from clusterscale.study.execution import Finished

OBSERVED, EPOCHS = 170, 30
MECHANISMS = (
    {"name": "laplace", "epsilon": 0.5, "unit": "event"},
    {"name": "suppress_small", "up_to": 1},
)


@pytest.fixture(scope="module")
def traces():
    rng = np.random.default_rng(3)
    home = rng.dirichlet(np.full(6, 0.5), 25)
    return rng.random((25, 6, OBSERVED + EPOCHS)) < 0.8 * home[:, :, None] * rng.random((25, 1, 1))


@pytest.fixture(scope="module")
def cube(traces, tmp_path_factory):
    return write_cube(str(tmp_path_factory.mktemp("recovery") / "cube.zarr"), traces)


def plan(**fields):
    given = {"seed": 4, "observed": OBSERVED, "epochs": EPOCHS, "mechanisms": MECHANISMS}
    return recovery.RecoveryPlan(**given | fields)


@pytest.fixture(scope="module")
def found(cube, tmp_path_factory):
    with Serial().open() as executor:
        return running.recover(plan(), cube, tmp_path_factory.mktemp("run"), executor).load()


def by_arrays(name, there):
    """Return a prior as an array, and whether it is an assignment."""
    if name.startswith("last"):
        return recovery.remember(name, there, EPOCHS), True
    return recovery.learn(name, there[:, :, :OBSERVED], EPOCHS), False


@for_each("name", list(recovery.BELIEFS))
def test_a_run_is_what_whole_arrays_give(found, traces, name):
    there = recovery.with_null(traces)
    truth, activity = there[:, :, OBSERVED:], traces[:, :, :OBSERVED].sum(axis=(1, 2))
    counts = truth.sum(axis=0)
    released = np.where(counts > 1, counts, 0)
    prior, _ = by_arrays(name, there)
    crowd = np.repeat((released / released.sum(axis=0))[None], len(truth), axis=0)
    estimates = {
        "prior": (prior, prior),
        "release": (crowd, crowd),
        "bayes": (recovery.bayes(prior, released),) * 2,
        "max_roi": (recovery.max_roi(prior, released, activity),) * 2,
        "max_user": (recovery.max_user(prior, released, activity),) * 2,
    }
    of = found.sel(mechanism=create("suppress_small", up_to=1).id, prior=name)
    for strategy, (profile, shares) in estimates.items():
        expected = recovery.profiling_error(truth, profile)
        result = of.sel(strategy=strategy)
        np.testing.assert_allclose(result.profiling_error, expected, atol=1e-6)
        for reading in ("popular", "every"):
            told = getattr(recovery, reading)(shares)
            expected = recovery.localization_error(truth, told)
            np.testing.assert_allclose(
                result.localization_error.sel(reading=reading), expected, atol=1e-6
            )
    for epoch in (0, EPOCHS - 1):
        one = slice(epoch, epoch + 1)
        expected = recovery.profiling_error(truth[:, :, one], prior[:, :, one]).mean()
        measured = of.sel(strategy="prior").profiling_error_of_epoch[epoch]
        np.testing.assert_allclose(measured, expected, rtol=1e-6)


def test_losses_and_gains_go_with_their_errors(found):
    errors = found.profiling_error
    loss = recovery.privacy_loss(errors.sel(strategy="prior"), errors.transpose("strategy", ...))
    np.testing.assert_allclose(found.profiling_loss.transpose("strategy", ...), loss, atol=1e-6)
    gain = recovery.privacy_gain(errors[0], errors)
    np.testing.assert_allclose(found.profiling_gain, gain, atol=1e-6)
    assert (found.profiling_gain[0] == 0).all()
    assert (found.localization_gain[1:] > 0).any()


def test_every_release_is_measured(found):
    exact, noisy, _ = found.relative_error.values
    assert exact == 0 < noisy


def test_distances_have_the_base_that_was_asked_for(cube, found, tmp_path):
    with Serial().open() as executor:
        asked = plan(base="e", mechanisms=(), priors=[{"name": "roi_day"}])
        nats = running.recover(asked, cube, tmp_path, executor).load()
    bits = found.sel(prior=["roi_day"], mechanism=["exact"])
    ratio = nats.profiling_error.sel(strategy="max_user") / bits.profiling_error.sel(
        strategy="max_user"
    )
    np.testing.assert_allclose(ratio, np.sqrt(np.log(2) / np.log(e)), rtol=1e-5)


@pytest.mark.slow
def test_a_run_that_is_cut_off_goes_on_and_ends_with_the_same_bits(cube, found, tmp_path):
    class Fails(Exception):
        pass

    class CutOff:
        """Does a few tasks in another order, and then no more."""

        n_workers = 1

        def __init__(self, most):
            self.most = most

        def preflight(self, probe):
            probe()

        def map_batches(self, function, items, **options):
            for i, item in enumerate(reversed(items)):
                if i < self.most:
                    yield [Finished(item, function(item))]
                else:
                    yield [Finished(item, error=Fails("cut off"))]

    with pytest.raises(Fails) as raised:
        running.recover(plan(), cube, tmp_path, CutOff(11))
    assert any("resumes with those that are left" in note for note in raised.value.__notes__)
    with pytest.raises(MissingError, match="not finished"):
        open_recovery(tmp_path)
    told = []
    again = running.recover(plan(), cube, tmp_path, CutOff(1000), on_progress=told.append)
    recovering = [now for now in told if now.stage == "recover"]
    assert recovering[0].n_done == 10  # of two blocks each, five cases were whole
    assert told[-1].n_done == told[-1].n_tasks
    assert again.load().identical(found)
    assert open_recovery(tmp_path).load().identical(found)


@pytest.mark.slow
@pytest.mark.dask
def test_workers_give_the_same_bits(cube, found, tmp_path, local_cluster):
    again = running.recover(plan(), cube, tmp_path, local_cluster)
    assert again.load().identical(found)


@pytest.mark.slow
def test_results_may_be_kept_at_a_url(cube, found):
    with Serial().open() as executor:
        again = running.recover(plan(), cube, "memory://recovered", executor)
    assert again.load().identical(found)
    storage.remove("memory://recovered")


def test_another_plan_needs_force(cube, tmp_path):
    with Serial().open() as executor:
        few = {"mechanisms": (), "priors": [{"name": "freq_roi"}]}
        running.recover(plan(**few), cube, tmp_path, executor)
        with pytest.raises(ExistsError, match="a recovery of another plan"):
            running.recover(plan(**few, seed=5), cube, tmp_path, executor)
        running.recover(plan(**few, seed=5), cube, tmp_path, executor, force=True)


def test_what_a_cube_cannot_answer_is_said(cube):
    with pytest.raises(ConfigError, match=r"priors\.2: roi_day_week needs 168 observed"):
        plan(observed=30).check(cube)
    with pytest.raises(ConfigError, match="260 epochs are needed, but the cube has 200"):
        plan(epochs=90).check(cube)
    with pytest.raises(ConfigError, match="bytes per worker are too few"):
        recovery.RecoveryAnalysis(plan()).check(cube, 10**6)


def test_priors_that_count_hours_want_epochs_of_an_hour(tmp_path):
    calendar = Calendar.parse("2024-01-01T00:00", "30min", 60, "UTC")
    regions = Grid.parse("50,0,51,1/1x2").regions
    uri = str(tmp_path / "cube.zarr")
    with new_cube(uri, regions, calendar, provenance={"source": "test"}) as writer:
        writer.append(["a", "b"], np.array([1, 1]), np.array([3, 70]))
    halves = TraceCube(uri)
    priors = [{"name": "freq_roi"}, {"name": "last_hour"}, {"name": "roi_day"}]
    with pytest.raises(ConfigError) as raised:
        plan(observed=30, priors=priors).check(halves)
    assert str(raised.value).splitlines() == [
        f"priors.{i}: {name} needs epochs of an hour, but an epoch of this cube has 30 minutes"
        for i, name in ((1, "last_hour"), (2, "roi_day"))
    ]


def test_bare_counts_are_always_there():
    assert [each.name for each in plan(mechanisms=[create("exact")]).published] == ["exact"]
    assert [each.name for each in plan().published] == ["exact", "laplace", "suppress_small"]


def test_users_may_have_reported_nothing(tmp_path):
    """Neither while they were observed nor afterwards."""
    there = np.zeros((4, 3, 60), bool)
    there[0, 0, ::2] = True
    there[1, 1, 40:] = True
    silent = write_cube(str(tmp_path / "cube.zarr"), there)
    with Serial().open() as executor:
        asked = plan(observed=30, mechanisms=(), priors=[{"name": "roi_day"}, {"name": "last_day"}])
        found = running.recover(asked, silent, tmp_path / "run", executor)
    assert np.isfinite(found.profiling_error).all()
    assert (found.profiling_error.sel(strategy="prior")[..., 2:] == 0).all()
