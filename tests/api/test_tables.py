"""Checks of published tables on arrays and datasets."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from loops import for_each
from typer.testing import CliRunner

import clusterscale as cs
from clusterscale.cli import app
from clusterscale.errors import InputError, UnknownNameError
from clusterscale.mechanisms import create
from clusterscale.release.checks import CHECKS, PublishedTable

SUPPRESS = {"name": "suppress_small", "up_to": 3}
COUNTS = np.array([[7, 2, 9], [3, 8, 6]])


def test_values_that_are_never_published_are_found():
    checked = cs.check(COUNTS, SUPPRESS, 20)
    assert checked.attrs["level"] == "inconsistent"
    assert list(checked.check.values) == list(CHECKS)
    assert checked.measured.sel(check="possible_values").item() == 2


def test_totals_of_a_dataset_are_used_whatever_the_order_of_dimensions():
    shown = np.where(COUNTS > 3, COUNTS, np.nan)
    dataset = xr.Dataset(
        {
            "values": (("epoch", "roi"), shown.T),
            "roi_total": ("roi", COUNTS.sum(axis=1)),
            "epoch_total": ("epoch", COUNTS.sum(axis=0)),
        }
    )
    checked = cs.check(dataset, SUPPRESS, 20)
    assert checked.level.sel(check="totals").item() == "inconsistent"


def test_a_check_that_cannot_decide_leaves_the_table_unknown():
    checked = cs.check(np.full((2, 3), np.nan), SUPPRESS, 20)
    assert checked.attrs["level"] == "unknown"
    assert np.isnan(checked.measured.sel(check="noise_law").item())


def test_counts_that_are_too_few_for_the_noise_leave_the_table_unknown():
    counts, noise = np.full((2, 5), 7), {"name": "laplace", "epsilon": 1.0, "sensitivity": 1.0}
    values = counts + np.linspace(-1.1, 1.3, 10).reshape(2, 5)
    assert cs.check(values, noise, 20).attrs["level"] == "consistent"
    assert cs.check(values, noise, 20, counts=counts).attrs["level"] == "unknown"


@pytest.mark.parametrize(
    ("part", "declared", "level", "code"),
    [
        ([[40, 39]], False, "unknown", 3),
        ([[40, 39]], True, "inconsistent", 4),
        ([[90, 5]], False, "consistent", 0),
    ],
)
def test_python_and_the_command_agree(tmp_path, monkeypatch, part, declared, level, code):
    """Two cells are too few to show that a group is everyone but one person."""
    monkeypatch.chdir(tmp_path)
    for name, counts in (("all", [[40, 40]]), ("part", part)):
        lines = [f"a,2026-03-02T0{hour}:00Z,{n}" for hour, n in enumerate(counts[0])]
        Path(f"{name}.csv").write_text("place,time,count\n" + "\n".join(lines))
        about = {"clusterscale": {"group_size": 299 + (name == "all")}}
        Path(f"{name}.csv-metadata.json").write_text(json.dumps(about))
    words = ["--subset-of", "part.csv=all.csv"] if declared else []
    run = CliRunner().invoke(app, ["check", "all.csv", "part.csv", "--method", "exact", *words])
    assert run.exit_code == code
    wholes = {"part.csv": "all.csv"} if declared else None
    results = cs.check_tables(["all.csv", "part.csv"], mechanism="exact", subset_of=wholes)
    verdicts = {"unknown": "warn", "inconsistent": "fail", "consistent": "pass"}
    assert {result.verdict for result in results} == {verdicts[level]}
    exact, unknown = create("exact"), np.full((1, 2), -1, np.int32)
    whole = PublishedTable("all", np.array([[40.0, 40.0]]), 300, exact, 0, unknown)
    subset_of = ["all"] if declared else []
    checked = cs.check(part, "exact", 299, others=[whole], subset_of=subset_of)
    assert checked.attrs["level"] == level


@for_each(
    ("options", "error", "message"),
    [
        ({"values": xr.DataArray(COUNTS, dims=("x", "y"))}, InputError, "should have .roi, epoch"),
        ({"values": xr.Dataset()}, InputError, "no variable `values`"),
        ({"counts": COUNTS / 2}, InputError, "whole numbers"),
        ({"counts": COUNTS + 2**40}, InputError, "too large"),
        ({"mechanism": "laplac"}, UnknownNameError, "did you mean 'laplace'"),
    ],
)
def test_what_cannot_be_checked_is_an_error(options, error, message):
    options = {"values": COUNTS, "mechanism": "exact"} | options
    with pytest.raises(error, match=message):
        cs.check(options.pop("values"), options.pop("mechanism"), 20, **options)
