"""The page as its readers get it: complete, offline, honest about what is missing."""

import json
import re
from itertools import pairwise

import numpy as np
import pytest
from report.page import Page

from clusterscale import schema
from clusterscale.errors import FormatError
from clusterscale.reporting import render
from clusterscale.reporting.figures import colour
from clusterscale.reporting.figures.single import dash

ALL = [
    "overview",
    "sure",
    "distributions",
    "losses",
    "results",
    "exposed",
    "configuration",
    "provenance",
    "reading",
]
BEST = "best for each target"
RESULTS = "Results by group size and attack, over the targets with a result"
STRONGEST = "How well the strongest attack recognises whether a target was counted"
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(1)">$$x$$ {{ 7*7 }} \u2028'


def failing(share, shape=(12, 1, 1, 3, 1, 3)):
    return np.random.default_rng(3).random(shape) < share


@pytest.mark.usefixtures("no_figures")
def test_every_section_is_there_in_order_and_in_the_contents(make_results):
    page = Page(render(make_results()))
    assert page.sections == ALL
    anchors = [ref for ref in page.references if ref.startswith("#")]
    assert anchors == ["#overview", *(f"#{name}" for name in ALL), "#sure"]
    assert page.stack == []


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("null_roi", [True, False])
def test_a_page_says_that_a_row_counts_who_is_nowhere(make_results, null_roi):
    results = make_results()
    results.attrs["cube"] = json.dumps(json.loads(results.attrs["cube"]) | {"null_roi": null_roi})
    words = " ".join(Page(render(results)).text.split())
    assert ("One more row of each release counts, in each epoch, the people" in words) == null_roi


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"sizes": (7,), "attacks": ("spectral",), "n_targets": 1},
        pytest.param(
            {"mechanisms": ("exact", "laplace(epsilon=1.0)"), "periods": ("0:168", "168:336")},
            marks=pytest.mark.slow,
        ),
        {"failed": failing(0.3)},
        {"failed": failing(1.0)},
    ],
)
def test_the_page_loads_nothing_and_stays_small(make_results, case):
    html = render(make_results(**case))
    page = Page(html)
    assert all(ref.startswith("#") for ref in page.references)
    assert "@import" not in page.css
    assert "url(" not in page.css
    anchors = {named["id"] for _, named in page.tags if "id" in named}
    assert {ref[1:] for ref in page.references} <= anchors
    policy = next(named["content"] for tag, named in page.tags if "http-equiv" in named)
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert len(html) < 3e6


@pytest.mark.usefixtures("no_figures")
def test_the_table_holds_what_numpy_says(make_results):
    results = make_results(n_targets=9, sizes=(5, 100))
    rows = Page(render(results)).tables[RESULTS]
    where = None
    seen = []
    for row in rows[1:]:
        if len(row) == 1:
            where = int(row[0].removeprefix("Groups of "))
            continue
        seen.append((where, row[0]))
        if row[0] == BEST:
            case = results.sel(group_size=where).max("attack")
        else:
            case = results.sel(group_size=where, attack=row[0])
        auc, loss = case["auc"].values.ravel(), case["privacy_loss"].values.ravel()
        low, high = map(float, row[3].split("–"))
        assert row[1] == "9"
        assert row[2] == f"{auc.mean():.3f}"
        assert low < auc.mean() < high
        assert row[4] == f"{np.median(auc):.3f}"
        assert row[5:8] == [f"{100 * np.mean(auc > level):.0f} %" for level in (0.6, 0.75, 0.9)]
        assert row[8:10] == [f"{loss.mean():.3f}", f"{loss.max():.3f}"]
        if row[0] == BEST:
            assert row[10:] == ["–", "–"]
        else:
            assert row[10] == f"{case['accuracy'].values.mean():.3f}"
            assert row[11] == f"{case['control_auc'].values.mean():.3f}"
    assert seen == [(m, a) for m in (5, 100) for a in [*results["attack"].values, BEST]]


@pytest.mark.usefixtures("no_figures")
def test_one_attack_is_its_own_best(make_results):
    results = make_results(sizes=(5,)).isel(attack=[0])
    names = [row[0] for row in Page(render(results)).tables[RESULTS][1:]]
    assert BEST not in names


def test_many_attacks_are_told_apart():
    looks = {(colour(i), dash(i)) for i in range(32)}
    assert len(looks) == 32


@pytest.mark.usefixtures("no_figures")
def test_the_first_screen_names_the_strongest_attack_at_every_group_size(make_results):
    results = make_results(sizes=(100, 5))  # any order
    page = Page(render(results))
    rows = page.tables[STRONGEST][1:]
    assert [row[0] for row in rows] == ["5", "100"]
    for row in rows:
        mean = results["auc"].sel(group_size=int(row[0])).mean("target").squeeze()
        assert row[1] == str(mean.idxmax("attack").values)
        assert row[2] == f"{float(mean.max()):.3f}"
    median = results["auc"].sel(group_size=5, attack=rows[0][1]).median()
    words = " ".join(page.text.split())
    assert f"recognises the median target with AUC {float(median):.3f}" in words
    assert "12 targets out of 534 users of sfc cabs, in groups of 5 and 100" in words


