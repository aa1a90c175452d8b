"""Traits of whom an audit and a screen have found: from their results to the dataset."""

import json
import shutil

import numpy as np
import pytest
import running
from conftest import draw_dense, write_cube
from oracles import traits as oracle

from clusterscale import open_traits, storage
from clusterscale.analyses import audit
from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.traits import (
    CHARACTERISTICS,
    TraitsPlan,
    extreme_groups,
    importance,
    loading,
)
from clusterscale.analyses.traits.comparison import WHO
from clusterscale.attacks.spectral import Spectral
from clusterscale.errors import ConfigError, ExistsError, MissingError
from clusterscale.game import study
from clusterscale.mechanisms import create
from clusterscale.runtime import SerialExecutor
from clusterscale.seeds import stream
from clusterscale.study.execution import Finished

pytestmark = pytest.mark.slow  # each starts from a finished audit or screen

HOW = TraitsPlan(share=0.25, components=2, trees=50)
PERIODS = [{"name": "early", "first": 0, "epochs": 30}, {"name": "late", "first": 24, "epochs": 20}]


@pytest.fixture(scope="module")
def crowd():
    return draw_dense(np.random.default_rng(7), 60, 6, 48)


@pytest.fixture(scope="module")
def cube(crowd, tmp_path_factory):
    return write_cube(str(tmp_path_factory.mktemp("traits") / "cube.zarr"), crowd)


@pytest.fixture(scope="module")
def plan():
    return AuditPlan(
        null_roi=True,
        seed=3,
        targets={"random": 8},
        group_sizes=[4],
        periods=PERIODS,
        priors=[
            {"name": "known_subset", "alpha": 0.5, "training": 20, "challenges": 10},
            {"name": "perfect", "groups": 12},
        ],
        mechanisms=[{"name": "exact"}, {"name": "laplace", "epsilon": 1.0, "unit": "event"}],
        attacks=[{"name": "projection"}, {"name": "spectral"}],
        screen={"groups": 30, "attacks": [{"name": "projection"}]},
        control=False,
        verdict={"trials": 40},
        utility={"groups": 2},
    )


@pytest.fixture(scope="module")
def small(plan):
    """The same with one prior, one mechanism and one attack: a fifth of the comparisons."""
    fields = plan.model_dump() | {
        "priors": [{"name": "known_subset", "alpha": 0.5, "training": 20, "challenges": 10}],
        "mechanisms": [{"name": "exact"}],
        "attacks": [{"name": "spectral"}],
    }
    return AuditPlan(**fields)


def audit_and_screen(plan, cube, place):
    running.run(plan, cube, place, SerialExecutor())
    running.screen(plan, cube, place, SerialExecutor())
    return place


