"""Studies of POMACS20 have the numbers that its oracle has, and every figure and table."""

from collections import Counter

import pytest
from loops import for_each
from oracles.pomacs20 import IMPORTANCE, RANDOM_GUESS, TABLES, UNIQUE_HOURS

from clusterscale import mechanisms
from clusterscale.config import find_studies, load_study

pytestmark = pytest.mark.slow  # reading the studies takes seconds

STUDIES = {name: load_study(path) for name, path in find_studies(["pomacs20"]).items()}
CABS = [study for study in STUDIES.values() if study.is_real]
MEASURES = (
    "mean_relative_error(floor=0.1)",
    "busiest_relative_error(floor=0.1)",
    "hotspot_f1",
    "hotspot_tau_listwise",
    "jensen_shannon_distance",
    "pearson",
)


def fourier(epsilon):
    return {
        "name": "fourier",
        "epsilon": epsilon,
        "coefficients": 20,
        "clip": True,
        "integers": "round",
    }


def noise(below):
    return {"name": "perturb_small", "below": below, "epsilon": 0.1}


def sampled(remove, then):
    return {"name": "chain", "steps": [{"name": "sample_events", "remove": remove}, then]}


SETTINGS = {
    6: lambda side: {"name": "coarsen_space", "factor": 10 // side},
    8: lambda hours: {"name": "coarsen_time", "factor": hours},
    10: lambda size: {"name": "fixed_ranges", "size": size},
    12: lambda ranges: {"name": "adaptive_ranges", "ranges": ranges},
    14: lambda below: {"name": "suppress_small", "below": below},
    16: lambda fraction: {"name": "suppress_unpopular", "fraction": fraction},
    18: lambda remove: {"name": "sample_events", "remove": remove},
    20: noise,
    22: fourier,
    24: lambda remove: sampled(remove, noise(20)),
    26: lambda remove: sampled(remove, fourier(10.0)),
}


def label(table, value):
    return mechanisms.create(**SETTINGS[table](value)).label


def figures(item, studies=CABS):
    """Return all numbers that are published of a figure or table."""
    return [
        figure
        for study in studies
        for published in study.published
        if published.item == item
        for figure in published.figures()
    ]


def by_mechanism(item):
    """Return the numbers of a table by mechanism and measure; none is listed twice."""
    keys = [
        (each.selection.at["mechanism"], each.selection.at["measure"]) for each in figures(item)
    ]
    assert max(Counter(keys).values()) == 1
    return dict(zip(keys, (each.value for each in figures(item)), strict=True))


@for_each("table", TABLES)
def test_tables_of_the_cabs_are_those_of_the_oracle(table):
    found = by_mechanism(f"Table {table}")
    wanted = {
        (label(table, value), measure): number
        for value, row in TABLES[table].items()
        for measure, number in zip(MEASURES, row, strict=True)
    }
    assert found == wanted


def test_a_guess_is_that_of_the_oracle():
    found = {each.selection.at["measure"]: each.value for each in figures("Table 4")}
    assert found == dict(zip(MEASURES, RANDOM_GUESS, strict=True))
    assert {each.selection.of for each in figures("Table 4")} == {"random_guess"}


@pytest.mark.parametrize(("study", "column"), [("known-subset-tfl", 0), ("known-subset-cabs", 1)])
def test_importances_are_those_of_the_oracle(study, column):
    found = {
        each.selection.at["characteristic"]: each.value
        for each in figures("Table 2", [STUDIES[f"pomacs20/{study}"]])
        if each.selection.of == "forest_importance"
    }
    assert found == {name: row[column] for name, row in IMPORTANCE.items()}


def test_unique_hours_are_told_as_shares_of_the_week():
    found = {
        each.selection.of: each.value
        for each in figures("Table 2", [STUDIES["pomacs20/known-subset-cabs"]])
    }
    (top, top_sd), (bottom, bottom_sd) = UNIQUE_HOURS
    hours = {"top_mean": top, "top_sd": top_sd, "bottom_mean": bottom, "bottom_sd": bottom_sd}
    for name, number in hours.items():
        assert found[name] == pytest.approx(number / 168, abs=0.0005), name


def test_columns_of_commuters_stand_where_those_of_cabs_do():
    """Heads are shuffled in some tables: errors of the busiest are small, F1 above τ, and so on."""
    studies = [study for study in STUDIES.values() if study.cube == "tfl"]
    for table in range(5, 26, 2):
        rows: dict[str, dict[str, float]] = {}
        for each in figures(f"Table {table}", studies):
            row = rows.setdefault(each.selection.at["mechanism"], {})
            row[each.selection.at["measure"]] = each.value
        for row in rows.values():
            assert set(row) == set(MEASURES)
            assert row["hotspot_f1"] >= row["hotspot_tau_listwise"]
        blurred = sorted(rows.values(), key=lambda row: row["hotspot_f1"])
        assert blurred[0]["pearson"] <= blurred[-1]["pearson"]
        assert blurred[0]["jensen_shannon_distance"] >= blurred[-1]["jensen_shannon_distance"]


def test_every_figure_and_table_of_the_experiments_is_named():
    named = {item for study in STUDIES.values() for item in study.items()}
    parted = {1: "ab", 4: "ab", 5: "ab", 6: "ab", 7: "abcd", 8: "abcd", 9: "ab", 10: "ab"}
    wanted = {f"Figure {number}{part}" for number, parts in parted.items() for part in parts}
    wanted |= {"Figure 2", "Figure 3"} | {f"Table {number}" for number in range(2, 27)}
    assert wanted - named == set()


@for_each("name", [name for name, study in STUDIES.items() if study.is_real])
def test_gains_and_losses_are_of_the_groups_of_the_paper(name):
    plan = STUDIES[name].audit
    if "utility" in name or "gains" in name:
        assert plan.group_sizes == (250,)
        assert [each.alpha for each in plan.priors] == [0.5]
        # Counts have a null ROI, as the paper's do, but where sampled ones stand beside them.
        assert plan.null_roi != any("sample_" in str(each) for each in plan.mechanisms)
        assert [period.spans for period in plan.periods] == [((0, 168),)]