@pytest.mark.usefixtures("no_figures")
def test_cases_and_attacks_that_reach_as_much_are_told_as_ties(make_results):
    results = make_results(sizes=(5, 100), attacks=("a", "b", "c"))
    results["auc"].loc[{"attack": ["b", "c"]}] = 0.99
    page = Page(render(results))
    assert [row[1] for row in page.tables[STRONGEST][1:]] == ["b or c"] * 2
    words = " ".join(page.text.split())
    assert "Most exposed: groups of 5, and 1 other case with the same mean AUC" in words
    assert "The strongest attacks, b or c, recognise the median target" in words
    assert "Least exposed" not in words
    (rows,) = (rows for name, rows in page.tables.items() if name.startswith("Targets by their"))
    assert {tuple(row[3:5]) for row in rows[1:]} == {("b or c", "100")}


@pytest.mark.usefixtures("no_figures")
def test_targets_chosen_for_their_exposure_are_not_taken_for_a_sample(make_results):
    results = make_results()
    assert "most exposed," not in " ".join(Page(render(results)).text.split())
    plan = json.loads(results.attrs["plan"]) | {"targets": {"most_exposed": 20}}
    results.attrs["plan"] = json.dumps(plan)
    words = " ".join(Page(render(results)).text.split())
    assert (
        "out of 534 users, the most exposed in a screen of all users, not a random sample," in words
    )


@pytest.mark.usefixtures("no_figures")
def test_numbers_are_over_finished_tests_only_and_say_so(make_results):
    failed = failing(0.3)
    results = make_results(failed=failed)
    # what an unfinished task left behind must not leak into a mean
    results["auc"] = results["auc"].where(results["status"] == "done", 1.0)
    page = Page(render(results))
    row = page.tables[RESULTS][2]
    done = ~failed[:, 0, 0, 0, 0, 0]
    auc = results["auc"].values[:, 0, 0, 0, 0, 0][done]
    assert row[1] == f"{done.sum()} of 12"
    assert row[2] == f"{auc.mean():.3f}"
    assert page.sections[1] == "failures"
    (line,) = page.tables["Failed tests by kind of error"][1:]
    assert line[:2] == ["PoolError", str(failed.sum())]
    assert f"{failed.sum()} tests of 108 failed" in " ".join(page.text.split())


@pytest.mark.usefixtures("no_figures")
def test_tests_not_run_are_counted_and_make_no_rows(make_results):
    results = make_results()
    status = results["status"].where(results["group_size"] != 100, "missing")
    page = Page(render(results.assign(status=status)))
    assert "failures" not in page.sections
    assert "36 further combinations" in page.text
    assert "Groups of 100" not in [row[0] for row in page.tables[RESULTS]]


@pytest.mark.usefixtures("no_figures")
def test_done_without_a_number_counts_as_failed(make_results):
    results = make_results()
    results["auc"][0] = np.nan
    page = Page(render(results))
    (line,) = page.tables["Failed tests by kind of error"][1:]
    assert line[:2] == ["No AUC", "9"]


@pytest.mark.usefixtures("no_figures")
def test_without_any_number_there_is_no_claim_and_no_library(make_results):
    html = render(make_results(failed=failing(1.0)))
    page = Page(html)
    assert page.sections == ["overview", "failures", "configuration", "provenance", "reading"]
    assert "No test has finished." in page.text
    assert "Most exposed" not in page.text
    assert "nan" not in page.text.lower().replace("provenance", "")
    assert len(html) < 50_000


@pytest.mark.usefixtures("no_figures")
def test_one_target_has_a_wide_interval_and_no_verdict_on_the_control(make_results):
    page = Page(render(make_results(n_targets=1)))
    ends = [row[3].split("–") for row in page.tables[RESULTS][1:] if len(row) > 1]
    assert all(float(low) < 0.05 and float(high) > 0.95 for low, high in ends)
    assert "Controls not evaluated." in page.text
    assert "1 target " in " ".join(page.text.split())


@pytest.mark.usefixtures("no_figures")
def test_a_control_that_was_not_run_is_asked_for(make_results):
    results = make_results()
    results["control_auc"][:] = results["absent_auc"][:] = np.nan
    assert "No control was run." in Page(render(results)).text


@pytest.mark.usefixtures("empty_figures")
def test_several_settings_are_told_apart_by_what_varies(make_results):
    page = Page(render(make_results(mechanisms=("exact", "laplace(epsilon=1.0)"))))
    groups = [row[0] for row in page.tables[RESULTS] if len(row) == 1]
    assert groups[0] == "exact · Groups of 10"
    assert groups[-1] == "laplace(epsilon=1.0) · Groups of 100"
    folds = [named for tag, named in page.tags if tag == "details"]
    # the strongest attacks; gains and trade-off by group size; how sure, distributions, losses, the
    # exposed by mechanism
    rest = [True, False, False] * 2 + [True, False] * 4
    assert ["open" in named for named in folds] == [False, *rest]
    assert len(page.figures) == 8 + 3 * 11