@pytest.fixture(scope="module")
def folder(plan, cube, tmp_path_factory):
    """A run's folder, with an audit and a screen."""
    return audit_and_screen(plan, cube, tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def small_folder(small, cube, tmp_path_factory):
    return audit_and_screen(small, cube, tmp_path_factory.mktemp("small"))


@pytest.fixture
def copied(folder, tmp_path):
    """The same in a folder of its own, without traits."""
    return _copy(folder, tmp_path)


@pytest.fixture
def small_copied(small_folder, tmp_path):
    return _copy(small_folder, tmp_path)


def _copy(source, target):
    for name in ("results.zarr", "screen/results.zarr"):
        shutil.copytree(source / name, target / name)
    return target


@pytest.fixture(scope="module")
def found(plan, cube, folder):
    return running.traits(plan, cube, folder, SerialExecutor(), how=HOW).load()


@pytest.fixture(scope="module")
def small_found(small, cube, small_folder, tmp_path_factory):
    place = _copy(small_folder, tmp_path_factory.mktemp("found"))
    return running.traits(small, cube, place, SerialExecutor(), how=HOW).load()


@pytest.mark.slow
def test_everybody_is_described_in_every_period(found, cube, crowd):
    assert found.value.dtype == np.float32
    days = cube.calendar.days()
    for period in PERIODS:
        span = slice(period["first"], period["first"] + period["epochs"])
        expected = oracle.characteristics(crowd[:, :, span], days[span])
        np.testing.assert_allclose(found.value.sel(period=period["name"]), expected, rtol=1e-6)
        n_events = crowd[:, :, span].sum(axis=(1, 2))
        np.testing.assert_array_equal(found.n_events.sel(period=period["name"]), n_events)
        assert found.n_seen.sel(period=period["name"]) == (n_events > 0).sum()
    assert tuple(found.characteristic.values) == CHARACTERISTICS


def test_popularity_is_counted_with_the_null_roi(found, crowd):
    assert found.epoch.values.tolist() == list(range(44))
    late = crowd[:, :, 24:44]
    there = found.sel(period="late")
    assert there.roi_events.values[:-1].tolist() == late.sum(axis=(0, 2)).tolist()
    assert there.roi_events.values[-1] == (~late.any(axis=1)).sum()
    assert there.epoch_events.values[:24].tolist() == [0] * 24
    assert there.epoch_events.values[24:].tolist() == late.sum(axis=(0, 1)).tolist()


def test_cells_have_places_and_times(found, cube):
    assert found.roi_name.values[-1] == "null"
    np.testing.assert_allclose(found.x[:-1], cube.regions.lon, rtol=1e-6)
    np.testing.assert_allclose(found.y[:-1], cube.regions.lat, rtol=1e-6)
    assert np.isnan(found.x[-1])
    assert found.time.values[0] == np.datetime64("2024-01-01T00:00")
    assert found.time.values[-1] == np.datetime64("2024-01-02T19:00")


def test_every_case_of_audit_and_screen_is_compared(found):
    table = list(
        zip(
            *(
                found[name].values.tolist()
                for name in ("source", "compared_period", "compared_prior", "compared_attack")
            ),
            strict=True,
        )
    )
    assert len(table) == 2 * 2 * 2 * 2 + 2 * 2  # the audit's, the screen's
    assert table[-1] == ("screen", "late", "", "projection")
    assert found.n_compared.values.tolist() == [2] * 16 + [15] * 4


def test_a_comparison_is_what_the_parts_give(found, folder, crowd, plan):
    results = audit.open_results(folder)
    number = next(
        i
        for i in range(found.sizes["comparison"])
        if found.compared_period[i] == "late" and found.compared_attack[i] == "spectral"
    )
    case = found.isel(comparison=number)
    at = {dim: case[f"compared_{dim}"].item() for dim in ("period", "prior", "group_size")}
    names = at | {dim: case[f"compared_{dim}"].item() for dim in ("mechanism", "attack")}
    auc = results.auc.sel(names).values
    second = results.auc.sel({k: v for k, v in names.items() if k != "attack"}).mean("attack")
    top, bottom = (results.target.values[side] for side in extreme_groups(auc, 0.25, second.values))
    values = found.value.sel(period="late")
    key = at["prior"], at["group_size"], names["mechanism"], names["attack"]
    rng = stream(3, "traits", 24, 44, "audit", *key)
    expected = importance(values.values[top], values.values[bottom], trees=50, rng=rng)
    for name in ("top_mean", "bottom_sd", "forest_importance", "logistic_coefficient"):
        np.testing.assert_allclose(case[name], getattr(expected, name), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(case.separation, expected.separation, rtol=1e-6)
    assert case.auc_top == pytest.approx(np.sort(auc)[-2:].mean())
    for who, users in zip(WHO, (results.target.values, top, bottom), strict=True):
        visits = crowd[users, :, 24:44].sum(axis=(0, 1))
        share = case.frequency.sel(who=who)
        np.testing.assert_allclose(share[24:], visits / visits.sum(), rtol=1e-6)
        assert share[:24].isnull().all()


def by_hand(plan, cube, view, mechanism, targets):
    """Loadings of targets, from the groups that the audit plays on."""
    chosen = audit.targets.Chosen(targets, ("",) * len(targets))
    period = next(each.id for each in plan.periods if each.name == view.view_period)
    for task in plan.tasks(cube, chosen):
        if task.key[1:] == (period, view.view_prior, view.view_group_size):
            ((game, bounds),) = audit.task.set_up(task)
            path = (*task.key[1:], task.target)
            known = study(game, mechanism, seed=plan.seed, path=path, bounds=bounds).training
            values = loading(known.release.flat, known.labels, components=2)
            yield values.reshape(known.release.values.shape[1:])


def test_views_are_of_bare_counts_of_the_targets(found, folder, plan, cube):
    results = audit.open_results(folder)
    assert found.view_mechanism.values.tolist() == ["exact"] * 4
    assert found.n_viewed.values.tolist() == [[8, 2, 2]] * 4
    for number in (0, 3):
        view = found.isel(view=number)
        hand = np.array(list(by_hand(plan, cube, view, create("exact"), results.target.values)))
        at = {dim: view[f"view_{dim}"].item() for dim in ("period", "prior", "group_size")}
        auc = results.auc.sel(at | {"mechanism": "exact"})
        second = auc.mean("attack").values
        rows = [slice(None), *extreme_groups(auc.sel(attack="spectral").values, 0.25, second)]
        span = slice(0, 30) if at["period"] == "early" else slice(24, 44)
        for who, row in zip(WHO, rows, strict=True):
            means = view.loading.sel(who=who).values
            np.testing.assert_allclose(means[:, span], hand[row].mean(axis=0), atol=1e-6)
            outside = np.delete(means, np.arange(44)[span], axis=1)
            assert np.isnan(outside).all()


def test_the_dataset_says_what_it_is_of(found, plan, cube):
    attributes = found.attrs
    assert attributes["cube_fingerprint"] == cube.fingerprint
    assert json.loads(attributes["plan"])["traits"]["share"] == 0.25
    assert json.loads(attributes["plan"])["audit"]["seed"] == attributes["seed"] == 3
    assert json.loads(attributes["cube"])["null_roi"] is True
    assert json.loads(attributes["roi_shapes"]) == {"kind": "points"}
    assert "numpy" in json.loads(attributes["versions"])
    assert "u00" not in str(found.to_dict())


class CutOff:
    """Does a few tasks in another order, and then no more."""

    n_workers = 1

    def __init__(self, most):
        self.left = most

    def preflight(self, probe):
        probe()

    def map_batches(self, function, items, **options):
        for item in reversed(list(items)):
            self.left -= 1
            if self.left < 0:
                yield [Finished(item, error=KeyError("cut off"))]
            else:
                yield [Finished(item, function(item))]


@pytest.mark.slow
@pytest.mark.parametrize("most", [0, 2, 5, 12])
def test_a_run_that_is_cut_off_goes_on_and_ends_with_the_same_bits(
    small, cube, small_copied, small_found, most
):
    """In each stage: one measures, two count over a period, four compare, 16 have components."""
    with pytest.raises(KeyError, match="cut off"):
        running.traits(small, cube, small_copied, CutOff(most), how=HOW)
    with pytest.raises(MissingError, match="this traits has not finished"):
        open_traits(small_copied)
    seen = []
    end = CutOff(10**9)
    again = running.traits(small, cube, small_copied, end, how=HOW, on_progress=seen.append)
    assert again.load().identical(small_found)
    assert open_traits(small_copied).load().identical(small_found)
    stages = list(dict.fromkeys(each.stage for each in seen))
    assert stages == [s for s in ("measure", "unicity", "compare", "components") if s in stages]
    assert (most < 3) == ("measure" in stages)  # one task, and a slice for each period
    assert all(each.n_done <= each.n_tasks for each in seen)


@pytest.mark.slow
def test_little_memory_changes_nothing(small, cube, small_copied, small_found, monkeypatch):
    """Users by the part, time by the slice."""
    monkeypatch.setattr("clusterscale.analyses.traits.mobility._USERS", 16)
    monkeypatch.setattr("clusterscale.cube.blocks._MOST_USERS", 16)
    monkeypatch.setattr("clusterscale.analyses.audit.resources._PROCESS", 10**6)
    few = running.traits(small, cube, small_copied, SerialExecutor(), how=HOW, memory=351_000_000)
    assert few.load().identical(small_found)


@pytest.mark.slow
@pytest.mark.dask
def test_workers_give_the_same_bits(small, cube, small_copied, small_found, local_cluster):
    again = running.traits(small, cube, small_copied, local_cluster, how=HOW)
    assert again.load().identical(small_found)


def test_nothing_is_done_twice(plan, cube, folder, found):
    seen = []
    again = running.traits(plan, cube, folder, CutOff(0), how=HOW, on_progress=seen.append)
    assert again.load().identical(found)
    assert all(each.n_done == each.n_tasks for each in seen)


def test_a_screen_alone_has_no_views(plan, cube, copied):
    storage.remove(str(copied / "results.zarr"))
    alone = running.traits(plan, cube, copied, SerialExecutor(), how=HOW).load()
    assert alone.sizes["view"] == 0
    assert set(alone.source.values) == {"screen"}
    assert alone.loading.shape == (0, 3, 7, 44)


def test_too_few_targets_are_described_and_not_compared(plan, cube, copied):
    storage.remove(str(copied / "screen"))
    how = HOW.model_copy(update={"share": 0.05, "targets": 5})
    few = running.traits(plan, cube, copied, SerialExecutor(), how=how).load()
    assert few.sizes["comparison"] == 0
    assert np.isfinite(few.value).all()
    assert few.n_viewed.values.tolist() == [[5, 0, 0]] * 4
    assert few.loading.sel(who="top").isnull().all()
    assert few.loading.sel(who="all", roi=0)[0, :30].notnull().all()


def test_other_steps_and_priors_have_views_too(cube, tmp_path):
    """Coarser cells are told on those of the cube; who studies each release, as the first."""
    plan = AuditPlan(
        seed=1,
        null_roi=False,
        targets={"random": 4},
        group_sizes=[4],
        periods=[{"name": "all", "first": 24, "epochs": 24, "observed": [0]}],
        priors=[
            {"name": "same_groups", "beta": 20},
            {"name": "different_groups", "beta": 24},
            {"name": "known_subset", "alpha": 0.5, "training": 20, "challenges": 10},
        ],
        mechanisms=[{"name": "coarsen_time", "factor": 4}],
        attacks=[{"name": "spectral"}],
        control=False,
        verdict={"trials": 40},
        utility={"groups": 2},
    )
    running.run(plan, cube, tmp_path, SerialExecutor())
    found = running.traits(plan, cube, tmp_path, SerialExecutor(), how=HOW).load()
    assert found.sizes["view"] == 3
    values = found.loading.sel(who="all").values
    assert values.shape == (3, 6, 24)
    blocks = values.reshape(3, 6, 6, 4)
    assert (blocks == blocks[..., :1]).all()
    assert (values > 0).any(axis=(1, 2)).all()


@pytest.mark.parametrize("refit", ["shared", "per_release"])
def test_views_are_of_the_releases_that_the_attack_trained_on(cube, tmp_path, monkeypatch, refit):
    """Noise and all; of an adversary who makes them up for each release, those of the first."""
    plan = AuditPlan(
        seed=1,
        null_roi=False,
        targets={"random": 2},
        group_sizes=[4],
        periods=[{"name": "all", "epochs": 48}],
        priors=[
            {"name": "known_subset", "alpha": 0.5, "training": 20, "challenges": 6},
            {"name": "zero_knowledge", "reference": 30, "training": 20, "challenges": 6}
            | {"validation": 20, "refit": refit},
        ],
        mechanisms=[{"name": "laplace", "epsilon": 1.0, "unit": "event"}],
        attacks=[{"name": "spectral"}],
        control=False,
        verdict={"trials": 40},
        utility={"groups": 2},
    )
    fit, held = Spectral.fit, []

    def watch(attack, knowledge, *, rng):
        held.append(knowledge.training)
        return fit(attack, knowledge, rng=rng)

    monkeypatch.setattr(Spectral, "fit", watch)
    running.run(plan, cube, tmp_path, SerialExecutor())
    found = running.traits(plan, cube, tmp_path, SerialExecutor(), how=HOW).load()
    each = {"shared": 6, "per_release": 6}[refit]  # trainings for a target, after those that know
    assert len(held) == 2 * (6 + each)
    groups = held[:: 6 + each], held[6 :: 6 + each]
    for number in (0, 1):
        values = [
            loading(known.release.flat, known.labels, components=2).reshape(6, 48)
            for known in groups[number]
        ]
        means = found.loading.isel(view=number).sel(who="all")
        np.testing.assert_allclose(means, np.mean(values, axis=0), atol=1e-6)


def test_without_an_audit_or_a_screen_there_is_nothing_to_explain(plan, cube, tmp_path):
    with pytest.raises(MissingError, match="run `clusterscale audit` or `clusterscale screen`"):
        running.traits(plan, cube, tmp_path, SerialExecutor())


def test_results_of_another_plan_or_cube_are_refused(plan, cube, copied, tmp_path_factory):
    other = plan.model_copy(update={"seed": 4})
    with pytest.raises(
        ExistsError, match="an audit of another plan, or of other code: run `clusterscale audit`"
    ):
        running.traits(other, cube, copied, SerialExecutor())
    dense = draw_dense(np.random.default_rng(8), 60, 6, 48)
    uri = str(tmp_path_factory.mktemp("other") / "cube.zarr")
    with pytest.raises(ExistsError, match="an audit of another cube"):
        running.traits(plan, write_cube(uri, dense), copied, SerialExecutor())
    storage.remove(str(copied / "results.zarr"))
    with pytest.raises(
        ExistsError, match="a screen of another plan, or of other code: run `clusterscale screen`"
    ):
        running.traits(other, cube, copied, SerialExecutor())


def test_other_exposures_are_another_question(small, cube, small_copied):
    storage.remove(str(small_copied / "screen"))
    running.traits(small, cube, small_copied, SerialExecutor(), how=HOW)
    with pytest.raises(ExistsError, match="holds traits of another plan"):
        running.traits(small, cube, small_copied, SerialExecutor())
    how = HOW.model_copy(update={"share": 0.5})
    again = running.traits(small, cube, small_copied, SerialExecutor(), how=how, force=True)
    assert json.loads(again.attrs["plan"])["traits"]["share"] == 0.5
    assert again.n_compared.values.tolist() == [4] * 2


def test_too_little_memory_is_reported(plan, cube, copied):
    with pytest.raises(ConfigError, match="memory: "):
        running.traits(plan, cube, copied, SerialExecutor(), how=HOW, memory=10**6)


def test_an_audit_may_follow_in_the_folder_of_a_screen_with_traits(cube, small, tmp_path):
    running.screen(small, cube, tmp_path, SerialExecutor())
    running.traits(small, cube, tmp_path, SerialExecutor(), how=HOW)
    running.run(small, cube, tmp_path, SerialExecutor())
