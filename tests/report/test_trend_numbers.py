"""Every number of the page over many releases: in its table and in its figures."""

import json
from itertools import pairwise

import numpy as np
import pytest
from loops import for_each
from oracles.verdicts import verdict
from report.made_trend import judged, make_trend, reason, said, shown

from clusterscale.reporting.figures import Course, draw_time_series

VERDICTS = "All verdicts"
SHAPES = {"passed": "circle", "warned": "triangle", "failed": "square"}


def column(page, name):
    """A column of the table of all verdicts, as the script reads it."""
    held = next(each for each in page.long[VERDICTS]["columns"] if each["name"] == name)
    if held["digits"] is None:
        words = held.get("words")
        return [words[value] for value in held["values"]] if words else held["values"]
    return [None if v is None else v / 10 ** held["digits"] for v in held["values"]]


def sources(figure):
    """The columns of each set of data in a figure."""
    found = []

    def walk(node):
        if isinstance(node, dict):
            if node.get("name") == "ColumnDataSource":
                entries = node["attributes"]["data"]["entries"]
                found.append({name: values for name, values in entries})
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(figure)
    return found


@pytest.mark.usefixtures("no_figures")
def test_the_table_holds_every_verdict_newest_first():
    table = make_trend(30, ("a", "b"))
    page = shown(table)
    back = table[::-1]
    assert column(page, "Release") == back.release.tolist()
    assert column(page, "Series") == back.series.tolist()
    assert column(page, "Verdict") == [f"{each}ed" for each in back.verdict]
    for name, field in (
        ("Mean loss", "mean_privacy_loss"),
        ("Worst loss", "worst_privacy_loss"),
        ("AUC of published values", "published_auc"),
        ("Newly exposed", "n_newly_exposed"),
        ("People", "n_targets"),
    ):
        assert column(page, name) == pytest.approx(back[field].tolist(), abs=6e-4), name
    assert column(page, "% above 0.5") == pytest.approx(100 * back.share_above.values, abs=0.06)
    assert set(column(page, "Declared ε")) == {1.0, None}  # nothing is declared for the second
    known = [each for each in column(page, "Change") if each is not None]
    assert known == pytest.approx(back.change.dropna().tolist(), abs=6e-4)
    low, high = column(page, "Interval of mean")[0].split("\xa0to\xa0")
    assert float(low) == pytest.approx(back.mean_privacy_loss_low.iloc[0], abs=6e-4)
    assert float(high) == pytest.approx(back.mean_privacy_loss_high.iloc[0], abs=6e-4)
    assert len(page.tables[VERDICTS]) == 1 + 20
    assert page.tables[VERDICTS][1][0] == back.release.iloc[0]


@pytest.mark.usefixtures("no_figures")
def test_one_series_needs_no_name_in_every_row():
    names = [each["name"] for each in shown(make_trend(3)).long[VERDICTS]["columns"]]
    assert "Series" not in names


@pytest.mark.usefixtures("no_figures")
def test_the_level_stands_in_a_column_where_it_is_not_the_same():
    page = shown(make_trend(2, loss_above=[0.5, 0.25]))
    assert column(page, "Level") == [0.25, 0.5]
    assert "above the level of its release" in said(page)


@pytest.mark.usefixtures("no_figures")
def test_reasons_stand_in_a_line_of_the_table():
    told = [
        reason("utility", "warn", 1234.5, 1000.0),
        reason("odd", "fail", None, 2.0),
        reason("p", "pass", 0.0, 1.0),
    ]
    assert column(shown(judged(*told)), "Reasons") == ["odd; utility 1,234, limit 1,000"]


def test_a_figure_marks_each_release_by_its_verdict():
    table = make_trend(9)
    drawn = sources(shown(table).figures["exposure-1"])
    line = next(each for each in drawn if "y2" in each and "mark" not in each)
    marked = [each for each in drawn if "mark" in each]
    names = dict(
        pair for each in marked for pair in zip(each["place"], each["release"], strict=True)
    )
    assert [names[place] for place in line["place"]] == table.release.tolist()
    for name, field in (
        ("y0", "mean_privacy_loss"),
        ("y1", "worst_privacy_loss"),
        ("y2", "share_above"),
    ):
        assert line[name] == pytest.approx(table[field].tolist(), abs=1e-4)
    marked = {each["verdict"][0]: each["place"] for each in marked}
    for word in ("pass", "warn", "fail"):
        places = (np.flatnonzero(table.verdict == word) + 1).tolist()
        assert marked.get(f"{word}ed", []) == places
    bars = next(each for each in drawn if {"x0", "y0", "x1", "y1"} == set(each))
    assert bars["y0"] == pytest.approx(table.mean_privacy_loss_low.tolist(), abs=1e-4)
    assert bars["y1"] == pytest.approx(table.mean_privacy_loss_high.tolist(), abs=1e-4)


def test_verdicts_are_told_apart_without_colour():
    releases = [verdict(verdict=word) for word in ("pass", "warn", "fail", "fail")]
    course = Course("x", [0.1, 0.2, np.nan, 0.4])
    box = draw_time_series([course], releases, axis="x", span=(0, 1))
    marks = [each for each in box.renderers if "mark" in each.data_source.data]
    assert {each.data_source.data["verdict"][0]: each.glyph.marker for each in marks} == SHAPES
    assert marks[-1].data_source.data["mark"] == [0, 0.4]  # what has no number, at the bottom
    bare = draw_time_series([course], releases, axis="x")
    marks = [each for each in bare.renderers if "mark" in each.data_source.data]
    assert marks[-1].data_source.data["mark"] == [0.4]


@for_each("n", [1, 2, 12, 13, 60, 61, 500, 12_345])
def test_ticks_are_few_whole_and_round(n):
    box = draw_time_series([Course("x", [0.0] * n)], [verdict()] * n, axis="")
    ticks = box.xaxis[0].ticker.ticks
    assert 1 <= len(ticks) <= 12
    assert all(tick == int(tick) and 1 <= tick <= n for tick in ticks)
    assert len({b - a for a, b in pairwise([0, *ticks])}) == 1


def test_utility_has_a_figure_for_every_measure_that_was_ever_known():
    texts = ['{"pearson": 0.9}', '{"pearson": 0.8, "f1": null}', '{"odd": 3.0, "pearson": NaN}']
    page = shown(make_trend(3, utility=texts))
    slugs = [name for name in page.figures if name.startswith("utility")]
    assert len(slugs) == 2
    line = sources(page.figures[slugs[0]])[0]
    assert line["y0"][:2] == [0.9, 0.8]
    assert "utility" not in shown(make_trend(3, utility="{}")).sections


@pytest.mark.usefixtures("no_figures")
def test_nearly_empty_releases_are_named():
    texts = [json.dumps({"events_kept": kept}) for kept in (1.0, 0.04, float("nan"), 0.05)]
    page = shown(make_trend(4, utility=texts))
    words = " ".join(page.text.split())
    assert "These keep less than 5 % of the events: 2024-W02." in words
    page = shown(make_trend(4, utility='{"pearson": 0.5}'))
    assert "Nearly empty releases" not in page.text
