"""What the page says about defences: their gains, their costs, their guarantees."""

from functools import partial
from io import StringIO

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from report.page import Page
from rich.console import Console

from clusterscale.cli.results import show_results
from clusterscale.metrics import privacy_gain
from clusterscale.reporting import render
from clusterscale.reporting.audit.cases import cases, emptiness, read_defences
from clusterscale.reporting.audit.gains import best_defence
from clusterscale.reporting.notebook import shorten
from clusterscale.reporting.section import number
from clusterscale.utility import NEARLY_EMPTY

NEW = ["gains", "utility", "tradeoff", "guarantees"]
PRIORS = ("known_subset(noise='passive')", "known_subset(noise='strategic')")
MECHANISMS = ("exact", "laplace(epsilon=0.1)", "suppress_small(below=5)")
UTILITY = "Utility of published values, mean (standard deviation) over groups"
WORSE = " worse than a random guess"
PROMISES = "Guarantees of differential privacy"
HOSTILE = '<script>alert(1)</script>$$x$$<img src=x onerror="alert(1)">'


def defences(results):
    return read_defences(results, cases(results))


@pytest.fixture
def make(make_results):
    """Build the results of an audit of defences, small unless told otherwise."""
    return partial(make_results, mechanisms=MECHANISMS, sizes=(5,), attacks=("logistic", "b"))


def new_sections(page):
    return [name for name in page.sections if name in NEW]


def gains_table(page, size):
    (rows,) = (
        rows
        for caption, rows in page.tables.items()
        if caption.startswith(f"Groups of {size}: privacy gain")
    )
    return rows


def set_gains(results, gain, **at):
    """Give the mechanisms of ``at`` a gain; raw counts have an AUC of .9 by every attack."""
    results["auc"].loc[{"mechanism": "exact"}] = 0.9
    results["auc"].loc[at] = 0.9 - 0.4 * gain


def filled(results, **values):
    """Return the results with some variables set to one value."""
    return results.assign({name: xr.full_like(results[name], v) for name, v in values.items()})


@pytest.mark.usefixtures("no_figures")
def test_bare_counts_alone_have_none_of_these_sections(make):
    assert new_sections(Page(render(make(mechanisms=("exact",))))) == []


@pytest.mark.usefixtures("no_figures")
def test_a_defence_beside_bare_counts_has_all(make):
    page = Page(render(make()))
    assert new_sections(page) == NEW
    assert "(nearly) empty release" not in page.text


@pytest.mark.usefixtures("no_figures")
def test_without_bare_counts_there_is_no_gain_to_show(make):
    page = Page(render(make(mechanisms=MECHANISMS[1:])))
    assert new_sections(page) == ["utility", "guarantees"]
    assert "Defences." not in page.text


@pytest.mark.usefixtures("no_figures")
def test_a_section_without_a_number_is_not_there(make):
    results = make()
    unknown = filled(results, utility=np.nan, utility_sd=np.nan, random_guess=np.nan)
    assert new_sections(Page(render(unknown))) == ["gains", "guarantees"]
    results["auc"].loc[{"mechanism": list(MECHANISMS[1:])}] = np.nan
    assert new_sections(Page(render(results))) == ["utility", "guarantees"]


@pytest.mark.usefixtures("no_figures")
def test_promises_that_were_not_looked_up_are_not_shown(make):
    results = make()
    results["guarantee_unit"] = results["guarantee_unit"].where(False, "")
    assert "guarantees" not in new_sections(Page(render(results)))


@pytest.mark.usefixtures("no_figures")
def test_utility_may_not_have_been_measured_at_all(make):
    results = make().isel(measure=[])
    assert new_sections(Page(render(results))) == ["gains", "guarantees"]


@pytest.mark.usefixtures("no_figures")
def test_gains_are_the_smallest_over_attacks(make):
    results = make(sizes=(5, 100))
    page = Page(render(results))
    for size in (5, 100):
        at = results.isel(period=0, prior=0).sel(group_size=size)
        attack = at.auc.sel(mechanism="exact").mean("target").idxmax("attack").item()
        raw = at.auc.sel(mechanism="exact", attack=attack).values
        rows = gains_table(page, size)
        assert [row[0] for row in rows] == ["Mechanism", *MECHANISMS]
        for name, _, median, mean, left in rows[1:]:
            gains = [
                privacy_gain(raw, at.auc.sel(mechanism=name, attack=other).values)
                for other in at.attack.values
            ]
            gain = min(gains, key=np.mean)
            assert median == f"{np.median(gain):.3f}"
            assert mean == f"{gain.mean():.3f}"
            assert left == f"{at.auc.sel(mechanism=name).mean('target').max().item():.3f}"
        ending = f"relative to {attack} on raw counts"
        assert any(caption.endswith(ending) for caption in page.tables)


