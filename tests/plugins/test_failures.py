"""An attack or mechanism that raises an error fails its own cases, and changes no other result."""

import ctypes
import pickle
from dataclasses import asdict

import numpy as np
import pytest
import xarray as xr
from acme_privacy.attack import Direction, MatchingCells
from acme_privacy.mechanism import UniformNoise
from loops import for_each

import clusterscale as cs
from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.audit.task import fold_play, play_whole
from clusterscale.attacks import create as attack
from clusterscale.errors import InputError, PartialResultError, SharedArrayError
from clusterscale.mechanisms import create
from clusterscale.reauditing.release_metrics import exposures_of, measure
from clusterscale.runtime import SerialExecutor


def twin(base, **methods):
    return type(base)("Twin", (base,), {"__doc__": "A twin.", "__module__": __name__} | methods)


def fail(self, *args, **options):
    raise ZeroDivisionError("of a plug-in")


class FailsInTurn:
    """A distinguisher that can be asked only so many times, and knows nothing."""

    threshold = 0.0

    def __init__(self, n_times):
        self.n_left = n_times

    def score(self, release):
        self.n_left -= 1
        if self.n_left < 0:
            fail(self)
        return np.arange(len(release.values)) % 3 * 1.0


def scoring(n_times):
    return twin(MatchingCells, fit=lambda self, knowledge, *, rng: FailsInTurn(n_times))()


def overwrite(self, counts, *, group_size, rng):
    ctypes.memset(counts.ctypes.data, 0, counts.nbytes)
    return counts.astype(np.float64)


OWN = ["nearest", "projection"]
DEFENCES = [create("exact"), create("laplace", epsilon=1.0, unit="event")]


def play(cube, fields, *, attacks=(), mechanisms=(), defences=DEFENCES, own=OWN, **more):
    chosen = {
        "attacks": [attack(own[0]), *attacks, *map(attack, own[1:])],
        "mechanisms": [*mechanisms, *defences],
    }
    plan = AuditPlan(**fields | {"group_sizes": [6]} | chosen | more)
    return next(iter(plan.tasks(cube, plan.targets.choose(cube, plan.seed))))


def measured(outcomes):
    """Return all but the time it took, by case; text, so that NaN is equal to itself."""
    found = {(one.mechanism, one.attack): asdict(one) | {"seconds": 0.0} for one in outcomes}
    return {case: repr(values) for case, values in found.items()}


def in_parts(task):
    (finished,) = SerialExecutor().map_reductions([fold_play(task, [(0, 60)])])
    if finished.error is not None:
        raise finished.error
    return finished.value


FAILING_FIT, FAILING_RELEASE = twin(MatchingCells, fit=fail)(), twin(UniformNoise, release=fail)()


@for_each(
    ("failing", "n_failed"),
    [
        ({"attacks": [FAILING_FIT]}, 2),
        ({"attacks": [scoring(0)], "mechanisms": [FAILING_RELEASE]}, 5),
        ({"mechanisms": [twin(UniformNoise, bind=fail)()]}, 2),
    ],
)
@pytest.mark.parametrize("play_it", [play_whole, in_parts])
def test_other_cases_have_the_bits_that_they_have_without_it(
    play_it, failing, n_failed, cube, plan_fields
):
    check(play_it, n_failed, cube, plan_fields, failing)


@pytest.mark.parametrize(("width", "n_challenges"), [(0.45, 20), (0.001, 40)])
def test_one_that_fails_at_a_later_look_does_not_decide_how_many_there_are(
    width, n_challenges, cube, plan_fields
):
    """It does not know whether the target is inside, which asks for another look; there it fails.

    It scores challenges, and groups with a substitute for the target, before more are added.
    """
    more = {"precision": {"width": width, "most": 40}, "defences": DEFENCES[:1]}
    more |= {"own": ["projection"]}
    outcomes = check(play_whole, 1, cube, plan_fields, {"attacks": [scoring(2)]}, **more)
    assert {one.n_challenges for one in outcomes if not one.error} == {n_challenges}


