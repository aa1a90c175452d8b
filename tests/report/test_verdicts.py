"""A line a mechanism on the first screen: who is exposed, what is gained, lost and promised."""

import numpy as np
import pytest
from report.page import Page

from clusterscale.report import render
from clusterscale.report.summary import Row, Setting
from clusterscale.report.verdicts import exposure

CAPTION = "What each way to publish comes to, at its worst over all settings"


def row(mean, low):
    nothing = dict.fromkeys(("median", "mean_loss", "worst_loss", "accuracy"), 0.0)
    controls = dict.fromkeys(("control", "absent", "naive"), 0.5)
    setting = Setting("p", "k", "exact")
    return Row(
        setting, 5, "a", 9, 9, mean=mean, low=low, high=1.0, above=(0, 0, 0), **nothing, **controls
    )


@pytest.mark.parametrize(
    ("mean", "low", "word"),
    [
        (0.9, 0.76, "exposed"),
        (0.9, 0.75, "partly exposed"),
        (0.6, 0.51, "partly exposed"),
        (0.6, 0.5, "not seen to be exposed"),
        (0.9, np.nan, "exposed"),
        (0.4, np.nan, "not seen to be exposed"),
    ],
)
def test_the_word_follows_the_lower_end(mean, low, word):
    assert exposure(row(mean, low)) == word


@pytest.mark.usefixtures("no_figures")
def test_each_mechanism_is_told_at_its_worst(make_results):
    mechanisms = ("exact", "laplace(epsilon=1.0)")
    results = make_results(mechanisms=mechanisms, sizes=(5, 100), periods=("0:168", "168:336"))
    rows = Page(render(results)).tables[CAPTION][1:]
    assert [cells[0] for cells in rows] == list(mechanisms)
    for name, cells in zip(mechanisms, rows, strict=True):
        means = results.auc.sel(mechanism=name).mean("target")
        assert cells[2] == f"{float(means.max()):.3f}"
    assert rows[0][5:] == ["–", "none", "–"]
    lost = np.abs(results.utility - results.ideal) / np.abs(results.random_guess - results.ideal)
    worst = float(lost.sel(mechanism=mechanisms[1]).max())
    assert rows[1][6] == (f"{100 * worst:.0f} %" if worst <= 1 else "all")
    assert rows[1][7] == "ε 1 for an event: consistent"


@pytest.mark.usefixtures("no_figures")
def test_a_broken_promise_is_flagged(make_results):
    results = make_results(mechanisms=("exact", "laplace(epsilon=1.0)"))
    verdict = results.verdict.astype(object)
    verdict[dict(mechanism=1, group_size=2)] = "broken"
    rows = Page(render(results.assign(verdict=verdict))).tables[CAPTION]
    assert rows[2][7] == "ε 1 for an event: broken"


@pytest.mark.usefixtures("no_figures")
def test_one_mechanism_needs_no_table(make_results):
    assert CAPTION not in Page(render(make_results())).tables


@pytest.mark.usefixtures("no_figures")
def test_without_bare_counts_or_prices_there_are_dashes(make_results):
    results = make_results(mechanisms=("a", "laplace(epsilon=1.0)"))
    results["utility"][:] = np.nan
    rows = Page(render(results)).tables[CAPTION][1:]
    assert [cells[5:7] for cells in rows] == [["–", "–"]] * 2