@pytest.mark.usefixtures("no_figures")
def test_passive_and_strategic_stand_beside_each_other(make):
    results = make(priors=PRIORS)
    page = Page(render(results))
    rows = gains_table(page, 5)
    assert [row[-5] for row in rows[1:]] == ["A", "B"] * 3
    for letter, prior in zip("AB", PRIORS, strict=True):
        assert f"{letter}: {prior}" in page.text
    found = defences(results)
    (place,) = found.cases()
    for row, (mechanism, prior) in zip(rows[1:], np.ndindex(3, 2), strict=True):
        assert row[-2] == f"{found.gains(place, prior, mechanism).mean():.3f}"


@pytest.mark.usefixtures("no_figures")
def test_each_prior_has_its_own_strongest_attack(make):
    results = make(priors=PRIORS, attacks=("a", "b"))
    results["auc"].loc[{"prior": PRIORS[0], "attack": "a"}] = 1.0
    results["auc"].loc[{"prior": PRIORS[1], "attack": "b"}] = 1.0
    page = Page(render(results))
    caption = "Groups of 5: privacy gain of targets, relative to a (A), b (B) on raw counts"
    assert caption in page.tables


@pytest.mark.usefixtures("no_figures")
def test_the_attack_that_a_defence_stops_least_counts(make):
    """Also if another was stronger on raw counts, whose advantage is what can be removed."""
    results = make(attacks=("a", "b"))
    for raw in (0.9, 0.7):
        set_gains(results, 0.75, attack="a")
        set_gains(results, 0.25, attack="b")
        results["auc"].loc[{"mechanism": "exact"}] = [[[0.9, raw]]]
        page = Page(render(results))
        strongest = "a or b" if raw == 0.9 else "a"
        caption = f"Groups of 5: privacy gain of targets, relative to {strongest} on raw counts"
        assert caption in page.tables
        assert [row[2] for row in gains_table(page, 5)[2:]] == ["0.250", "0.250"]


@pytest.mark.usefixtures("empty_figures")
def test_page_terminal_notebook_chart_and_sentence_have_one_gain(make, monkeypatch):
    """The attack that is stronger on raw counts is stopped, the other is not."""
    results = make(mechanisms=MECHANISMS[:2], attacks=("a", "b"))
    results["auc"].loc[{"attack": "a"}] = [[[0.95, 0.6]]]
    results["auc"].loc[{"attack": "b"}] = [[[0.8, 0.7]]]
    gain = privacy_gain(0.95, 0.7)  # .56; of a alone .78, of b alone .33
    html = render(results)
    page, words = Page(html), " ".join(Page(html).text.split())
    assert gains_table(page, 5)[2][3] == f"{gain:.3f}"
    assert f"the highest mean privacy gain, {gain:.2f} " in words
    verdicts = page.tables["Worst case for each publication method"]
    assert verdicts[2][verdicts[0].index("Gain")] == f"{gain:.2f}"
    labels = [named["aria-label"] for _, named in page.tags if "data-figure" in named]
    assert any(f"{MECHANISMS[1]}: gain {gain:.2f}" in label for label in labels)
    assert f"{MECHANISMS[1]}: {gain:.2f}" in shorten(results).facts["privacy gain"]
    for full in (False, True):
        console = Console(width=80, file=StringIO())
        monkeypatch.setattr("clusterscale.cli.results.out", console)
        show_results(results, full=full)
        assert f" {gain:.3f} " in console.file.getvalue()


@pytest.mark.usefixtures("no_figures")
def test_unfinished_gains_are_left_out(make):
    failed = np.zeros((12, 1, 1, 1, 3, 1), dtype=bool)
    failed[:, :, :, :, 1] = True
    failed[:6, :, :, :, 2] = True
    results = make(attacks=("a",), failed=failed)
    rows = gains_table(Page(render(results)), 5)
    assert rows[2][-3:] == ["–", "–", "–"]
    kept = results.privacy_gain.isel(mechanism=2, target=slice(6, None))  # of the only attack
    assert rows[3][-2] == f"{kept.mean().item():.3f}"


