"""A line a mechanism on the first screen: who is exposed, what is gained, lost and promised."""

import numpy as np
import pytest
from report.page import Page

from clusterscale.audit.findings import find_exposures, worst_finding, worst_findings
from clusterscale.report import render

CAPTION = "Worst case for each mechanism"


@pytest.mark.usefixtures("no_figures")
def test_each_mechanism_is_told_at_its_worst(make_results):
    mechanisms = ("exact", "laplace(epsilon=1.0)")
    results = make_results(mechanisms=mechanisms, sizes=(5, 100), periods=("0:168", "168:336"))
    rows = Page(render(results)).tables[CAPTION][1:]
    assert [cells[0] for cells in rows] == list(mechanisms)
    for finding, cells in zip(worst_findings(find_exposures(results)).values(), rows, strict=True):
        assert cells[1:3] == [finding.exposure, f"{finding.mean:.3f}"]
        assert cells[4] == f"{finding.n_certain} of {finding.n_done}"
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
def test_the_worst_verdict_is_the_first_that_is_read(make_results):
    results = make_results()
    page, worst = Page(render(results)), worst_finding(find_exposures(results))
    assert len(page.tables[CAPTION]) == 2
    assert f"Verdict: {worst.exposure}: {worst.reason}." in " ".join(page.text.split())


@pytest.mark.usefixtures("no_figures")
def test_without_bare_counts_or_prices_there_are_dashes(make_results):
    results = make_results(mechanisms=("a", "laplace(epsilon=1.0)"))
    results["utility"][:] = np.nan
    rows = Page(render(results)).tables[CAPTION][1:]
    assert [cells[5:7] for cells in rows] == [["–", "–"]] * 2
