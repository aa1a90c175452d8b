"""Studies run: gone on with where they were, told beside the paper's, costs added up."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr

from clusterscale import open_recovery
from clusterscale.analyses.audit import open_results
from clusterscale.analyses.marginals import MarginalsAnalysis
from clusterscale.errors import ClusterscaleError, ConfigError, InputError
from clusterscale.papers import Cubes, PaperStudy, report_without_results, reproduce
from clusterscale.runtime import SerialExecutor

pytestmark = pytest.mark.slow  # each runs a study

SMALL = {
    "paper": "POPETS24",
    "title": "Phones",
    "cube": "milan",
    "users": 60,
    "audit": {
        "seed": 1,
        "control": False,
        "null_roi": False,
        "targets": {"random": 3},
        "priors": [{"name": "known_subset", "alpha": 0.5, "training": 40, "challenges": 20}],
        "group_sizes": [5, 10],
        "mechanisms": [{"name": "exact"}],
        "attacks": [{"name": "projection"}],
    },
    "published": [
        {
            "item": "Figure 7",
            "source": "section 5",
            "by": {"group_size": [5, 10]},
            "values": [1.0, None],
        }
    ],
    "claims": [
        {
            "text": "small groups do not protect",
            "source": "section 5",
            "at": {"group_size": 5},
            "relation": "above",
            "than": 0.6,
        }
    ],
    "figures": [{"item": "Figure 7", "along": "group_size", "ticks": [5, 10], "y": "AUC"}],
    "remarks": ["so we define it"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("papers"))


def done(folder, **fields):
    study = PaperStudy.model_validate({**SMALL, **fields})
    return reproduce("popets24/small", study, Cubes(f"{folder}/cubes", {}), folder, EXECUTOR)


EXECUTOR = SerialExecutor()


def test_a_study_tells_numbers_statements_and_remarks(folder):
    told = done(folder)
    (number,), (kept,) = told.compared, told.claims
    results = open_results(f"{folder}/run")
    assert number.ours == pytest.approx(results.auc.sel(group_size=5).mean().item())
    assert number.verdict == "not compared"
    assert kept.margin == pytest.approx(number.ours - 0.6)
    assert not told.missing
    assert told.remarks == ("so we define it",)
    assert told.data == "60 synthetic users of the preset milan"
    assert told.core_seconds > 0


def test_it_is_gone_on_with_and_costs_are_added_up(folder):
    first = done(folder)
    before = open_results(f"{folder}/run").load()
    again = done(folder)
    assert again.compared == first.compared
    xr.testing.assert_identical(open_results(f"{folder}/run").load(), before)
    assert again.core_seconds > first.core_seconds
    with open(f"{folder}/cost.json") as file:
        assert json.load(file)["core_seconds"] == again.core_seconds


def test_a_study_that_fails_costs_too(tmp_path):
    with pytest.raises(ClusterscaleError):
        done(str(tmp_path), audit={**SMALL["audit"], "group_sizes": [50_000]})
    assert (tmp_path / "cost.json").exists()


@pytest.mark.slow
def test_a_recovery_is_run_too(tmp_path):
    recovery = {"observed": 144, "epochs": 24, "priors": [{"name": "freq_roi"}]}
    number = {
        "item": "Table 3",
        "source": "text",
        "of": "profiling_error",
        "at": {"strategy": "bayes"},
        "values": 0.5,
    }
    fields = {"audit": None, "recovery": recovery, "claims": [], "figures": []}
    told = done(str(tmp_path), **fields, published=[number])
    found = open_recovery(f"{tmp_path}/run/recovery/results.zarr").profiling_error
    assert told.compared[0].ours == pytest.approx(found.sel(strategy="bayes").mean().item())
    assert np.isfinite(told.compared[0].low)


@pytest.mark.slow
def test_traits_are_asked_of_an_audit(tmp_path):
    number = {
        "item": "Table 2",
        "source": "text",
        "of": "top_mean",
        "at": {"comparison": 0, "characteristic": "total_events"},
        "values": 10,
    }
    audit = {**SMALL["audit"], "targets": {"random": 10}, "group_sizes": [10]}
    found = done(str(tmp_path), audit=audit, traits={"share": 0.3}, published=[number], claims=[])
    assert found.compared[0].ours > 0


@pytest.mark.slow
def test_marginals_are_measured_too(tmp_path):
    """Of 500 users without counts of 1, places are nearer to the truth after log compression."""
    marginals = {
        "seed": 1,
        "group_sizes": [500],
        "mechanisms": [{"name": "suppress_small", "up_to": 1}],
        "groups": 4,
    }
    claim = {
        "text": "compressed places are nearer",
        "source": "section 4.3.1",
        "item": "Figure 4",
        "of": "distance",
        "at": {"estimate": "corrected", "marginal": "space"},
        "relation": "below",
        "than": {"estimate": "uncorrected"},
    }
    fields = {"audit": None, "users": 2000, "marginals": marginals, "published": [], "figures": []}
    (kept,) = done(str(tmp_path), **fields, claims=[claim]).claims
    distance = (
        MarginalsAnalysis.read(f"{tmp_path}/run").distance.sel(marginal="space").mean("group")
    )
    margin = distance.sel(estimate="uncorrected") - distance.sel(estimate="corrected")
    assert kept.margin == pytest.approx(margin.item())
    assert kept.verdict == "holds"
    assert kept.half < kept.margin
    assert kept.source == "Figure 4, section 4.3.1"


def test_a_study_without_its_data_is_told_as_missing():
    study = PaperStudy.model_validate({**SMALL, "cube": "cabs", "users": None})
    told = report_without_results("popets24/small", study, "it needs the cabs")
    assert {each.item: each.why for each in told.missing} == {"Figure 7": "it needs the cabs"}
    assert np.isnan(told.core_seconds)


def test_cabs_must_be_there_and_be_the_papers(tmp_path, cube):
    study = PaperStudy.model_validate({**SMALL, "cube": "cabs", "users": None})
    none = Cubes(str(tmp_path), {})
    assert not none.has(study)
    with pytest.raises(ConfigError, match="needs the San Francisco cabs"):
        none.open(study)
    others = Cubes(str(tmp_path), {"cabs": cube.uri})
    assert others.has(study)
    with pytest.raises(
        InputError, match="the papers have 534 San Francisco cabs, 100 ROIs and 504 hours, but"
    ):
        others.open(study)


def test_a_preset_is_made_once(tmp_path):
    cubes, study = Cubes(str(tmp_path), {}), PaperStudy.model_validate(SMALL)
    first = cubes.open(study)
    assert first.n_users == 60
    assert Cubes(str(tmp_path), {}).open(study).fingerprint == first.fingerprint
    assert [each.name for each in tmp_path.iterdir()] == ["milan-60.zarr"]
