"""The page over many releases: it says what the table says, whatever the table holds."""

import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from loops import mostly_slow
from report.made_trend import judged, make_trend, reason, render, said, shown
from report.page import Page

ALL = ["overview", "exposure", "utility", "verdicts", "reasons", "reading"]


def empty_numbers(table):
    """The same table, in which nothing was measured."""
    numbers = [name for name in table if table[name].dtype == float]
    return table.assign(**dict.fromkeys(numbers, np.nan), utility='{"pearson": NaN}')


@mostly_slow(
    "table",
    [
        make_trend(),
        make_trend(1),
        make_trend(2, [f"series {i}" for i in range(7)], utility="{}"),
        empty_numbers(make_trend(6)),
        make_trend(500),
    ],
    ids=["plain", "one release", "many series", "no numbers", "500 releases"],
)
def test_every_page_is_whole_offline_and_small(table):
    html = render(table)
    page = Page(html)
    assert page.stack == []
    assert page.sections == [name for name in ALL if name in page.sections]
    assert {"overview", "exposure", "verdicts", "reading"} <= set(page.sections)
    anchors = {named["id"] for _, named in page.tags if "id" in named}
    inside = {ref[1:] for ref in page.references if ref.startswith("#")}
    assert inside <= anchors
    outside = {ref for ref in page.references if not ref.startswith("#")}
    assert outside <= {f"{run}/report.html" for run in table.run}
    assert table.run.iloc[-1] + "/report.html" in outside
    heads = [int(tag[1]) for tag, _ in page.tags if tag in ("h1", "h2", "h3", "h4")]
    assert heads.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(heads))
    assert all(named.get("scope") for tag, named in page.tags if tag == "th")
    assert len(html) < 2.2e6  # of which the library that draws is 1.2
    assert "nan" not in said(page)
    assert "inf " not in said(page)


@pytest.mark.slow
def test_the_same_table_makes_the_same_page_and_stays_as_it_was():
    table = make_trend()
    before = table.copy(deep=True)
    html = render(table)
    assert render(table) == html
    pd.testing.assert_frame_equal(table, before)


@pytest.mark.usefixtures("no_figures")
def test_the_first_screen_tells_the_newest_verdict_its_reasons_and_the_counts():
    table = make_trend(8, ("cabs weekly", "tfl by hour"))
    words = said(shown(table)).split("Exposure over releases Privacy loss is")[0]
    for name, part in table.groupby("series"):
        newest = part.iloc[-1]
        counts = [int((part.verdict == verdict).sum()) for verdict in ("pass", "warn", "fail")]
        assert f"{name}: {newest.release}, {newest.period} {newest.verdict}ed" in words
        told = "Of 8 releases, {} passed, {} warned and {} failed.".format(*counts)
        assert told in words
        for each in json.loads(newest.reasons):
            assert (each["text"] in words) == (each["level"] != "pass")
        assert f"Mean privacy loss {newest.mean_privacy_loss:.2f}" in words
        assert f"worst {newest.worst_privacy_loss:.2f};" in words
        assert f"{newest.n_newly_exposed} newly exposed" in words
    assert words.index("tfl by hour: 2024-W08") < words.index("cabs weekly: 2024-W08")  # is worse


@pytest.mark.usefixtures("no_figures")
def test_a_release_that_passes_says_so():
    page = shown(judged(reason("a", "pass"), reason("some_check", "unknown", text="no idea")))
    assert "passed No check warned. Not known, or not done: no idea" in said(page)
    assert "reasons" not in page.sections


@pytest.mark.usefixtures("no_figures")
def test_many_reasons_are_cut_short_on_the_first_screen_only():
    table = judged(*(reason(f"check_{i}", "fail", i, 0.5, f"because of {i}") for i in range(8)))
    words = said(shown(table))
    assert "and 3 more: see why" in words
    assert "2024-W01 · week 1 · failed failed check 0: because of 0 measured 0, limit 0.5" in words
    assert [words.count(f"because of {i}") for i in range(8)] == [2] * 5 + [1] * 3


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((0.04, 0.01, 0.07), "more exposed than in the last releases: +0.04 (0.01 to 0.07)."),
        ((-0.04, -0.07, -0.01), "less exposed than in the last releases: -0.04 (-0.07 to -0.01)."),
        (
            (0.01, -0.02, 0.04),
            "has not changed significantly since the last releases: +0.01 (-0.02 to 0.04).",
        ),
        ((0.02, 0.001, 0.04), "more exposed than in the last releases: +0.020 (0.001 to 0.040)."),
        ((0.04, np.nan, np.nan), "changed by +0.040 since the last releases; too few people"),
        ((np.nan, np.nan, np.nan), "change of exposure since the last releases is unknown."),
    ],
)
def test_the_change_is_told_in_words(numbers, words):
    names = ("change", "change_low", "change_high")
    table = make_trend(2, **dict(zip(names, numbers, strict=True)))
    assert words in said(shown(table))


@pytest.mark.usefixtures("no_figures")
def test_the_first_of_a_series_has_nothing_to_be_compared_with():
    assert "First release of its series" in said(shown(make_trend(1)))
    alone = make_trend(3, change=np.nan, n_common=0)
    assert "nobody was also in an earlier release" in said(shown(alone))
    assert "newly exposed and" not in said(shown(alone))


@pytest.mark.usefixtures("no_figures")
def test_rules_that_changed_are_pointed_out():
    assert "Differs between releases" not in said(shown(make_trend(3)))
    table = make_trend(3, policy=["a", "a", "b"], group_size=[10, 10, 100])
    assert "Differs between releases of the series: policy, group size." in said(shown(table))


@pytest.mark.usefixtures("no_figures")
def test_beyond_six_series_a_table_tells_where_each_stands():
    table = make_trend(2, [f"series {i}" for i in range(9)], utility="{}")
    rows = shown(table).tables["Newest verdict of each series"][1:]
    assert sorted(row[0] for row in rows) == [f"series {i}" for i in range(9)]
    rank = ["failed", "warned", "passed"]
    assert [rank.index(row[2]) for row in rows] == sorted(rank.index(row[2]) for row in rows)
    assert "Newest verdict of each series" not in shown(make_trend(1, ("a", "b"))).tables


@pytest.mark.usefixtures("no_figures")
def test_all_reasons_of_what_warned_or_failed_are_told_in_full():
    table = make_trend(12, ("a", "b"))
    page = shown(table)
    words = said(page).split("Why releases warned or failed Every check")[1]
    worse = table[table.verdict != "pass"]
    assert 3 < len(worse) < len(table)
    places = []
    for row in worse[::-1].itertuples():
        label = f"{row.series} · {row.release} · {row.period} · {row.verdict}ed"
        places.append(words.index(f"{label} {row.verdict}ed"))
        for each in json.loads(row.reasons):
            assert each["text"] in words[places[-1] :]
    assert places == sorted(places)
    for row in table[table.verdict == "pass"].itertuples():
        assert f"{row.series} · {row.release} ·" not in words