@pytest.mark.usefixtures("no_figures")
def test_utility_is_as_given_with_the_guess_last(make):
    results = make()
    head, group, *rows = Page(render(results)).tables[UTILITY]
    assert group == ["Groups of 5"]
    assert head[1] == "mean relative error(floor=0.1) best 0"
    assert head[3] == "hotspot f1 best 1"
    assert [row[0] for row in rows] == [*MECHANISMS, "random guess"]
    for row in rows[:-1]:
        at = results.sel(mechanism=row[0]).isel(period=0, group_size=0)
        guess = results.random_guess.values[0, 0]
        pairs = zip(at.utility.values, at.utility_sd.values, strict=True)
        assert [cell.removesuffix(WORSE) for cell in row[1:]] == [
            f"{value:.3f} ({sd:.3f})" for value, sd in pairs
        ]
        worse = np.abs(at.utility - at.ideal) > np.abs(guess - at.ideal)
        worse &= at.measure != "suppressed_share"  # a guess hides nothing
        assert [cell.endswith(WORSE) for cell in row[1:]] == worse.values.tolist()
    assert any(WORSE in cell for cell in rows[2]), rows
    assert rows[-1][1:] == [f"{value:.3f}" for value in results.random_guess.values[0, 0]]


@pytest.mark.usefixtures("no_figures")
def test_unknown_utility_is_a_dash_and_large_errors_stay_short(make):
    results = make()
    results["utility"][0, 0, 1, :3] = [np.nan, 1234567.0, 12345.6]
    results["utility_sd"][0, 0, 1] = np.nan
    row = Page(render(results)).tables[UTILITY][3]
    assert [cell.removesuffix(WORSE) for cell in row[1:4]] == ["–", "1.23e+06", "12,346"]


@pytest.mark.usefixtures("empty_figures")
def test_every_measure_has_a_panel_with_every_mechanism(make):
    results = make(priors=PRIORS, sizes=(5, 100))
    page = Page(render(results))
    panels = [name for name in page.figures if name.startswith("tradeoff-")]
    assert len(panels) == 2 * 2 * results.sizes["measure"]
    labels = [named["aria-label"] for _, named in page.tags if "data-figure" in named]
    labels = [label for label in labels if label.startswith("Mean privacy gain and utility loss")]
    gain = defences(results)
    place = next(iter(gain.cases()))
    for name, index in zip(MECHANISMS, range(3), strict=True):
        assert f"{name}: gain {gain.gains(place, 0, index).mean():.2f}" in labels[0]
    assert "A random guess has loss 28" in labels[0]
    for prior in PRIORS:
        assert f"{prior} · Groups of 100" in page.text


@pytest.mark.usefixtures("empty_figures")
def test_a_mark_without_both_numbers_is_left_out(make):
    results = make()
    results["utility"][..., 1, 0] = np.nan
    results["utility"][..., 1] = np.nan  # a whole measure
    page = Page(render(results))
    panels = [name for name in page.figures if name.startswith("tradeoff-")]
    assert len(panels) == results.sizes["measure"] - 1


@pytest.mark.usefixtures("no_figures")
def test_promises_in_words(make):
    page = Page(render(make()))
    _, laplace, exact, suppress = page.tables[PROMISES]
    nothing = ["no guarantee", "none", "–", "no guarantee", "–", "–", "none", "none"]
    assert exact[1:9] == nothing
    assert exact[9:] == ["none", "counts are published as they are"]
    assert suppress[1] == "no guarantee"
    assert laplace[1:5] == ["one event", "0.1", "0", "consistentε at least 0.075"]
    assert laplace[5:7] == ["one more or less", "1 used, 1 needed"]
    assert laplace[7:10] == ["16.8", "4 δ 1e-05", "> 0.999"]
    assert "Guarantees that do not hold" not in page.text
    assert "broken" not in page.text


@pytest.mark.usefixtures("no_figures")
def test_a_ceiling_is_written_in_full(make):
    results = filled(make(), auc_ceiling=0.7311)
    assert Page(render(results)).tables[PROMISES][1][9] == "0.732"


@pytest.mark.usefixtures("no_figures")
def test_a_sensitivity_below_what_this_cube_needs_is_flagged(make):
    results = make()
    results["sensitivity_needed"][:, 1] = 2.0
    page = Page(render(results))
    assert page.tables[PROMISES][1][6] == "1 used, 2 neededdoes not hold here"
    assert "Guarantees that do not hold in this cube." in page.text
    assert "does not hold here" not in "".join(page.tables[PROMISES][3])
    results["sensitivity_needed"][:, 1] = 1.0 + 1e-12  # rounding
    assert "does not hold here" not in Page(render(results)).text


