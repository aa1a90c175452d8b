"""Numbers that are told as so many times others, or of all labels, or of the most exposed."""

import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from papers.validation import find_faults

from clusterscale.papers import PaperStudy
from clusterscale.papers.compare import NotComputed, Results, check_claims, compare
from clusterscale.papers.study import PublishedNumbers, ResultSelection
from clusterscale.reporting.papers import BREAKS, HOLDS

ATTACKS = ["spectral", "logistic"]
PLAN = {
    "targets": {"random": 30},
    "priors": [{"name": "known_subset", "alpha": 0.2}],
    "group_sizes": [100],
    "mechanisms": [{"name": "exact"}],
    "attacks": [{"name": name} for name in ATTACKS],
}
TOP = {"who": "top", "roi": "all", "epoch": "all"}
IMPROVED = {"at": {"attack": "spectral"}, "over": {"attack": "logistic"}}


def audited(seed=0, n=30, levels=(0.9, 0.6)):
    auc = np.array(levels) + np.random.default_rng(seed).normal(0, 0.03, (n, 2))
    plan = json.dumps({"utility": {"groups": 10}})
    return xr.Dataset({"auc": (("target", "attack"), auc)}, {"attack": ATTACKS}, {"plan": plan})


def traits():
    moves = np.array([[10.0, 0.7], [20.0, 0.6]])
    loading = np.arange(12.0).reshape(2, 2, 3)
    return xr.Dataset(
        {
            "top_mean": (("comparison", "characteristic"), moves),
            "top_sd": (("comparison", "characteristic"), moves / 10),
            "bottom_mean": (("comparison", "characteristic"), moves / 2),
            "bottom_sd": (("comparison", "characteristic"), moves / 5),
            "separation": (("comparison", "characteristic"), [[0.9, 0.5], [0.8, 0.6]]),
            "n_compared": ("comparison", [16, 25]),
            "loading": (("who", "roi", "epoch"), loading),
        },
        {
            "comparison": [0, 1],
            "characteristic": ["total_events", "unicity"],
            "who": ["top", "bottom"],
            "roi": [0, 1],
            "epoch": [5, 6, 7],
        },
    )


def study(**fields):
    return PaperStudy(paper="POMACS20", title="t", cube="cabs", audit=PLAN, people=30, **fields)


def published(**fields):
    return {"item": "Figure 1b", "source": "section 3.1", "values": 1.5, **IMPROVED, **fields}


def test_a_number_is_divided_by_that_over_other_labels():
    auc = audited().auc.mean("target")
    found = Results({"audit": audited()}).find(ResultSelection(**IMPROVED))
    assert found.value == pytest.approx(auc.values[0] / auc.values[1])
    assert found.n == 30


def test_the_error_of_a_ratio_is_that_of_many_repetitions():
    """Over 400 made audits; the standard deviation of 400 numbers is known to some 4 %."""
    found = [
        Results({"audit": audited(seed)}).find(ResultSelection(**IMPROVED)) for seed in range(400)
    ]
    seen = np.std([each.value for each in found])
    assert np.mean([each.error for each in found]) == pytest.approx(seen, rel=0.15)


@given(st.floats(0.1, 10.0))
def test_a_ratio_does_not_hang_on_the_unit(unit):
    one, other = (
        Results({"audit": audited(levels=(0.9, 0.6)) * scale}).find(ResultSelection(**IMPROVED))
        for scale in (1.0, unit)
    )
    assert other.value == pytest.approx(one.value)
    assert other.error == pytest.approx(one.error)


def test_by_nothing_nothing_is_divided():
    dataset = audited()
    dataset.auc[:, 1] = 0.0
    results = Results({"audit": dataset})
    with pytest.raises(NotComputed, match="the divisor is 0"):
        results.find(ResultSelection(**IMPROVED))
    assert list(compare(study(published=[published()]), results)) == []


def test_a_ratio_is_compared_and_says_what_it_is():
    (found,) = compare(study(published=[published()]), Results({"audit": audited()}))
    assert found.setting == "auc · spectral, divided by that of logistic"
    assert found.verdict == "agrees"
    assert found.low < 1.5 < found.high


def test_what_is_published_keeps_it_for_every_label():
    table = PublishedNumbers.model_validate(
        published(by={"group_size": [5, 100]}, values=[1.2, 1.5])
    )
    assert all(each.selection.over == {"attack": "logistic"} for each in table.figures())
    for each in table.figures():
        number, by = each.selection.ends()
        assert by.at == {**number.at, "attack": "logistic"}
        assert not number.over
        assert not by.over
    assert ResultSelection().ends() == (ResultSelection(),)


