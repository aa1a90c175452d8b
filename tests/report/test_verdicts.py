"""A line a mechanism on the first screen: who is exposed, what is gained, lost and promised."""

import numpy as np
import pytest
from report.page import Page

from clusterscale.reporting import render
from clusterscale.reporting.findings import find_exposures, worst_finding, worst_findings

CAPTION = "Worst case for each publication method"


def worst_loss(results, mechanism):
    """Return the largest loss as a share of a guess's, and the title of its measure, by loops."""
    found = []
    for period in range(results.sizes["period"]):
        for size in range(results.sizes["group_size"]):
            for i, name in enumerate(results.measure.values):
                ideal = float(results.ideal[i])
                at = {"period": period, "group_size": size, "measure": i}
                value = float(results.utility.sel(mechanism=mechanism).isel(at))
                guessed = abs(float(results.random_guess.isel(at)) - ideal)
                if name == "events_kept" and value < 1:
                    guessed = min(guessed, 1)
                found.append((abs(value - ideal) / guessed, str(results.measure_title.values[i])))
    return max(found)


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
    worst, title = worst_loss(results, mechanisms[1])
    share = f"{100 * worst:.0f} %" if worst <= 1 else "all"
    assert rows[1][6] == f"{share} {title}"
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


@pytest.mark.usefixtures("no_figures")
def test_the_measure_of_the_largest_loss_is_named(make_results):
    results = make_results(mechanisms=("exact", "a"), sizes=(5,))
    results["utility"][:] = results.ideal
    results["utility"].loc[{"mechanism": "a", "measure": "events_kept"}] = 0.4
    results["random_guess"].loc[{"measure": "events_kept"}] = 400.0
    rows = Page(render(results)).tables[CAPTION]
    assert rows[2][6] == "60 % events kept"
    results["utility"].loc[{"mechanism": "a", "measure": "events_kept"}] = 1 + 0.25 * 399
    assert Page(render(results)).tables[CAPTION][2][6] == "25 % events kept"
    results["utility"].loc[{"mechanism": "a", "measure": "suppressed_share"}] = 0.3
    results["random_guess"].loc[{"measure": "suppressed_share"}] = 0.002  # a guess hides nothing
    assert Page(render(results)).tables[CAPTION][2][6] == "30 % suppressed share"


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(
    ("share", "word"), [(0.0, "empty"), (0.049, "nearly empty"), (0.05, ""), (np.nan, "")]
)
def test_an_empty_release_is_marked_in_the_table(make_results, share, word):
    results = make_results(mechanisms=("exact", "a"), sizes=(5, 10))
    results["released_share"][0, 1, 1] = share
    html = render(results)
    cell = Page(html).tables[CAPTION][2][6]
    assert cell.endswith(f"release {word}") == bool(word)
    assert (f'<span class="bad">release {word}</span>' in html) == bool(word)
    assert ("Nearly empty releases." in html) == bool(word)
