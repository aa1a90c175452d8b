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
from clusterscale.release.checks import CHECKS

SUPPRESS = {"name": "suppress_small", "up_to": 3}
COUNTS = np.array([[7, 2, 9], [3, 8, 6]])


def levels(found):
    return {one.check: one.level for one in found.results}


def test_totals_of_a_dataset_are_used_whatever_the_order_of_dimensions():
    shown = np.where(COUNTS > 3, COUNTS, np.nan)
    dataset = xr.Dataset(
        {
            "values": (("epoch", "roi"), shown.T),
            "roi_total": ("roi", COUNTS.sum(axis=1)),
            "epoch_total": ("epoch", COUNTS.sum(axis=0)),
        }
    )
    (checked,) = cs.check(dataset, SUPPRESS, 20)
    assert list(levels(checked)) == list(CHECKS)
    assert levels(checked)["totals"] == "inconsistent"


def test_totals_that_narrow_down_a_cell_leave_a_table_inconclusive():
    """Two hidden cells of one row are 1 and 2 in some order; nothing determines either."""
    dataset = xr.Dataset(
        {"values": (("roi", "epoch"), [[np.nan, np.nan, 9.0]]), "roi_total": ("roi", [12.0])}
    )
    (checked,) = cs.check(dataset, {"name": "threshold", "k": 5, "shown": "label"}, 20)
    assert levels(checked)["totals"] == "consistent"
    assert checked.verdict == "warn"
    assert checked.omitted == "2 of 2 hidden cells are known too well; 2 count 1 to 4 people"
    assert [(one.low, one.high) for one in checked.open_cells] == [(1, 2), (1, 2)]


def test_counts_that_are_too_few_for_the_noise_leave_the_table_unknown():
    counts, noise = np.full((2, 5), 7), {"name": "laplace", "epsilon": 1.0, "sensitivity": 1.0}
    values = counts + np.linspace(-1.1, 1.3, 10).reshape(2, 5)
    assert cs.check(values, noise, 20)[0].verdict == "pass"
    assert cs.check(values, noise, 20, counts=counts)[0].verdict == "warn"


@pytest.mark.parametrize(
    ("part", "declared", "verdict", "code"),
    [([[40, 39]], False, "warn", 3), ([[40, 39]], True, "fail", 4), ([[90, 5]], False, "pass", 0)],
)
def test_python_and_the_command_agree(tmp_path, monkeypatch, part, declared, verdict, code):
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
    results = cs.check(["all.csv", "part.csv"], mechanism="exact", subset_of=wholes)
    assert {result.verdict for result in results} == {verdict}
    tables = {
        f"{name}.csv": xr.Dataset({"values": (("roi", "epoch"), some)}, attrs={"group_size": size})
        for name, some, size in (("all", [[40, 40]], 300), ("part", part, 299))
    }
    named = cs.check(tables, "exact", subset_of=wholes)
    assert [one.results for one in named] == [one.results for one in results]
    beside = {"all.csv": tables.pop("all.csv")}
    assert cs.check(tables, "exact", beside=beside, subset_of=wholes) == named[1:]


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