@pytest.mark.parametrize(("than", "verdict"), [(1.3, HOLDS), (1.7, BREAKS)])
def test_claims_may_be_of_ratios(than, verdict):
    claim = {"text": "it gains", "source": "text", "relation": "above", "than": than, **IMPROVED}
    (kept,) = check_claims(study(claims=[claim]), Results({"audit": audited()}))
    assert kept.verdict == verdict


def test_faults_of_either_end_are_told():
    assert list(find_faults(study(published=[published()]))) == []
    (fault,) = find_faults(study(published=[published(over={"attack": "forest"})]))
    assert fault.startswith("Figure 1b: attack 'forest'")
    claim = {"text": "it gains", "source": "text", "relation": "above", "than": 1.0}
    (fault,) = find_faults(study(claims=[{**claim, **IMPROVED, "over": {"attack": "forest"}}]))
    assert fault.startswith("it gains: attack 'forest'")


def test_all_labels_may_be_asked_for_at_once():
    results = Results({"traits": traits()})
    at = {"who": "bottom", "roi": "all", "epoch": [5, 6]}
    assert results.find(ResultSelection(of="loading", at=at, take="mean")).value == np.mean(
        [6, 7, 9, 10]
    )
    assert results.find(ResultSelection(of="loading", at=at)).value == 10
    named = Results({"traits": traits().assign_coords(who=["top", "all"])})
    assert named.find(ResultSelection(of="loading", at={**at, "who": "all"})).value == 10
    place = {"item": "Figure 5", "source": "text", "values": 0.9, "at": {"attack": "all"}}
    assert list(find_faults(study(published=[place]))) == []


@pytest.mark.parametrize(
    ("of", "comparison", "error"),
    [("top_mean", 0, 0.07 / 4), ("top_mean", 1, 0.06 / 5), ("bottom_mean", 1, 0.12 / 5)],
)
def test_means_over_the_exposed_have_errors(of, comparison, error):
    at = {"comparison": comparison, "characteristic": "unicity"}
    found = Results({"traits": traits()}).find(ResultSelection(of=of, at=at))
    assert found.error == pytest.approx(error)
    assert found.n == (16, 25)[comparison]
    whole = Results({"traits": traits().isel(comparison=[comparison])})
    alone = whole.find(ResultSelection(of=of, at={"characteristic": "unicity"}))
    assert alone == found


def test_how_far_the_exposed_spread_has_an_error_too():
    at = {"comparison": 0, "characteristic": "unicity"}
    found = Results({"traits": traits()}).find(ResultSelection(of="top_sd", at=at))
    assert found.value == found.spread == pytest.approx(0.07)
    draws = np.random.default_rng(1).normal(0, 0.07, (4000, 16)).std(axis=1, ddof=1)
    assert found.error == pytest.approx(draws.std(), rel=0.1)


def test_what_has_no_spread_has_no_error():
    at = {"who": "top", "roi": 0, "epoch": 5}
    found = Results({"traits": traits()}).find(ResultSelection(of="loading", at=at))
    assert np.isnan(found.error)


def test_what_was_not_measured_is_absent():
    """As the map of the most exposed, where too few were attacked for two on a side."""
    dataset = traits()
    dataset.loading[0] = np.nan
    with pytest.raises(NotComputed, match="loading: no value was computed"):
        Results({"traits": dataset}).find(ResultSelection(of="loading", at=TOP, take="mean"))


@pytest.mark.parametrize(("comparison", "characteristic"), [(0, "total_events"), (1, "unicity")])
def test_the_error_of_a_separation_is_that_of_many_draws(comparison, characteristic):
    """Of exponential sides, whose areas Hanley and McNeil's formula is of."""
    at = {"comparison": comparison, "characteristic": characteristic}
    found = Results({"traits": traits()}).find(ResultSelection(of="separation", at=at))
    rng, odds = np.random.default_rng(3), found.value / (1 - found.value)
    high = rng.exponential(odds, (4000, found.n, 1))
    areas = (high > rng.exponential(1.0, (4000, 1, found.n))).mean(axis=(1, 2))
    assert areas.mean() == pytest.approx(found.value, abs=0.005)
    assert found.error == pytest.approx(areas.std(), rel=0.05)


def test_the_error_where_nothing_separates_is_that_of_ranks():
    at = {"comparison": 0, "characteristic": "unicity"}
    found = Results({"traits": traits()}).find(ResultSelection(of="separation", at=at))
    assert found.error**2 == pytest.approx((2 * 16 + 1) / (12 * 16**2))