@pytest.mark.usefixtures("no_figures")
def test_without_limit_and_unknown_are_told_apart(make):
    results = make()
    results["sensitivity_needed"][:, 1] = np.inf
    results["user_epsilon"][:, 1] = np.inf
    results["composed_epsilon"][:, 1] = np.nan
    row = Page(render(results)).tables[PROMISES][1]
    assert row[6].startswith("1 used, no limit needed")
    assert row[7:9] == ["none", "–"]


@pytest.mark.usefixtures("no_figures")
def test_a_promise_that_is_missing_is_a_row_of_dashes(make):
    results = make(periods=("0:168", "168:336"))
    results["guarantee_unit"] = results["guarantee_unit"].where(results.period != "0:168", "")
    _, group, *rows = Page(render(results)).tables[PROMISES]
    assert group == ["0:168"]
    assert rows[1] == [MECHANISMS[1], *["–"] * 10]
    assert rows[3] == ["168:336"]


@pytest.mark.usefixtures("no_figures")
def test_the_first_screen_names_the_best_defence_and_its_price(make):
    results = make(priors=PRIORS, sizes=(5, 100))
    best = best_defence(defences(results))
    words = " ".join(Page(render(results)).text.split())
    assert (
        f"In groups of 5, where raw counts expose most, {best.mechanism} has the highest" in words
    )
    assert f"highest mean privacy gain, {best.gain:.2f} (1 = no better than guessing" in words
    assert "guessing; smallest over attacks and 2 priors)" in words
    value = f"{best.value:.3g}" if best.measure.relative else f"{best.value:.2f}"
    price = f"Its largest utility loss is in {best.measure.title}: {value} (best "
    assert price in words


def test_the_best_defence_is_best_against_the_best_informed(make):
    results = make(priors=PRIORS, attacks=("a",))
    # one wins by far against the passive adversary, the other against both
    set_gains(results, 0.5, mechanism=MECHANISMS[1])
    set_gains(results, 1.0, mechanism=MECHANISMS[2], prior=PRIORS[0])
    set_gains(results, 0.3, mechanism=MECHANISMS[2], prior=PRIORS[1])
    best = best_defence(defences(results))
    assert (best.mechanism, best.gain) == (MECHANISMS[1], pytest.approx(0.5))


@pytest.mark.usefixtures("no_figures")
def test_of_equal_defences_the_cheaper_is_named(make):
    results = make()
    set_gains(results, 0.9, mechanism=MECHANISMS[1])
    set_gains(results, 0.901, mechanism=MECHANISMS[2])
    assert best_defence(defences(results)).mechanism == MECHANISMS[1]
    results["utility"][..., 1, :] = np.nan  # a price that is not known is no low price
    best = best_defence(defences(results))
    assert (best.mechanism, best.equals, best.same_loss) == (MECHANISMS[2], MECHANISMS[1:2], False)
    words = " ".join(Page(render(results)).text.split())
    assert f"{MECHANISMS[1]} has the same gain and a larger utility loss" in words
    results["utility"][..., 2, :] = results["utility"][..., 1, :] = results["utility"][..., 0, :]
    words = " ".join(Page(render(results)).text.split())
    assert f"{MECHANISMS[2]} has the same gain and the same utility loss" in words


@pytest.mark.parametrize("share", [0.0, 0.049, np.nan])
def test_a_release_of_next_to_nothing_is_never_the_best_defence(make, share):
    results = make()
    set_gains(results, 1.0, mechanism=MECHANISMS[1])
    set_gains(results, 0.1, mechanism=MECHANISMS[2])
    results["released_share"][:] = 0.05
    assert best_defence(defences(results)).mechanism == MECHANISMS[1]
    results["released_share"][..., 1] = share  # what is not known is not good
    assert best_defence(defences(results)).mechanism == MECHANISMS[2]
    results["released_share"][..., 2] = share
    assert best_defence(defences(results)) is None


def test_of_a_release_what_counts_is_the_place_that_is_compared(make):
    results = make(sizes=(5, 100))
    set_gains(results, 1.0, mechanism=MECHANISMS[1])
    results["auc"].loc[{"mechanism": "exact", "group_size": 5}] = 1.0
    results["released_share"][:] = 1.0
    results["released_share"].loc[{"mechanism": MECHANISMS[1], "group_size": 100}] = 0.0
    assert best_defence(defences(results)).mechanism == MECHANISMS[1]
    results["released_share"].loc[{"mechanism": MECHANISMS[1], "group_size": 5}] = 0.0
    assert best_defence(defences(results)).mechanism == MECHANISMS[2]


@given(share=st.floats(-1, 2) | st.just(np.nan))
def test_emptiness_in_words(share):
    word = emptiness(share)
    assert (word != "") == (share < NEARLY_EMPTY)
    assert (word == "empty") == (share == 0)


