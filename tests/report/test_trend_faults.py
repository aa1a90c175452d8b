"""The page over many releases, of verdicts that are absent or hostile."""

import json
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pandas as pd
import pytest
from report.made_trend import make_trend, reason, render, said, shown
from report.page import Page

from clusterscale import storage
from clusterscale.reporting import write_page

VERDICTS = "All verdicts"
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(1)">$$x$$ {{ 7*7 }} \u2028'


def test_nothing_judged_yet_is_a_page_that_says_so():
    for table in (make_trend(0), make_trend(3).iloc[:0], pd.DataFrame()):
        page = shown(table)
        assert "No verdict yet." in said(page)
        assert page.sections == ["overview", "reading"]


def test_hostile_names_stay_text():
    words = ("series", "release", "period", "mechanism", "run", "policy")
    reasons = json.dumps([reason(HOSTILE, "fail", 1.0, 0.5, HOSTILE)])
    table = make_trend(9, reasons=reasons, verdict="fail").assign(**dict.fromkeys(words, HOSTILE))
    table["utility"] = json.dumps({HOSTILE: 1.0})
    html = render(table)
    page = Page(html)
    assert {tag for tag, _ in page.tags}.isdisjoint({"img", "iframe", "object", "link", "base"})
    assert [named for tag, named in page.tags if tag == "script"].count({}) == 3
    assert not [name for _, named in page.tags for name in named if name.startswith("on")]
    assert "<script>alert" not in html
    assert page.text.replace("\ufffd", "\u2028").count(HOSTILE) > 20  # controls are replaced
    assert "49" not in said(page).split("How to read")[0]


def test_hostile_names_are_no_label_of_a_figure():
    # BokehJS fetches a renderer for $$…$$ in titles, labels and ticks
    names = dict.fromkeys(("series", "release", "period", "mechanism"), "$$a$$")
    page = shown(make_trend(3, utility='{"$$b$$": 1.0}').assign(**names))

    def texts(node, path=()):
        if isinstance(node, dict):
            for key, value in node.items():
                yield from texts(value, (*path, key))
        elif isinstance(node, list):
            for value in node:
                yield from texts(value, path)
        elif isinstance(node, str) and "$$" in node:
            yield path

    found = {path[-1] for figure in page.figures.values() for path in texts(figure)}
    assert found == {"entries"}  # columns of data: tooltips show them as plain text


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(
    "run",
    ["javascript:alert(1)", "//evil.example/x", "https://evil.example", "a b?c#d", "\\\\e\\x"],
)
def test_a_link_leads_to_a_page_below_and_nowhere_else(run):
    page = shown(make_trend(1, run=run))
    (address,) = {ref for ref in page.references if not ref.startswith("#")}
    assert page.long[VERDICTS]["columns"][0]["links"] == [address]
    told = urlsplit(urljoin("https://here.example/trend/index.html", address))
    assert (told.scheme, told.netloc) == ("https", "here.example")
    assert told.path.startswith("/trend/")
    assert told.path.endswith("/report.html")
    assert not told.query + told.fragment


@pytest.mark.usefixtures("no_figures")
def test_a_release_without_a_run_has_no_link():
    page = shown(make_trend(2, run=""))
    assert all(ref.startswith("#") for ref in page.references)


@pytest.mark.usefixtures("no_figures")
def test_the_file_is_the_page_at_a_path_or_a_url(tmp_path):
    table = make_trend(2).assign(series="Köln · 7")
    path = Path(write_page(render(table), tmp_path / "new" / "trend.html"))
    assert path.read_text(encoding="utf-8") == render(table)
    assert [each.name for each in path.parent.iterdir()] == ["trend.html"]
    uri = write_page(render(table), "memory://trends/trend.html")
    assert storage.read(uri).decode() == render(table)
    storage.remove("memory://trends")
