"""Figures of papers: what each panel shows, what is printed, and pictures of every kind."""

import numpy as np
import pytest
from loops import for_each
from papers.made import EXACT, audited, published, study
from papers.validation import find_faults
from pydantic import ValidationError
from report.made import make_traits

from clusterscale.papers.compare import Results
from clusterscale.papers.figures import plot_figures
from clusterscale.papers.study import PaperFigure
from clusterscale.reporting.figures import draw
from clusterscale.reporting.papers import StudyReport, draw_figures

AT = {**EXACT, "attack": "logistic"}
NOISE = {
    "at": {"attack": "logistic"},
    "along": "group_size",
    "ticks": [10, 100],
    "series": {"raw": {"mechanism": "exact"}, "noise": {"mechanism": "laplace(epsilon=1.0)"}},
    "x": "group size m",
    "y": "AUC",
}
KINDS = {
    "lines": {**NOISE, "log": "x"},
    "bars": {**NOISE, "kind": "bars"},
    "boxes": {**NOISE, "kind": "boxes"},
    "cumulative": {
        "kind": "cumulative",
        "title": "groups of {}",
        "at": EXACT,
        "each": {"group_size": [10, 100]},
        "series": {"LR": {"attack": "logistic"}, "BEST": {"attack": "best"}},
    },
    "points": {
        "kind": "points",
        "at": {"group_size": 10, "attack": "logistic"},
        "along": "mechanism",
        "series": {"LPA": {"mechanism": ["laplace(epsilon=1.0)"]}},
        "measure": "pearson",
    },
    "words": {
        "at": {**AT, "group_size": 10, "mechanism": "laplace(epsilon={})"},
        "along": "mechanism",
        "ticks": [0.5, 1.0],
    },
}


def plotted(*kinds, dataset=None, **fields):
    figures = [{"item": f"Figure {i}", **KINDS[kind]} for i, kind in enumerate(kinds, 1)]
    dataset = audited().assign_coords(ideal=("measure", [1.0])) if dataset is None else dataset
    results = Results({"audit": dataset})
    return list(plot_figures(study(figures=figures, **fields), results))


def told(plots):
    return StudyReport("NDSS18", "Knock", "ndss18/a", "A", "cabs", 1.0, [], [], [], [], plots)


def test_lines_have_the_numbers_errors_and_the_papers():
    (plot,) = plotted("lines", published=[published(values=[0.9, None])])
    first, second = plot.series[0].points
    values = audited().auc.sel(group_size=10, mechanism="exact", attack="logistic").values
    assert first.value == pytest.approx(values.mean())
    assert first.error == pytest.approx(values.std(ddof=1) / np.sqrt(values.size))
    assert (first.tick, first.printed) == (10, 0.9)
    assert np.isnan(second.printed)
    assert plot.names == ("raw", "noise")


def test_distributions_are_of_people_with_printed_shares():
    share = {"reduce": "share_above", "limit": 0.6, "at": {**AT, "group_size": 10}, "by": {}}
    first, second = plotted("cumulative", published=[published(**share, values=0.7)])
    assert [plot.title for plot in (first, second)] == ["groups of 10", "groups of 100"]
    assert first.series[0].points[0].people.size == 40
    assert first.series[0].shares == ((0.6, pytest.approx(0.3)),)
    assert second.series[0].shares == ()


def test_a_loss_is_the_distance_from_the_ideal():
    (plot,) = plotted("points")
    assert plot.series[0].points[0].loss == pytest.approx(1.0 - 0.2)


def test_what_was_not_computed_is_left_out():
    (plot,) = plotted("words")
    assert [point.tick for point in plot.series[0].points] == [1.0]
    assert plotted("lines", dataset=audited().sel(mechanism=[])) == []


def test_curves_and_heatmaps_of_traits():
    figures = [
        {"item": "Figure 4", "of": "frequency", "along": "epoch",
         "at": {"comparison": 0, "epoch": "all"}, "ticks": ["Mon", "Tue"],
         "series": {"top": {"who": "top"}, "bottom": {"who": "bottom"}}},
        {"item": "Figure 3", "kind": "cells", "of": "loading", "at": {"view": 0}},
    ]  # fmt: skip
    curve, *cells = plot_figures(study(figures=figures), Results({"traits": make_traits()}))
    assert len(curve.series[0].points) == 24
    assert len(cells) == 4
    for plot in (curve, *cells):
        draw(plot)


def test_studies_share_a_panel():
    (plot,) = plotted("lines")
    merged = plot.merge(plot)
    assert merged.names == plot.names
    assert len(merged.series[0].points) == 4


def test_every_kind_is_saved_as_a_vector_graphic(tmp_path):
    reports = [told(plotted(*KINDS, published=[published()]))]
    saved = [one.save(str(tmp_path / f"{one.slug}.svg")) for one in draw_figures(reports)]
    assert len(set(saved)) == len(KINDS) + 1  # one has two panels
    text = (tmp_path / "ndss18-figure-1-1.svg").read_text()
    for word in ("group size m", "AUC", "noise", "printed in the paper"):
        assert word in text


def test_labels_that_the_plan_lacks_are_faults():
    wrong = {"item": "Figure 1", **NOISE, "ticks": [10, 1000]}
    assert any("1000" in fault for fault in find_faults(study(figures=[wrong])))
    wrong = {"item": "Figure 1", **KINDS["points"], "measure": "hotspots"}
    assert any("hotspots" in fault for fault in find_faults(study(figures=[wrong])))


@for_each(
    ("fields", "message"),
    [
        ({}, "along is needed, but not with cumulative or cells"),
        ({"kind": "cells", "along": "roi"}, "along is needed, but not with"),
        ({"along": "mechanism"}, "mechanism '{}' needs ticks"),
        ({"along": "mechanism", "ticks": [1], "measure": "pearson"}, "only these, need a measure"),
    ],
)
def test_what_cannot_be_drawn_is_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        PaperFigure.model_validate({"item": "Figure 1", **fields})
