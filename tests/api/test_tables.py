"""Checks of published tables on arrays and datasets."""

import numpy as np
import pytest
import xarray as xr

import clusterscale as cs
from clusterscale.consistency import CHECKS
from clusterscale.errors import InputError, UnknownNameError

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
    checked = cs.check(COUNTS, "exact", 20)
    assert checked.attrs["level"] == "unknown"
    assert np.isnan(checked.measured.sel(check="noise_law").item())


@pytest.mark.parametrize(
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
