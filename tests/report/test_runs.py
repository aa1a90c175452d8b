"""Several results on one page: of one run, of several runs, and what cannot go together."""

import numpy as np
import pytest
from report.made import make_screen, make_traits
from report.page import Page

from clusterscale import schema
from clusterscale.errors import FormatError
from clusterscale.reporting import Run, render


@pytest.fixture
def whole(make_results):
    """An audit, a screen and traits."""
    return Run.of([make_traits(), make_results(), make_screen()], name="week 1")


@pytest.mark.usefixtures("no_figures")
def test_a_page_begins_with_the_findings_of_all(whole):
    page = Page(render(whole))
    assert page.sections[0] == "overview"
    assert page.sections[-3:] == ["configuration", "provenance", "reading"]
    order = ["exposed", "everyone", "people", "traits", "map", "cells", "times"]
    assert [name for name in page.sections if name in order] == order
    told = (
        "AUC of the median target",
        "All users, most exposed",
        "differ most in",
        "Each curve shows",
    )
    places = [page.text.index(words) for words in told]
    assert places == sorted(places)
    assert "week 1" not in page.text


@pytest.mark.usefixtures("empty_figures")
def test_every_anchor_is_there_once(whole):
    for results in (whole, [whole, whole]):
        page = Page(render(results))
        anchors = [named["id"] for _, named in page.tags if "id" in named]
        assert len(anchors) == len(set(anchors))
        links = {ref[1:] for ref in page.references if ref.startswith("#")}
        assert links <= set(anchors)


@pytest.mark.usefixtures("no_figures")
def test_several_runs_stand_below_each_other(whole, make_results):
    other = Run.of([make_results(seed=5)], name="week 2")
    page = Page(render([whole, other]))
    assert page.sections[0] == "run-1-overview"
    assert "run-2-overview" in page.sections
    headings = [named for _, named in page.tags if named.get("role") == "heading"]
    assert len(headings) == 2
    assert page.text.count("week 2") == 2


@pytest.mark.usefixtures("no_figures")
def test_the_plans_and_origins_of_all_are_told(whole):
    page = Page(render(whole))
    words = " ".join(page.text.split())
    for title in ("Plan of the audit", "Plan of the screen", "Plan of the trait analysis"):
        assert title in words
    assert words.count("Cube fingerprint") == 3


def test_a_run_is_told_apart_by_format(make_results):
    screen = make_screen()
    run = Run.of([screen, make_results()])
    np.testing.assert_array_equal(run.screen.auc, screen.auc)
    assert run.recovery is None
    assert [kind for kind, _ in run.parts()] == ["audit", "screen"]


@pytest.mark.usefixtures("no_figures")
def test_what_cannot_go_together_is_refused(make_results):
    with pytest.raises(FormatError, match="two datasets of the same kind: screen"):
        Run.of([make_screen(), make_screen()])
    with pytest.raises(FormatError, match="at least one dataset"):
        Run.of([])
    with pytest.raises(FormatError, match="at least one dataset"):
        render([])
    with pytest.raises(FormatError, match="not from clusterscale-cube"):
        Run.of([make_screen().assign_attrs(format=schema.CUBE_FORMAT)])
    with pytest.raises(FormatError, match="score_gap is missing"):
        Run.of([make_screen().drop_vars("score_gap")])
    with pytest.raises(FormatError, match="are from different cubes, with fingerprints a, b"):
        Run.of(
            [
                make_screen().assign_attrs(cube_fingerprint="a"),
                make_results().assign_attrs(cube_fingerprint="b"),
            ]
        )


@pytest.mark.slow
def test_the_same_results_give_the_same_page(whole):
    assert render(whole) == render(whole)


def test_a_page_without_figures_goes_without_their_script(make_results):
    results = make_results(failed=np.ones((12, 1, 1, 3, 1, 3), bool))
    html = render(results)
    assert "embed_item" not in html
    assert "aria-sort" in html  # but its tables can be sorted
