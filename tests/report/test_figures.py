"""What the figures draw, read from their own description."""

import json
from pathlib import Path

import numpy as np
import pytest
from bokeh.models import Span
from hypothesis import example, given
from hypothesis import strategies as st
from report.page import Page

from clusterscale.reporting import figures, render
from clusterscale.reporting.figures import (
    Figure,
    Figures,
    Point,
    axis,
    boxes,
    distributions,
    plot,
    tradeoff,
)
from clusterscale.reporting.figures.curves import strip
from clusterscale.reporting.figures.single import style_of


def columns(panel, *names):
    for renderer in panel.renderers:
        data = renderer.data_source.data
        if set(names) <= set(data):
            yield [list(data[name]) for name in names]


def test_a_curve_is_the_empirical_distribution():
    auc = np.array([0.9, 0.6, 0.6, 0.75])
    ((x, y),) = columns(distributions({0: auc}, ["a"], start=0.4), "number", "share")
    assert x == [0.4, 0.6, 0.75, 0.9, 1.01]
    assert y == [0, 0.5, 0.75, 1, 1]


def test_a_curve_of_many_targets_is_thinned_without_moving():
    auc = np.random.default_rng(0).uniform(0.5, 1, 20_000)
    ((x, y),) = columns(distributions({0: auc}, ["a"], start=0.4), "number", "share")
    assert len(x) <= 402
    exact = np.searchsorted(np.sort(auc), x, side="right") / len(auc)
    assert np.abs(exact - y).max() < 0.005


def test_a_box_is_quartiles_with_whiskers_of_tukey():
    loss = np.array([0.0, 0.4, 0.5, 0.6, 1.0])
    panel = boxes([(5, {0: loss})], ["a"])
    (box,) = zip(*next(columns(panel, "low", "q1", "median", "q3", "high", "mean")), strict=True)
    assert box == pytest.approx((0.4, 0.4, 0.5, 0.6, 0.6, 0.5))
    beyond = panel.renderers[-1].data_source.data
    assert sorted(beyond["y"]) == [0, 1]


def test_a_drawn_ceiling_is_never_below_the_certified_one():
    ceilings = np.array([0.70004, 0.7, 0.99996])
    panel = figures.brackets(np.full(3, 0.5), ceilings)
    high, told = next(columns(panel, "high", "told"))
    assert (np.array(high) >= ceilings).all()
    assert told == ["0.701", "0.700", "> 0.999"]


def test_identifiers_do_not_depend_on_what_was_drawn_before():
    def drawn():
        return plot(
            distributions({0: np.array([0.7])}, ["<b>"], start=0.4),
            slug="one",
            title="t",
            description="d",
        )

    assert drawn() == drawn()
    body = drawn().split('"application/json">')[1].split("</script>")[0]
    assert "<" not in body
    assert json.loads(body)["root_id"].isdecimal()


@pytest.mark.parametrize("paper", ["#ffffff", "#14181c"])
def test_every_colour_stands_out_on_light_and_dark_paper(paper):
    def luminance(colour):
        parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ (0.2126, 0.7152, 0.0722))

    for index in range(8):
        pair = sorted((luminance(paper), luminance(figures.colour(index))))
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 3


def test_a_mark_stands_at_its_loss_and_gain_and_carries_its_name():
    points = [Point(0, "exact", 0.0, 0.0), Point(3, "<b>", 2.5, 0.75)]
    across = axis(np.array([0.0, 0.4, 2.5, 7.0]), log=True)
    panel = tradeoff(points, 7.0, across)
    ((x, gain, loss, names),) = columns(panel, "x", "gain", "loss", "mechanism")
    assert x == [across.floor, 2.5]  # a logarithm has no place for 0
    assert (gain, loss, names) == ([0, 0.75], [0, 2.5], ["exact", "<b>"])
    assert [line.location for line in panel.select({"type": Span})] == [7.0]


def test_a_picture_explains_its_marks(tmp_path):
    pytest.importorskip("matplotlib")
    points = [Point(0, "exact", 0.0, 0.0), Point(1, "zeros", 0.5, 1.0, "empty")]
    model = tradeoff(points, 0.7, axis(np.array([0.7]), log=False))
    drawn = Figure(model, "slug", "utility", "<in words>", names=("exact", "zeros"))
    text = Path(drawn.save(tmp_path / "a.svg")).read_text()
    for name in ("exact", "zeros", "(nearly) empty release", "random guess"):
        assert f">{name}</text>" in text


def test_a_notebook_shows_a_list_of_figures_as_far_as_it_is_short(monkeypatch):
    monkeypatch.setattr(Figure, "_repr_png_", lambda self: (b"png", {"alt": self.description}))
    drawn = Figure(None, "slug", "title", '"in words"')
    shown = Figures([drawn] * 15)._repr_html_()
    assert shown.count('<img alt="&quot;in words&quot;"') == 12
    assert shown.endswith("and 3 more")


def test_without_a_guess_there_is_no_line():
    panel = tradeoff([Point(0, "a", 0.2, 0.1)], np.nan, axis(np.array([0.2]), log=False))
    assert not list(panel.select({"type": Span}))


@given(st.lists(st.floats(0, 1e9), min_size=1), st.booleans())
@example([999999999.9999999], False)
def test_an_axis_holds_every_value_and_its_ticks(values, log):
    across = axis(np.array([*values, np.nan]), log=log)
    places = [across.place(value) for value in (*values, *across.ticks)]
    assert across.start <= min(places)
    assert max(places) <= across.end
    assert 2 <= len(across.ticks) <= 12


def test_a_logarithmic_axis_has_a_tick_for_nothing():
    across = axis(np.array([0.0, 0.03, 12.0]), log=True)
    assert list(across.ticks.values()) == ["0", "0.01", "0.1", "1", "10", "100"]
    assert across.place(0.0) == next(iter(across.ticks))
    wide = axis(np.array([0.00002, 12.0]), log=True)
    assert list(wide.ticks.values()) == ["0", "0.0001", "0.01", "1", "100"]


def test_no_two_of_forty_marks_look_alike():
    assert len({style_of(i) for i in range(40)}) == 40


def test_a_strip_shows_the_quartiles_in_per_cent():
    html = strip(np.array([0.0, 0.5, 0.5, 0.5, 1.0]), "#123456")
    assert '<rect class="body" x="50.0%" width="0.0%"' in html
    assert html.count('fill="none"') == 2  # both ends are beyond the whiskers
    assert 'cx="2.0%"' in html
    assert 'cx="98.0%"' in html
    assert strip(np.array([]), "#123456") == ""


def test_periods_stand_beside_each_other_by_number(make_results):
    page = Page(render(make_results(periods=("0:168", "168:336"), sizes=(5, 100))))
    assert "periods" in page.sections
    assert {name for name in page.figures if name.startswith("periods")} == {
        "periods-1-5",
        "periods-1-100",
    }
    text = json.dumps(page.figures["periods-1-5"])
    assert '"period"' in text
    assert "168:336" not in text  # text of the data is no label of a figure
    numbered = [named for tag, named in page.tags if named.get("class") == "numbered"]
    assert len(numbered) == 1
    assert "periods" not in Page(render(make_results())).sections
