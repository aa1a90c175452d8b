"""A table opens what follows since it was published: of earlier tables, and of its own."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clusterscale.errors import ConfigError
from clusterscale.reauditing.together import SeriesTables, overlap_last
from clusterscale.release.checks.opened import find_opened
from clusterscale.release.publication import Publication

BEGIN = 1772409600  # 2026-03-02T00:00Z
HIDES = {"name": "threshold", "k": 5, "shown": "hidden"}
HIDES_MORE = {"name": "threshold", "k": 16, "shown": "hidden"}
FIRST = "A 0 50\nA 1 61\nB 0 *\nB 1 40"


def opened(folder, tables, begins=None, **margins):
    """Write tables, each a name, a mechanism, lines ``zone hour value`` and other settings."""
    entries = []
    for name, mechanism, text, *settings in tables:
        rows = [line.split() for line in text.splitlines()]
        lines = [f"{zone},2026-03-02T{int(hour):02}:00Z,{n}" for zone, hour, n in rows]
        (folder / f"{name}.csv").write_text("\n".join(["zone,time,people", *lines]) + "\n")
        entries.append(
            {"counts": f"{folder}/{name}.csv", "name": name, "mechanism": mechanism}
            | dict(*settings)
        )
    plan = Publication.model_validate(
        {
            "tables": entries,
            "format": {"name": "long", "place": "zone", "count": "people"},
            "group_size": 500,
        }
        | margins
    )
    return find_opened(plan, begins or [(0, BEGIN)] * len(entries))


def test_a_difference_of_few_people_is_opened_by_the_second_table(tmp_path):
    tables = [
        ("all", HIDES_MORE, FIRST),
        ("residents", HIDES_MORE, "A 0 45\nA 1 40\nB 0 *\nB 1 20", {"subset_of": ["all"]}),
    ]
    result, texts = opened(tmp_path, tables)
    assert result.level == "inconsistent"
    assert result.text == "release residents opened 1 count of earlier tables and 0 of its own"
    (text,) = texts
    assert text.startswith("all: the difference of A at 2026-03-02 00:00 is 5: ")
    assert "all shows 50, residents shows 45" in text


def test_what_was_open_before_is_not_opened_again(tmp_path):
    first = ("first", HIDES, "A 0 *\nA 1 30\nB 0 *\nB 1 40")
    revised = ("revised", {"name": "exact"}, "A 0 3\nA 1 30\nC 0 9\nC 1 9")
    again = ("again", {"name": "exact"}, "A 0 3\nA 1 30")
    result, texts = opened(tmp_path, [first, revised])
    assert (result.level, result.measured) == ("inconsistent", 1)
    assert texts == ["first: A at 2026-03-02 00:00 is 3: revised shows 3"]
    result, texts = opened(tmp_path, [first, revised, again])
    assert (result.level, result.measured, texts) == ("consistent", 0, [])
    result, texts = opened(tmp_path, [revised, first])
    assert "opened 0 counts of earlier tables and 1 of its own" in result.text


def test_what_follows_only_if_sums_are_of_shown_cells_is_not_decided(tmp_path):
    form = {"name": "long", "place": "zone", "count": "people"}
    form |= {"total": "Total", "secondary": ["D"]}
    shown = "A 0 *\nB 0 12\nTotal 0 12\nA 1 *\nB 1 9\nTotal 1 9\nA 2 *\nB 2 D\nTotal 2 9"
    tables = [
        ("all", HIDES, "B 0 22\nB 1 19\nB 2 12"),
        ("women", HIDES, shown, {"parts_of": "all", "format": form}),
        ("men", HIDES, "B 0 10\nB 1 10\nB 2 *", {"parts_of": "all"}),
    ]
    result, texts = opened(tmp_path, tables, within=0)
    assert (result.level, texts) == ("unknown", [])
    assert "if 3 sums are of shown cells only, 1 cell follows: B at" in result.text


def test_noise_takes_no_part_and_is_named(tmp_path):
    noisy = ("noisy", {"name": "laplace", "epsilon": 1.0, "unit": "event"}, "A 0 3.5\nA 1 30.25")
    result, texts = opened(tmp_path, [("first", HIDES, FIRST), noisy])
    assert (result.level, texts) == ("unknown", [])
    assert "values of noisy do not determine counts, and take no part" in result.text


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ("C 0 50\nC 1 61", "none of its counts is related"),
        ("007 0 50\n007 1 61", "none of its counts is related"),
        ("A 0 50\nA 1 61\n7 0 9\n7 1 9", "written in several ways"),
    ],
)
def test_other_names_of_places_are_inconclusive(tmp_path, places, told):
    first = f"{FIRST}\n007 0 *\n007 1 9" if places.startswith("A") else FIRST
    result, _ = opened(tmp_path, [("first", HIDES, first), ("second", HIDES, places)])
    assert result.level == "unknown"
    assert told in result.text


def test_another_time_than_that_of_the_release_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="first: its first time is not that of the release"):
        opened(tmp_path, [("first", HIDES, FIRST)], [(0, BEGIN + 3600)])


def test_who_contradicts_is_the_one_that_made_it(tmp_path):
    one, two = ("one", HIDES, FIRST), ("two", HIDES, FIRST.replace("50", "51"))
    result, (text,) = opened(tmp_path, [one, two])
    assert result.level == "inconsistent"
    assert result.text == "no counts fit all tables up to release two"
    assert "A at 2026-03-02 00:00" in text
    assert "51" in text
    result, _ = opened(tmp_path, [one, two, ("three", HIDES, "B 0 *\nB 1 40")])
    assert result.level == "unknown"
    assert result.text == "no counts fit all tables before release three"


def test_counts_known_too_well_are_inconsistent_only_within_a_margin_that_is_declared(tmp_path):
    parts = {"parent_columns": []}
    tables = [("one", HIDES, "A 0 *\nA 1 30"), ("two", HIDES | {"k": 3}, "A 0 *\nA 1 30", parts)]
    result, texts = opened(tmp_path, tables)
    assert result.level == "unknown"
    assert len(texts) == 1
    result, _ = opened(tmp_path, tables, within=1)
    assert (result.level, result.measured) == ("inconsistent", 1)


@example([(0, 2), (8, 2), (1, 4), (3, 3)])
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), min_size=1, max_size=8))
def test_spans_are_near_if_others_lead_to_them(sizes):
    spans = [(first, first + n) for first, n in sizes]
    near = {len(spans) - 1}
    for _ in spans:
        near |= {
            i
            for i, (first, stop) in enumerate(spans)
            if any(first < spans[j][1] and spans[j][0] < stop for j in near)
        }
    assert [i for i, is_near in enumerate(overlap_last(spans)) if is_near] == sorted(near)


def test_only_margins_that_are_set_are_declared():
    assert SeriesTables().digest != SeriesTables(within=1).digest
