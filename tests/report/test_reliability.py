"""The section that says how far numbers can be trusted."""

import numpy as np
import pytest
from report.page import Page

from clusterscale.reporting import render

SURE = "Reliability of the results, by group size and attack"


def rows(page):
    return [row for row in page.tables[SURE] if len(row) > 1 and row[0] != "Attack"]


def words(page):
    return " ".join(page.text.split())


@pytest.mark.usefixtures("no_figures")
def test_the_table_holds_what_the_dataset_does(make_results):
    results = make_results(sizes=(100, 5), mechanisms=("exact", "laplace(epsilon=1.0)"))
    tables = Page(render(results)).tables[SURE]  # a mechanism after the other
    found, mechanism, size = {}, -1, 0
    for row in tables:
        if row[0] == "Attack":
            mechanism += 1
        elif len(row) == 1:
            size = int(row[0].removeprefix("Groups of "))
        else:
            found[str(results.mechanism.values[mechanism]), size, row[0]] = row
    assert len(found) == 2 * 2 * 3
    for (mechanism, size, attack), row in found.items():
        at = {"mechanism": mechanism, "group_size": size, "attack": attack}
        case = results.sel(at).squeeze()
        assert row[1] == f"{float(case.auc.mean()):.3f}"
        assert row[3] == f"{float(case.pooled_tpr):.3f}"
        assert row[4] == f"{float(case.pooled_epsilon_lower):.3g}"
        controls = [case[name].mean() for name in ("control_auc", "absent_auc", "naive_auc")]
        assert row[5:] == [f"{float(mean):.3f}" for mean in controls]


@pytest.mark.usefixtures("no_figures")
def test_sound_controls_make_no_noise(make_results):
    page = Page(render(make_results()))
    section = words(page).split("Reliability The interval")[1].split("Distribution")[0]
    for warning in ("not at chance", "No better than the sum", "off"):
        assert warning not in section
    assert "Controls at chance." in words(page)
    assert "with another user in the target’s place" in words(page)


@pytest.mark.usefixtures("no_figures")
def test_what_so_few_challenges_cannot_show_is_said(make_results):
    page = Page(render(make_results()))
    assert (
        "50 challenges without a target cannot show a false positive rate below 2 %; all"
        in words(page)
    )
    assert "compared by p-values, none below 4 %" in words(page)
    results = make_results()
    results["n_challenges"][:4] = 800
    results["resolvable_fpr"][:] = np.nan
    page = Page(render(results))
    text = "50 to 400 challenges without a target cannot show a false positive rate below 2 %."
    assert text in words(page)


@pytest.mark.usefixtures("no_figures")
def test_the_rate_is_the_plan_s(make_results):
    page = Page(render(make_results(plan='{"false_positive_rate": 0.05}')))
    assert page.tables[SURE][0][3] == "TPR at 5 % FPR"
    assert Page(render(make_results())).tables[SURE][0][3] == "TPR at 10 % FPR"


@pytest.mark.parametrize(
    ("name", "column", "warning"),
    [
        ("control_auc", 5, "Shuffled labels are not at chance."),
        ("absent_auc", 6, "Without the target, attacks are not at chance."),
    ],
)
def test_a_control_off_chance_is_marked_where_it_stands_and_on_top(
    make_results, name, column, warning
):
    results = make_results()
    results[name].loc[{"attack": "nearest", "group_size": 50}] += 0.1
    page = Page(render(results))
    mean = float(results[name].sel(attack="nearest", group_size=50).mean())
    marked = [row for row in rows(page) if "off" in row[column]]
    assert [row[column] for row in marked] == [f"{mean:.3f}off"]
    assert warning in words(page)
    assert f"groups of 50, nearest: {mean:.3f}" in words(page)
    assert "A control is off chance: do not rely on these figures yet." in words(page)
    assert "1 of 18 controls differ from 0.5" in words(page)
    assert "Controls at chance" not in words(page)


@pytest.mark.usefixtures("no_figures")
def test_an_attack_that_adding_up_beats_is_told_from_the_others(make_results):
    results = make_results()
    at = {"attack": "nearest", "group_size": 50}
    results["naive_auc"].loc[at] = results["auc"].loc[at] + 0.01
    page = Page(render(results))
    marked = [row for row in rows(page) if "not beaten" in row[7]]
    assert [row[0] for row in marked] == ["nearest"]
    assert "No better than the sum." in words(page)
    assert "Controls at chance." in words(page), "a weak attack is no fault of the method"


@pytest.mark.usefixtures("no_figures")
def test_without_controls_there_are_dashes_and_no_claim(make_results):
    results = make_results()
    for name in ("control_auc", "absent_auc", "naive_auc"):
        results[name][:] = np.nan
    page = Page(render(results))
    assert {tuple(row[5:]) for row in rows(page)} == {("–", "–", "–")}
    assert "not at chance" not in words(page)


@pytest.mark.usefixtures("no_figures")
def test_results_without_a_bound_have_a_dash_for_it(make_results):
    results = make_results()
    results["pooled_epsilon_lower"][:] = np.nan
    page = Page(render(results))
    assert {row[4] for row in rows(page)} == {"–"}
    assert "trained on the challenge groups themselves" in words(page)
