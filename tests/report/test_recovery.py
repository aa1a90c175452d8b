"""The report of a recovery tells its dataset, number by number."""

import json

import numpy as np
import pytest
import xarray as xr
from report.made import named
from report.page import Page

from clusterscale import schema
from clusterscale.analyses.recovery import RECOVERY, privacy_gain, privacy_loss
from clusterscale.errors import FormatError
from clusterscale.reporting import render

LABELS = {
    "mechanism": ["exact", "laplace(epsilon=1.0)"],
    "prior": ["freq_roi", "last_day"],
    "strategy": ["prior", "release", "bayes", "max_roi"],
    "reading": ["popular", "every"],
}


@pytest.fixture
def found():
    """Sixty users, whom bayes hurts under freq_roi, and noise protects."""
    rng = np.random.default_rng(4)
    n_users, n_epochs = 60, 48
    error = rng.uniform(0.4, 0.6, (2, 2, 4, n_users))
    error[0, 0, 2] /= 2
    local = rng.uniform(0.5, 0.9, (2, 2, 4, 2, n_users))
    variables = {
        "profiling_error": error,
        "profiling_loss": privacy_loss(error[:, :, :1], error),
        "profiling_gain": privacy_gain(error[:1], error),
        "localization_error": local,
        "localization_loss": privacy_loss(local[:, :, :1], local),
        "localization_gain": privacy_gain(local[:1], local),
        "profiling_error_of_epoch": rng.uniform(0.4, 0.6, (2, 2, 4, n_epochs)),
        "localization_error_of_epoch": rng.uniform(0.4, 0.6, (2, 2, 4, 2, n_epochs)),
        "relative_error": np.array([0.0, 3.25]),
    }
    coords = {
        **{dim: np.array(values, dtype=object) for dim, values in LABELS.items()},
        "user": np.arange(n_users),
        "epoch": np.arange(100, 100 + n_epochs),
        "n_events": ("user", rng.integers(0, 90, n_users)),
        **named("prior", LABELS["prior"], [{"name": "freq_roi"}]),
    }
    attributes = {
        "format": "clusterscale-recovery",
        "plan": json.dumps({"observed": 100, "priors": [{"name": "freq_roi"}]}),
        "cube": json.dumps({"source": "synthetic tfl", "n_users": n_users}),
    }
    data = {name: (RECOVERY[name].dims, values) for name, values in variables.items()}
    return xr.Dataset(data, coords, attributes)


@pytest.mark.usefixtures("no_figures")
def test_the_findings_are_those_of_the_strongest(found):
    page = Page(render(found))
    bare = found.profiling_error.sel(mechanism="exact").mean("user")
    known, left = bare.sel(strategy="prior").min(), bare.min()
    assert f"{100 * (1 - left / known):.0f} %" in page.text
    words = " ".join(page.text.split())
    assert f"bayes with frequency of places has the lowest mean error, {left:.3f}" in words
    assert f"has {known:.3f}" in words
    first, last = ["overview", "spread", "hours", "recovery-gains"], ["configuration", "provenance"]
    assert page.sections == [*first, "recovery-results", *last, "reading"]


@pytest.mark.usefixtures("no_figures")
def test_every_mean_stands_in_the_table(found):
    table = Page(render(found)).tables["Errors by mechanism, prior and strategy"]
    rows = [row for row in table if row[0] == "bayes"]
    assert len(rows) == 4
    bare = found.sel(mechanism="exact", prior="freq_roi", strategy="bayes")
    localization = bare.localization_error.mean("user")
    best = int(localization.argmin("reading"))
    expected = [
        f"{bare.profiling_error.mean():.3f}",
        f"{bare.profiling_loss.mean():.3f}",
        f"{100 * (bare.profiling_loss > 0).mean():.0f} %",
        f"{bare.profiling_gain.mean():.3f}",
        f"{localization[best]:.3f}",
        f"{bare.localization_loss.isel(reading=best).mean():.3f}",
        f"{bare.localization_gain.isel(reading=best).mean():.3f}",
    ]
    assert rows[0][1:] == expected


def test_figures_hold_the_curves(found):
    page = Page(render(found))
    assert set(page.figures) == {
        *(f"{goal}-{i}" for goal in ("profiling", "localization", "hours") for i in (1, 2))
    }
    text = json.dumps(page.figures["hours-2"])
    values = found.profiling_error_of_epoch.sel(mechanism="exact", prior="last_day")
    assert f"{values.values[0, 0]:.4f}".rstrip("0") in text


@pytest.mark.usefixtures("no_figures")
def test_gains_are_told_with_their_price(found):
    page = Page(render(found))
    table = page.tables["Privacy gain of users, frequency of places"]
    assert table[1][:3] == ["laplace(epsilon=1.0)", "3.25", "bayes"]
    bare = found.isel(mechanism=[0])
    assert "recovery-gains" not in Page(render(bare)).sections


@pytest.mark.usefixtures("no_figures")
def test_nothing_gained_is_said(found):
    """A prior that is better without the release hides what the release adds to another."""
    for name in ("profiling_error", "localization_error"):
        found[name].loc[{"prior": "last_day", "strategy": "prior"}] = 0.05
        assert (found[name].sel(prior="freq_roi").mean("user").max() > 0.05).all()
    words = " ".join(Page(render(found)).text.split())
    assert words.count("Raw counts do not reduce the lowest mean error") == 2
    assert words.count("last_day alone has a mean error of 0.050") == 2


@pytest.mark.usefixtures("no_figures")
def test_strategies_that_come_as_close_are_all_named(found):
    found["profiling_error"].loc[{"strategy": ["release", "bayes"]}] = 0.125
    words = " ".join(Page(render(found)).text.split())
    known = "frequency of places"
    tie = f"release with {known} or bayes with {known} or release with last_day or 1 more"
    assert f"{tie} has the lowest mean error" in words


@pytest.mark.slow
def test_the_same_results_give_the_same_page_and_others_are_refused(found):
    assert render(found) == render(found)
    with pytest.raises(FormatError, match="not from clusterscale-cube"):
        render(found.assign_attrs(format=schema.CUBE_FORMAT))
    with pytest.raises(FormatError, match="relative_error is missing"):
        render(found.drop_vars("relative_error"))