def check(play_it, n_failed, cube, fields, failing, **more):
    without = measured(play_it(play(cube, fields, **more)))
    with pytest.raises(PartialResultError, match="ZeroDivisionError: of a plug-in") as caught:
        play_it(play(cube, fields, **failing, **more))
    error = pickle.loads(pickle.dumps(caught.value))  # as it reaches another process
    assert 'raise ZeroDivisionError("of a plug-in")' in "".join(error.__notes__), "the traceback"
    failed = [one for one in error.result if one.error]
    assert {one.error for one in failed} == {"ZeroDivisionError: of a plug-in"}
    assert len(failed) == n_failed
    assert all(np.isnan(one.auc) and not one.n_challenges for one in failed)
    assert measured(one for one in error.result if not one.error) == without
    return error.result


def test_arrays_that_others_use_fail_the_task(cube, plan_fields):
    task = play(cube, plan_fields, mechanisms=[twin(UniformNoise, release=overwrite)()])
    with pytest.raises(SharedArrayError):
        play_whole(task)


BROKEN = {}


def fit_unless_broken(self, knowledge, *, rng):
    return (
        fail(self) if BROKEN else Direction(np.ones(knowledge.training.release.flat.shape[1]), 0.0)
    )


def release_unless_broken(self, counts, *, group_size, rng):
    return fail(self) if BROKEN else counts.astype(np.float64)


@pytest.mark.slow
def test_a_run_tells_what_failed_and_runs_it_again(cube, plan_fields, tmp_path, monkeypatch):
    """Of one task of each kind; nothing of such a run passes a gate."""
    plug_ins = (
        twin(MatchingCells, fit=fit_unless_broken),
        twin(UniformNoise, release=release_unless_broken),
    )
    own = plan_fields | {"group_sizes": [6], "targets": {"random": 1}}
    own |= {"attacks": [attack("projection")], "mechanisms": [create("exact")]}
    own |= {"verdict": {"trials": 40}, "utility": {"groups": 2}}
    both = own | {"attacks": [*own["attacks"], plug_ins[0]()]}
    both |= {"mechanisms": [*own["mechanisms"], plug_ins[1]()]}
    without = cs.audit(AuditPlan(**own), cube, tmp_path / "own").load()
    monkeypatch.setitem(BROKEN, "now", True)
    with pytest.warns(RuntimeWarning, match="4 tasks of the audit failed"):
        results = cs.audit(AuditPlan(**both), cube, tmp_path / "run").load()
    assert results.status.values.ravel().tolist() == ["done", "failed", "failed", "failed"]
    assert results.error.values.ravel().tolist() == ["", *["ZeroDivisionError: of a plug-in"] * 3]
    assert "uniform_noise" in results.attrs["evaluation_errors"]
    text = (tmp_path / "run" / "failures.txt").read_text()
    assert text.count('raise ZeroDivisionError("of a plug-in")') == 2, "a traceback for each task"
    exact = {"mechanism": without.mechanism.values, "attack": without.attack.values}
    here, there = (data.sel(exact).drop_vars("seconds") for data in (results, without))
    here.attrs = there.attrs
    xr.testing.assert_identical(here, there)
    exposures = exposures_of(results, None, "exact")
    with pytest.raises(InputError, match="4 tasks of this audit failed"):
        measure(results, exposures, "exact", exposed_above=0.5)
    monkeypatch.delitem(BROKEN, "now")
    again = cs.audit(AuditPlan(**both), cube, tmp_path / "run").load()
    assert (again.status == "done").all()
    here = again.sel(exact).drop_vars("seconds")
    here.attrs = there.attrs
    xr.testing.assert_identical(here, there)
    assert not (tmp_path / "run" / "failures.txt").exists()
