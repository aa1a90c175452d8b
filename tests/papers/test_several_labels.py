"""Of several labels the largest value counts or their mean; hours of a recovery are such labels."""

import numpy as np
import pytest
import xarray as xr
from papers.validation import find_faults

from clusterscale.errors import ConfigError
from clusterscale.papers import PaperStudy
from clusterscale.papers.compare import NotComputed, Results, check_claims, compare
from clusterscale.papers.study import PublishedNumbers, ResultSelection
from clusterscale.reporting.papers import HOLDS

PLAN = {"observed": 24, "epochs": 4, "priors": [{"name": "freq_roi"}]}
HOURLY = {"of": "profiling_error_of_epoch", "at": {"strategy": "prior", "epoch": [24, 25, 27]}}


@pytest.fixture
def results():
    by_epoch = np.array([[0.1, 0.5, 0.9, 0.3], [0.2, 0.2, 0.2, 0.8]])
    of_user = np.array([[0.1, 0.9, 0.4], [0.3, 0.5, 0.6]])
    dataset = xr.Dataset(
        {
            "profiling_error_of_epoch": (("strategy", "epoch"), by_epoch),
            "profiling_error": (("strategy", "user"), of_user),
        },
        {"strategy": ["prior", "bayes"], "epoch": range(24, 28)},
    )
    return Results({"recovery": dataset})


def study(**fields):
    return PaperStudy(paper="PETS17", title="t", cube="cabs", recovery=PLAN, people=3, **fields)


def test_the_mean_or_the_most_of_several_epochs_is_found(results):
    mean = results.find(ResultSelection(**HOURLY, take="mean"))
    assert mean.value == pytest.approx(0.3)
    assert np.isnan(mean.error)
    assert results.find(ResultSelection(**HOURLY)).value == 0.5


def test_several_labels_are_joined_for_each_person_first(results):
    at = {"strategy": ["prior", "bayes"]}
    most = results.find(ResultSelection(of="profiling_error", at=at))
    mean = results.find(ResultSelection(of="profiling_error", at=at, take="mean"))
    assert most.value == pytest.approx((0.3 + 0.9 + 0.6) / 3)
    assert mean.value == pytest.approx((0.2 + 0.7 + 0.5) / 3)
    assert mean.n == 3


def test_epochs_that_are_not_there_are_absent(results):
    with pytest.raises(NotComputed):
        results.find(ResultSelection(of=HOURLY["of"], at={"strategy": "prior", "epoch": [24, 28]}))
    with pytest.raises(ConfigError, match="profiling_error_of_epoch needs a label for epoch"):
        results.find(ResultSelection(of=HOURLY["of"], at={"strategy": "prior"}))


def test_a_place_moved_keeps_all_but_its_labels():
    place = PublishedNumbers(
        item="Figure 1",
        source="section 1",
        of="localization_loss",
        at={"prior": "a"},
        take="mean",
        reduce="share_above",
        limit=0.0,
        values=0.5,
    )
    moved = place.where({"prior": "b"})
    assert (moved.of, moved.at) == ("localization_loss", {"prior": "b"})
    assert (moved.take, moved.reduce, moved.limit) == ("mean", "share_above", 0.0)
    assert next(place.figures()).selection == place.where({"prior": "a"})


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ([24, 25, 27], "mean over 24 or 25 or 27"),
        (list(range(24, 31)), "mean over 7 epochs from 24 to 30"),
    ],
)
def test_many_labels_are_told_by_their_ends(labels, told):
    there = xr.Dataset(
        {"profiling_error_of_epoch": (("strategy", "epoch"), np.full((1, 7), 0.5))},
        {"strategy": ["prior"], "epoch": range(24, 31)},
    )
    published = {
        "item": "Figure 6",
        "source": "section 4.4",
        "of": HOURLY["of"],
        "at": {"strategy": "prior", "epoch": labels},
        "take": "mean",
        "values": 0.5,
    }
    (found,) = compare(study(published=[published]), Results({"recovery": there}))
    assert found.setting == f"profiling error of epoch · prior · {told}"
    assert found.verdict == "agrees"


def test_claims_hold_of_means(results):
    claim = {
        "text": "smaller at first",
        "source": "section 4.4",
        "of": HOURLY["of"],
        "take": "mean",
        "at": {"strategy": "prior", "epoch": [24, 27]},
        "relation": "below",
        "than": {"epoch": [25, 26]},
    }
    (kept,) = check_claims(study(claims=[claim]), results)
    assert kept.verdict == HOLDS
    assert kept.margin == pytest.approx(0.7 - 0.2)


def test_epochs_that_are_not_inferred_are_faults():
    def faults(at):
        published = {
            "item": "Figure 6",
            "source": "section 4.4",
            "of": HOURLY["of"],
            "at": at,
            "values": 0.5,
        }
        return list(find_faults(study(published=[published])))

    assert faults({"strategy": "prior", "epoch": [24, 27]}) == []
    (fault,) = faults({"strategy": "prior", "epoch": [23, 27]})
    assert fault.startswith("Figure 6: epoch 23")
    (fault,) = faults({"strategy": "prior"})
    assert fault == "Figure 6: profiling_error_of_epoch needs a label for epoch"


def test_a_plan_says_which_epochs_are_inferred():
    assert study().recovery.inferred == (24, 28)
    moved = study().recovery.model_copy(update={"first": 10})
    assert moved.inferred == (34, 38)
    assert moved.span == (10, 38)
