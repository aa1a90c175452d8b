"""The page over papers: it says what the studies say, whatever that is."""

from dataclasses import replace
from math import nan

import pytest
from report.page import Page

from clusterscale.reporting import write_page
from clusterscale.reporting.papers import (
    AGREES,
    BREAKS,
    EXPLAINED,
    HOLDS,
    NOT_COMPARED,
    NOT_REPRODUCED,
    ClaimRow,
    ComparedNumber,
    Missing,
    StudyReport,
    render_reproduced,
)

NUMBER = ComparedNumber(
    item="Figure 4",
    source="section VI",
    setting="auc · exact · logistic · 10",
    paper=0.9,
    step=0.01,
    ours=0.9123,
    low=0.9,
    high=0.925,
    room=0.02,
    verdict=AGREES,
    why="",
)
FAR = replace(NUMBER, paper=0.7, verdict=NOT_REPRODUCED, why="other cabs <1>")
PROVED = replace(FAR, verdict=EXPLAINED, as_in_paper=0.7044)
PRESET = replace(NUMBER, item="Table 1", paper=4285.809, step=0.001, verdict=NOT_COMPARED)
KEPT = ClaimRow("larger groups are harder", "section VI", 0.3, 0.02, "0.9, 0.6", HOLDS)
BROKEN = ClaimRow(
    "noise helps", "section VII", -0.05, 0.0, "0.5, above 0.55", BREAKS, "other noise"
)
TOLD = StudyReport(
    paper="NDSS18",
    paper_title="Knock Knock",
    name="ndss18/known-subset",
    title="Known subset",
    data="534 cabs",
    core_seconds=1234.0,
    compared=[NUMBER, FAR],
    claims=[KEPT, BROKEN],
    missing=[Missing("Figure 2", "drawn only")],
    remarks=["JS is a distance & no divergence"],
)
OTHER = replace(
    TOLD, paper="PETS17", name="pets17/preset", compared=[PRESET], claims=[], missing=[]
)
BARE = replace(
    TOLD, name="ndss18/none", compared=[], claims=[], missing=[], remarks=[], core_seconds=nan
)


@pytest.mark.parametrize(
    "told", [[TOLD], [TOLD, OTHER], [BARE], [], [BARE, TOLD, OTHER]], ids=[*"abcde"]
)
def test_every_page_is_whole_and_offline(told):
    page = Page(render_reproduced(told))
    assert page.stack == []
    assert page.sections[0] == "overview"
    assert page.sections[-1] == "reading"
    assert len(set(page.sections)) == len(page.sections)
    anchors = {named["id"] for _, named in page.tags if "id" in named}
    assert {each[1:] for each in page.references if each.startswith("#")} <= anchors
    assert not [each for each in page.references if not each.startswith("#")]
    assert render_reproduced(told) == render_reproduced(told)


def test_papers_are_counted():
    page = Page(render_reproduced([TOLD, BARE, OTHER]))
    _, ndss, pets = page.tables["By paper"]
    assert ndss == ["NDSS18", "2", "2", "1", "50 %", "0", "1", "0", "2", "1", "0", "1", "1,234"]
    assert pets == ["PETS17", "1", "0", "0", "–", "0", "0", "1", "0", "0", "0", "0", "1,234"]
    assert "Of 2 published numbers that can be compared, 1 agrees" in " ".join(page.text.split())
    assert "more agree if" not in page.text
    assert "Of 2 claims in words, 1 holds, 1 breaks and 0 are open." in " ".join(page.text.split())


def test_what_is_explained_is_counted_by_itself():
    page = Page(render_reproduced([replace(TOLD, compared=[NUMBER, FAR, PROVED, PROVED])]))
    _, ndss = page.tables["By paper"]
    assert ndss[2:6] == ["4", "1", "25 %", "2"]
    assert "1 agrees with ours (25 %), and 2 more agree if" in " ".join(page.text.split())
    assert "(together 75 %)" in page.text
    rows = page.tables["Numbers that differ"]
    assert [row[3:5] for row in rows if len(row) > 1][1:3] == [
        ["–", "not reproduced"],
        ["0.704", "explained"],
    ]


def test_numbers_stand_beside_ours_by_item():
    page = Page(render_reproduced([TOLD, OTHER]))
    rows = page.tables["Published numbers and ours"]
    assert ["auc · exact · logistic · 10", "0.90", "0.912", "0.900 to 0.925", "agrees"] in rows
    assert [
        "auc · exact · logistic · 10",
        "0.70",
        "0.912",
        "0.900 to 0.925",
        "not reproduced",
    ] in rows
    assert ["auc · exact · logistic · 10", "4,285.809", "0.9123", "0.9000 to 0.9250"] in [
        row[:4] for row in rows
    ]


def test_what_differs_stands_together_with_its_reason():
    page = Page(render_reproduced([TOLD, replace(TOLD, compared=[replace(FAR, why="")])]))
    rows = page.tables["Numbers that differ"][1:]
    assert rows[0] == ["NDSS18, Figure 4: other cabs <1>"]
    assert rows[1] == ["auc · exact · logistic · 10", "0.70", "0.912", "–", "not reproduced"]
    assert rows[2] == ["NDSS18, Figure 4: nothing was tried"]
    assert rows[3] == rows[1]
    assert "differences" not in Page(render_reproduced([OTHER])).sections


def test_statements_and_what_is_missing():
    page = Page(render_reproduced([TOLD]))
    _, kept, broken = page.tables["Claims"]
    assert kept[-3:] == ["+0.300 ± 0.020", "holds", ""]
    assert broken[-3:] == ["-0.050", "breaks", "other noise"]
    assert page.tables["Not compared"][1] == ["Figure 2", "drawn only"]
    assert "JS is a distance & no divergence" in page.text
    assert "534 cabs; 1,234 core-seconds." in " ".join(page.text.split())


def test_without_an_interval_there_is_a_dash():
    alone = replace(NUMBER, low=nan, high=nan)
    page = Page(render_reproduced([replace(TOLD, compared=[alone])]))
    assert page.tables["Published numbers and ours"][-1][3] == "–"


def test_it_is_written_whole(tmp_path):
    place = write_page(render_reproduced([TOLD]), tmp_path / "deep" / "page.html")
    text = (tmp_path / "deep" / "page.html").read_text()
    assert place == str(tmp_path / "deep" / "page.html")
    assert "<title>Four papers reproduced</title>" in text
