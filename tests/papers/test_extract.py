"""Numbers in results: selected by label, reduced over people, with their errors."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from papers.made import ATTACKS, MECHANISMS, N_TARGETS, SIZES, audited

from clusterscale.errors import ConfigError
from clusterscale.papers.compare import NotComputed, Results
from clusterscale.papers.study import ResultSelection

AT = {"group_size": 10, "mechanism": "exact", "attack": "logistic"}


@pytest.fixture(scope="module")
def results():
    return Results({"audit": audited()})


@given(st.sampled_from(SIZES), st.sampled_from(MECHANISMS), st.sampled_from(ATTACKS))
def test_a_mean_over_people(size, mechanism, attack):
    dataset = audited()
    at = {"group_size": size, "mechanism": mechanism, "attack": attack}
    found = Results({"audit": dataset}).find(ResultSelection(at=at))
    values = dataset.auc.sel(at).values.ravel()
    assert found.value == pytest.approx(values.mean())
    assert found.spread == pytest.approx(values.std(ddof=1))
    assert found.error == pytest.approx(values.std(ddof=1) / np.sqrt(40))
    assert found.n == 40
    assert found.error_of(160) == pytest.approx(found.error / 2)


def test_other_reductions():
    values = audited().auc.sel(AT).values.ravel()
    results = Results({"audit": audited()})
    median = results.find(ResultSelection(at=AT, reduce="median"))
    assert median.value == np.median(values)
    spread = results.find(ResultSelection(at=AT, reduce="sd"))
    assert spread.value == pytest.approx(values.std(ddof=1))
    above = results.find(ResultSelection(at=AT, reduce="share_above", limit=0.9))
    below = results.find(ResultSelection(at=AT, reduce="share_below", limit=0.9))
    assert above.value == pytest.approx((values > 0.9).mean())
    assert above.value + below.value == pytest.approx(1)
    assert results.find(ResultSelection(at=AT, reduce="share_above", limit=0.0)).error > 0


@pytest.mark.slow
@pytest.mark.parametrize("reduce", ["mean", "median", "sd"])
def test_errors_are_those_of_many_repetitions(reduce):
    """Over 400 made audits; the standard deviation of 400 numbers is known to some 4 %."""
    places = ResultSelection(at=AT, reduce=reduce)
    found = [Results({"audit": audited(seed)}).find(places) for seed in range(400)]
    seen = np.std([each.value for each in found])
    told = np.mean([each.error for each in found])
    assert told == pytest.approx(seen, rel=0.15)


def test_the_best_attack_is_the_best_for_each_person(results):
    best = audited().auc.sel(group_size=10, mechanism="exact").max("attack").mean().item()
    at = {**AT, "attack": "best"}
    assert results.find(ResultSelection(at=at)).value == pytest.approx(best)
    assert results.find(
        ResultSelection(at={**AT, "attack": tuple(ATTACKS)})
    ).value == pytest.approx(best)
    only = Results({"audit": audited()}, best=["nearest"])
    assert (
        only.find(ResultSelection(at=at)).value
        == only.find(ResultSelection(at={**AT, "attack": "nearest"})).value
    )


def test_utility_is_over_groups(results):
    at = {"group_size": 100, "mechanism": "laplace(epsilon=1.0)"}
    found = results.find(ResultSelection(of="utility", at=at))
    assert (found.value, found.n) == (0.1, 25)
    assert found.error == pytest.approx(0.01)


def test_people_who_failed_are_left_out():
    dataset = audited()
    dataset.auc[3:] = np.nan
    assert Results({"audit": dataset}).find(ResultSelection(at=AT)).n == 3
    dataset.auc[:] = np.nan
    with pytest.raises(NotComputed, match="no value was computed"):
        Results({"audit": dataset}).find(ResultSelection(at=AT))


def test_a_label_that_is_not_there_is_told_apart(results):
    with pytest.raises(NotComputed, match="group_size has no 50"):
        results.find(ResultSelection(at={**AT, "group_size": 50}))


def test_what_describes_people_is_found_too():
    """Events of a target are a coordinate of an audit; a variable of another dataset is first."""
    events = np.arange(N_TARGETS)
    described = audited().assign_coords(n_events=("target", events))
    found = Results({"audit": described}).find(ResultSelection(of="n_events"))
    assert (found.value, found.n) == (events.mean(), N_TARGETS)
    other = described.drop_vars("n_events").assign(n_events=("target", 2 * events))
    both = Results({"audit": described, "traits": other})
    assert both.find(ResultSelection(of="n_events")).value == 2 * events.mean()


def test_the_right_dataset_is_found():
    recovery = xr.Dataset({"profiling_error": ("user", np.array([0.2, 0.4]))})
    results = Results({"audit": audited(), "recovery": recovery})
    assert results.find(ResultSelection(of="profiling_error")).value == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (
            ResultSelection(of="aux", at=AT),
            "the results have no variable 'aux'.*did you mean 'auc'",
        ),
        (ResultSelection(at={**AT, "groups": 1}), "auc has no such dimension"),
        (
            ResultSelection(at={"group_size": 10}),
            "auc needs a label for mechanism, one of: exact, laplace",
        ),
    ],
)
def test_a_place_that_is_none(results, place, message):
    with pytest.raises(ConfigError, match=message):
        results.find(place)