@pytest.mark.usefixtures("empty_figures")
def test_many_settings_are_folded_twice(make_results):
    mechanisms = ("exact", *(f"laplace(epsilon={i}.0)" for i in range(1, 12)))
    page = Page(render(make_results(mechanisms=mechanisms, attacks=("a",), sizes=(5,))))
    words = " ".join(page.text.split())
    assert words.count(" 4 more ") == 4
    assert "The counts were published by 12 methods." in words
    assert len([name for name in page.figures if name.startswith("auc-")]) == 12


@pytest.mark.usefixtures("no_figures")
def test_a_long_list_does_not_push_the_findings_off_the_first_screen(make_results):
    mechanisms = ("exact", *(f"laplace(epsilon={i}.0)" for i in range(1, 7)))
    page = Page(render(make_results(mechanisms=mechanisms, sizes=(5, 10))))
    assert "The strongest attack in each of 14 cases" in page.text
    assert len(page.tables[STRONGEST]) == 1 + 7 * (1 + 2)


def test_hostile_text_stays_text(make_results):
    results = make_results(
        pseudonyms=[f"{HOSTILE}{i}" for i in range(12)],
        attacks=(HOSTILE, "spectral"),
        mechanisms=(HOSTILE, "exact"),
        failed=failing(0.2, (12, 1, 1, 3, 2, 2)),
        plan='{"name": "</code><script>alert(1)</script>"}',
        versions=HOSTILE,
        cube=f'{{"source": "{HOSTILE.replace(chr(34), "")}"}}',
        plan_digest=HOSTILE,
    )
    results["error"] = results["error"].where(results["error"] == "", HOSTILE)
    html = render(results, title=HOSTILE)
    page = Page(html)
    assert {tag for tag, _ in page.tags}.isdisjoint({"img", "iframe", "object", "link", "base"})
    assert [named for tag, named in page.tags if tag == "script"].count({}) == 3
    assert not [name for _, named in page.tags for name in named if name.startswith("on")]
    assert "<script>alert" not in html
    assert "49" not in page.text.split("Provenance")[0].split("Findings")[0]
    assert page.text.replace("\ufffd", "\u2028").count(HOSTILE) > 20  # controls are replaced


def test_hostile_text_is_no_label_of_a_figure(make_results):
    # BokehJS fetches a renderer for $$…$$ in titles, labels and ticks
    page = Page(
        render(make_results(attacks=("$$a$$", "b"), mechanisms=("exact", "$$c$$"), sizes=(5,)))
    )

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
    assert found <= {"name", "entries"}  # names of glyphs and columns of data: shown as plain text


def test_the_same_results_make_the_same_page(make_results):
    assert render(make_results()) == render(make_results())


@pytest.mark.usefixtures("empty_figures")
def test_reading_without_sight_or_mouse(make_results):
    page = Page(render(make_results(mechanisms=("exact", "b"))))
    heads = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert heads.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(heads))
    assert all(named.get("scope") for tag, named in page.tags if tag == "th")
    assert [t for t, _ in page.tags].count("table") == [t for t, _ in page.tags].count("caption")
    figures = [named for _, named in page.tags if "data-figure" in named]
    assert all(f["role"] == "img" and len(f["aria-label"]) > 40 for f in figures)
    boxes = [named for _, named in page.tags if named.get("class") == "scroll"]
    assert all(box["tabindex"] == "0" and box["aria-label"] for box in boxes)
    assert ("html", {"lang": "en"}) in page.tags


@pytest.mark.usefixtures("no_figures")
def test_plan_and_provenance_are_shown(make_results):
    page = Page(render(make_results()))
    for text in ("alpha: 0.2", "0f3a9c51d2", "blake2b:77ab01", "2,013,414", "2.4.6"):
        assert text in page.text


@pytest.mark.usefixtures("no_figures")
def test_attributes_may_be_absent(make_results):
    results = make_results()
    results.attrs = {}
    page = Page(render(results))
    assert page.sections == [name for name in ALL if name != "configuration"]
    assert "not recorded" in page.text


@pytest.mark.usefixtures("no_figures")
def test_other_datasets_are_refused(make_results):
    with pytest.raises(FormatError, match="clusterscale-cube"):
        render(make_results(format=schema.CUBE_FORMAT))
    with pytest.raises(FormatError, match="auc is missing"):
        render(make_results().drop_vars("auc"))


@pytest.mark.usefixtures("no_figures")
def test_results_are_left_as_they_were(make_results):
    results = make_results(sizes=(50, 5))
    before = results.copy(deep=True)
    render(results)
    assert results.identical(before)
