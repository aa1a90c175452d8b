"""The page of traits: what separates the most from the least exposed, where, and when."""

import base64
import gzip
import json

import h3
import numpy as np
import pytest
from report.made import make_traits
from report.page import Page

from clusterscale.reporting import render
from clusterscale.reporting.figures.planar import shrink
from clusterscale.reporting.traits import comparisons


def arrays(figure):
    """All typed arrays that a figure holds, as NumPy reads them."""
    found = []

    def walk(node):
        if isinstance(node, dict):
            if node.get("type") == "ndarray":
                raw = gzip.decompress(base64.b64decode(node["array"]["data"]))
                found.append(np.frombuffer(raw, node["dtype"]).reshape(node["shape"]))
            node = list(node.values())
        if isinstance(node, list):
            for part in node:
                walk(part)

    walk(figure)
    return found


def test_the_sections_of_traits_alone():
    page = Page(render(make_traits()))
    told = ["overview", "traits", "map", "cells", "times", "configuration", "provenance", "reading"]
    assert page.sections == told
    assert page.stack == []
    words = " ".join(page.text.split())
    assert "unicity: 0.74 against 0.2; more in 0.95 of pairs" in words
    assert "The 10 % most exposed (spectral, mean AUC 0.990)" in words


def test_one_comparison_a_setting_by_the_attack_that_reaches_most():
    traits = make_traits(comparisons=4)  # audit, screen, audit, screen
    shown = comparisons(traits)
    assert [each.index for each in shown] == [0, 1]
    assert [each.label for each in shown] == [
        "targets of the audit · known_subset(alpha=0.2)",
        "all users of the screen",
    ]


def test_the_table_holds_both_sides_and_the_most_important_first():
    page = Page(render(make_traits(comparisons=1)))
    (rows,) = [table for name, table in page.tables.items() if name.startswith("6 on each side")]
    assert rows[1] == ["unicity", "0.74 ± 0.04", "0.20 ± 0.10", "0.95", "0.70", "", "1.50"]
    assert rows[2][0] == "events"


def test_few_people_or_equal_sides_say_nothing():
    few, close = make_traits(comparisons=2), make_traits(comparisons=1)
    few["n_compared"][0] = 2
    close["auc_bottom"][:] = 0.98
    for traits, n_shown in ((few, 2), (close, 1)):
        page = Page(render(traits))
        assert page.text.count("Inconclusive. With fewer") == 1
        words = " ".join(page.text.split())
        assert words.count("each, are too few or have similar AUCs") == 1
        assert words.count("on each side, by") == n_shown
    assert [each.index for each in comparisons(few)] == [1, 0]  # what says something comes first


def test_heatmaps_are_sorted_by_popularity_and_scaled():
    traits = make_traits()
    page = Page(render(traits))
    assert set(page.figures) == {"map-1", "cells-1", "times-1", "times-2"}
    drawn = arrays(page.figures["cells-1"])  # the last of the four: the least exposed
    assert drawn[0].dtype == np.uint8
    assert drawn[0].max() == 100
    loading = traits.loading.values[0, 2][:, :24]
    rois = np.argsort(traits.roi_events.values[0], kind="stable")
    epochs = np.argsort(traits.epoch_events.values[0][:24], kind="stable")
    expected = loading[np.ix_(rois, epochs)]
    assert np.array_equal(drawn[0], np.round(100 * expected / expected.max()).astype(np.uint8))


def test_the_map_is_coloured_by_mean_loading():
    traits = make_traits(shapes={"kind": "grid", "width": 0.02, "height": 0.01})
    text = json.dumps(Page(render(traits)).figures["map-1"])
    means = np.nanmean(traits.loading.values[0, 0], axis=1)
    values = sorted(np.round(means / means.max(), 3).tolist())  # the largest is drawn last
    assert f'"value", {json.dumps(values)}' in text
    assert '"Rect"' in text


def test_hexagons_are_drawn_as_such():
    cells = sorted(h3.grid_disk(h3.latlng_to_cell(37.77, -122.42, 8), 1))[:6]
    traits = make_traits(shapes={"kind": "h3"}, names=cells)
    text = json.dumps(Page(render(traits)).figures["map-1"])
    assert '"Patches"' in text


def test_without_positions_there_is_no_map():
    traits = make_traits()
    traits["x"][:] = np.nan
    assert "map" not in Page(render(traits)).sections


def test_nobody_compared_is_said():
    page = Page(render(make_traits(comparisons=0, views=0)))
    assert page.sections == ["overview", "configuration", "provenance", "reading"]
    assert "No comparison." in page.text


@pytest.mark.parametrize("shape", [(6, 24), (583, 168), (5000, 720), (1, 1)])
def test_shrinking_keeps_means_and_never_grows(shape):
    values = np.random.default_rng(0).uniform(size=shape)
    small = shrink(values)
    assert small.shape == (min(shape[0], 120), min(shape[1], 168))
    assert small.max() == 1
    if small.shape != shape:
        rows = np.linspace(0, shape[0], small.shape[0] + 1).astype(int)
        columns = np.linspace(0, shape[1], small.shape[1] + 1).astype(int)
        first = values[: rows[1], : columns[1]].mean()
        last = values[rows[-2] :, columns[-2] :].mean()
        assert small[0, 0] / small[-1, -1] == pytest.approx(first / last)
