"""The page of a screen: everyone's exposure, number by number, and who is most exposed."""

import numpy as np
import pytest
import xarray as xr
from report.made import make_screen
from report.page import Page

from clusterscale.cli import console as show
from clusterscale.cli.analyses import show_screen
from clusterscale.reporting import render
from clusterscale.reporting.run import Run
from clusterscale.reporting.screening import read_cases, render_sections
from clusterscale.reporting.section import percent

ALL = "All users, by AUC under each mechanism"


def test_the_sections_of_a_screen_alone():
    page = Page(render(make_screen()))
    assert page.sections == [
        "overview",
        "everyone",
        "people",
        "configuration",
        "provenance",
        "reading",
    ]
    assert page.stack == []
    assert "groups: 200" in page.text


def test_the_table_is_what_numpy_says():
    screened = make_screen()
    rows = Page(render(screened)).tables[
        "All users by mechanism, each compared in 190 groups (median)"
    ]
    for row, mechanism in zip(rows[1:], screened.mechanism.values, strict=True):
        auc = screened.auc.sel(mechanism=mechanism).squeeze()
        best = auc.mean("user").idxmax("attack").item()
        values = auc.sel(attack=best).values
        assert row[0] == mechanism
        assert row[1] == best
        assert row[2:4] == [f"{values.mean():.3f}", f"{np.quantile(values, 0.95):.3f}"]
        shares = [100 * np.mean(values > level) for level in (0.75, 0.9)]
        assert row[4:6] == ["< 1 %" if 0 < s < 0.5 else f"{s:.0f} %" for s in shares]
        high = screened.auc_high.sel(mechanism=mechanism, attack=best).values
        low = screened.auc_low.sel(mechanism=mechanism, attack=best).values
        assert row[6] == f"{(high - low).mean() / 2:.3f}"


def test_the_most_exposed_come_first_and_all_can_be_had():
    page = Page(render(make_screen()))
    assert page.tables[ALL][1][0] == "row 7"
    assert len(page.tables[ALL]) == 21
    held = page.long[ALL]
    assert held["file"] == "users-1.csv"
    users, events, *aucs = held["columns"]
    assert sorted(users["values"]) == sorted(f"row {i}" for i in range(40))
    assert events["digits"] == 0
    means = np.mean([column["values"] for column in aucs], axis=0)
    assert (np.diff(means) <= 1e-9).all()


def test_users_that_nobody_compared_come_last_and_in_no_mean():
    screened = make_screen()
    screened.auc[3] = np.nan
    page = Page(render(screened))
    column = page.long[ALL]["columns"][2]["values"]
    assert column[-1] is None
    assert None not in column[:-1]
    (place,) = read_cases(screened)
    rest = screened.auc.values[np.arange(40) != 3, 0, 0, 0]
    assert place.exposures[0].mean == pytest.approx(rest.mean(axis=0).max())


def test_nobody_compared_at_all_is_said():
    screened = make_screen()
    screened.auc[:] = np.nan
    page = Page(render(screened))
    assert "No user could be compared" in page.text
    assert not page.figures


@pytest.mark.parametrize(("n_users", "mechanisms"), [(1, ("exact",)), (3, ("exact", "b"))])
def test_few_users_and_one_mechanism(n_users, mechanisms):
    page = Page(render(make_screen(n_users=n_users, mechanisms=mechanisms)))
    assert len(page.tables["All users, by AUC under each mechanism"]) == n_users + 1
    assert ("least exposed" in page.text) == (len(mechanisms) > 1)


@pytest.mark.parametrize(
    ("ceiling", "share", "doubt"),
    [
        (None, 1.0, "no ceiling is certified"),
        (0.93, 1.0, "certified is only that no AUC exceeds 0.930"),
        (np.nan, 1.0, "certified is only that no AUC exceeds –"),
        (0.74, 0.01, "the release is nearly empty"),
        (0.74, None, "whether the release is nearly empty is unknown"),
        (0.74, 1.0, ""),
    ],
)
def test_a_share_of_nobody_is_large_only_if_it_is_certified_and_the_release_not_empty(
    make_results, ceiling, share, doubt
):
    screened = make_screen(mechanisms=("exact", "quiet"))
    screened["auc"].loc[{"mechanism": "quiet"}] = 0.5
    audit = certify = None
    if share is not None:
        audit = make_results(mechanisms=("exact", "quiet"))
        audit["released_share"][:] = share
    if ceiling is not None:
        dims = ("user", "period", "group_size", "mechanism", "neighbours")
        coords = {name: screened[name].values for name in dims[:-1]} | {dims[-1]: ["replace"]}
        shape = tuple(len(values) for values in coords.values())
        certify = xr.Dataset({"auc": (dims, np.full(shape, ceiling))}, coords)
    run = Run(screen=screened, audit=audit, certify=certify)
    overview = Page(str(render_sections(screened, run)[0]))
    words = " ".join(overview.text.split())
    least = words[words.index("least exposed") :]
    large = '<span class="big">0 %</span>' in str(render_sections(screened, run)[0])
    assert large == (not doubt)
    assert doubt in least
    assert ("0 % of users above AUC 0.75, by attacks without training only" in least) == bool(doubt)


@pytest.mark.slow
def test_ten_thousand_users_stay_small():
    mechanisms = tuple(f"laplace(epsilon={i})" for i in range(1, 23))
    html = render(make_screen(n_users=10_000, mechanisms=mechanisms, sizes=(10, 100)))
    assert len(html.encode()) < 8e6
    held = Page(html).long
    (caption, _), *_ = held.items()
    n_rows = len(held[caption]["columns"][0]["values"])
    assert n_rows == 600_000 // (2 * 24) or n_rows == 10_000
    assert len(held) == 2


def test_exposure_is_shown_by_group_size():
    screened = make_screen(sizes=(10, 100, 300))
    page, rows = Page(render(screened)), {}
    for mechanism in screened.mechanism.values:
        auc = screened.auc.sel(mechanism=mechanism).squeeze().transpose("group_size", ...)
        best = auc.mean("user").values.argmax(axis=1)
        above = [(one.values[:, i] > 0.75).mean() for one, i in zip(auc, best, strict=True)]
        rows[mechanism] = above
    shown = page.tables["Users with an AUC above 0.75, by group size"]
    assert shown[0] == ["Mechanism", "10", "100", "300"]
    assert [row[0] for row in shown[1:]] == list(rows)
    assert [row[1:] for row in shown[1:]] == [list(map(percent, row)) for row in rows.values()]
    with show.out.capture() as terminal:
        show_screen(screened)
    assert "by group size" in terminal.get()
    assert "A verdict is about the audited size alone" in " ".join(terminal.get().split())
    assert "by group size" not in Page(render(make_screen())).text


def test_a_large_screen_says_how_many_are_told():
    html = render(make_screen(n_users=12_000, mechanisms=("exact",)))
    assert "The 10,000 most exposed of 12,000 users" in Page(html).text


def test_hostile_words_stay_words():
    hostile = '</script><img src=x onerror="alert(1)">$$x$$'
    html = render(make_screen(mechanisms=("exact", hostile), periods=("a", hostile)))
    page = Page(html)
    assert {tag for tag, _ in page.tags}.isdisjoint({"img", "iframe"})
    assert hostile in page.text