@pytest.mark.slow
def test_an_empty_release_is_marked_in_tables_and_figures(make):
    results = make(priors=PRIORS)
    results["released_share"][..., 2] = 0.01
    html = render(results)
    page = Page(html)
    marked = f"{MECHANISMS[2]} nearly empty"
    assert [row[0] for row in page.tables[UTILITY][2:]] == [*MECHANISMS[:2], marked, "random guess"]
    assert gains_table(page, 5)[5][0] == marked
    assert "crossed-out" in page.text
    assert "less than 5 % of counts or events: (nearly) empty release" in page.text
    labels = [named["aria-label"] for _, named in page.tags if "data-figure" in named]
    labels = [label for label in labels if label.startswith("Mean privacy gain and utility loss")]
    assert labels
    assert all(label.count("(nearly empty release)") == 1 for label in labels)
    assert f"{MECHANISMS[2]} (nearly empty release)" in html
    assert "Nearly empty releases." in page.text


@pytest.mark.usefixtures("no_figures")
def test_an_empty_release_is_not_the_least_exposed(make):
    results = make()
    results["auc"][..., 1, :] = 0.6
    results["auc"][..., 2, :] = 0.5
    for share, name in ((1.0, MECHANISMS[2]), (0.0, MECHANISMS[1])):
        results["released_share"][..., 2] = share
        words = " ".join(Page(render(results)).text.split())
        assert f"Least exposed: groups of 5 · {name} " in words


@pytest.mark.usefixtures("no_figures")
def test_a_defence_without_a_price_is_named_without_one(make):
    results = make()
    results["utility"][:] = np.nan
    words = " ".join(Page(render(results)).text.split())
    assert "the highest mean privacy gain, " in words
    assert "Its largest utility loss is" not in words


def test_the_price_is_told_where_it_is_closest_to_a_guess(make):
    """Publishing nothing has a small relative error, but names no busy place."""
    results = make()
    set_gains(results, 1.0, mechanism=MECHANISMS[1])
    results["utility"][..., 1, :] = results["ideal"]
    results["utility"][..., 1, 2] = 0.02
    best = best_defence(defences(results))
    assert (best.mechanism, best.measure.name, best.value) == (MECHANISMS[1], "hotspot_f1", 0.02)


@pytest.mark.slow
def test_hostile_names_stay_text(make):
    results = make(mechanisms=("exact", HOSTILE), priors=(HOSTILE, "b"))
    results = results.assign_coords(measure_title=("measure", [HOSTILE] * results.sizes["measure"]))
    results["guarantee_reason"] = xr.full_like(results["guarantee_reason"], HOSTILE, dtype=object)
    results["guarantee_unit"] = xr.full_like(results["guarantee_unit"], HOSTILE, dtype=object)
    results["guarantee_neighbours"] = results["guarantee_unit"]
    results["guarantee_epsilon"][:] = 1.0
    results["verdict"] = xr.full_like(results["verdict"], HOSTILE, dtype=object)
    html = render(results)
    page = Page(html)
    assert "<script>alert" not in html
    assert {tag for tag, _ in page.tags}.isdisjoint({"img", "iframe", "object"})
    assert not [name for _, named in page.tags for name in named if name.startswith("on")]
    assert gains_table(page, 5)[3][0] == HOSTILE
    assert page.tables[UTILITY][3][0] == HOSTILE
    hostile = [cell for cell in page.tables[PROMISES][2] if cell.startswith(HOSTILE)]
    assert len(hostile) == 5


@pytest.mark.slow
def test_the_same_results_make_the_same_page_and_every_anchor_exists(make):
    case = {"priors": PRIORS, "mechanisms": MECHANISMS[:2]}
    html = render(make(**case))
    assert html == render(make(**case))
    page = Page(html)
    assert page.stack == []
    anchors = [named["id"] for _, named in page.tags if "id" in named]
    assert len(anchors) == len(set(anchors))
    assert {ref[1:] for ref in page.references} <= set(anchors)


@pytest.mark.usefixtures("no_figures")
def test_what_was_not_measured_of_defences_is_told(make_results):
    results = make_results(evaluation_errors='["MemoryError: <no room>"]')
    page = render(results)
    assert "Measurements that failed" in page
    assert "MemoryError: &lt;no room&gt;" in page
    assert "Measurements that failed" not in render(make_results(evaluation_errors="[]"))


def test_nothing_has_no_sign():
    assert number(-0.0004) == "0.000"
    assert number(-0.0006) == "-0.001"
