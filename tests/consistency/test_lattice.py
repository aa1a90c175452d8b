"""Tables are related through places, times and categories, also where nobody publishes a total."""

import pytest

from clusterscale.api import check, repair_tables
from clusterscale.errors import ClusterscaleError
from clusterscale.release.tilings import tilings

HEAD = """
format: {name: long, place: zone, count: people, step: 1h}
mechanism: {name: threshold, k: 5, shown: hidden}
group_size: 500
"""
AT = "at 2026-03-02 08:00"


def publish(folder, tables, head=HEAD, **files):
    """Write tables, each a text of lines ``zone hour value …``, and a publication of them."""
    for name, text in files.items():
        rows = [line.split() for line in text.strip().splitlines()]
        columns = rows.pop(0)[2:] if rows[0][0] == "zone" else ["people"]
        lines = [
            ",".join([zone, hour if hour == "Total" else f"2026-03-02T{hour}:00Z", *rest])
            for zone, hour, *rest in rows
        ]
        text = "\n".join([",".join(["zone", "time", *columns]), *lines, ""])
        (folder / f"{name}.csv").write_text(text)
    entries = "\n".join(f"  - {line.strip()}" for line in tables.strip().splitlines())
    (folder / "p.yaml").write_text(f"{head}tables:\n{entries}\n".replace("FOLDER", str(folder)))
    return check([str(folder / "p.yaml")])[0]


def told(found):
    return {
        cell.text.split(":00 is ")[0] + ":00": (cell.low, cell.high) for cell in found.open_cells
    }


DISTRICTS_BY_SEX = "zone hour people sex\nES11 08 11 F\nES11 08 * M\nES12 08 6 F\nES12 08 7 M"


def test_a_region_gives_districts_by_sex_away_that_have_no_total(tmp_path):
    tables = "{counts: FOLDER/r.csv}\n{counts: FOLDER/d.csv, strata: {sex: null}, parents: codes}"
    found = publish(tmp_path, tables, r="ES1 08 25", d=DISTRICTS_BY_SEX)
    assert (found.verdict, told(found)) == ("fail", {f"ES11 (sex M) {AT}": (1, 1)})
    repair_tables(str(tmp_path / "p.yaml"), str(tmp_path / "fixed"))
    assert check([str(tmp_path / "fixed/publication.yaml")])[0].verdict == "pass"


def test_two_tables_with_unlike_categories_are_related_by_totals_that_nobody_publishes(tmp_path):
    """Women and men are as many as children and adults, whose one hidden count is then known."""
    tables = (
        "{counts: FOLDER/s.csv, strata: {sex: null}}\n{counts: FOLDER/a.csv, strata: {age: null}}"
    )
    found = publish(
        tmp_path, tables,
        s="zone hour people sex\nA 08 20 F\nA 08 13 M",
        a="zone hour people age\nA 08 31 adult\nA 08 * child",
    )  # fmt: skip
    assert told(found) == {f"A (age child) {AT}": (2, 2)}


def test_three_tables_of_which_each_two_fit_are_bounded_by_the_counts_they_divide(tmp_path):
    """Of districts by sex, districts by age, and their region by both, all cells must fit.

    Each pair of tables leaves 4 to 6 children in D1.
    """
    tables = """
{counts: FOLDER/s.csv, strata: {sex: null}, parents: codes, mechanism: exact}
{counts: FOLDER/a.csv, strata: {age: null}, parents: codes}
{counts: FOLDER/r.csv, strata: {sex: null, age: null}, mechanism: exact}
"""
    found = publish(
        tmp_path, tables,
        # Women: 10 children and no adult; men: no child and 10 adults. So women are the children.
        r="zone hour people sex age\nD 08 10 F child\nD 08 0 F adult\n"
        "D 08 0 M child\nD 08 10 M adult",
        s="zone hour people sex\nD1 08 6 F\nD1 08 4 M\nD2 08 4 F\nD2 08 6 M",
        a="zone hour people age\nD1 08 * child\nD1 08 * adult\nD2 08 * child\nD2 08 * adult",
        head=HEAD.replace("k: 5", "k: 7"),
    )  # fmt: skip
    assert told(found)[f"D1 (age child) {AT}"] == (6, 6)


KINDS = "place,parent\nES11,urban\nES12,rural\nES21,urban\n"


def test_kinds_and_regions_by_sex_are_related_by_the_places_they_both_divide(tmp_path):
    """Nobody publishes districts by sex, of which both are made: 25 men, 21 of them urban."""
    (tmp_path / "kinds.csv").write_text(KINDS)
    (tmp_path / "regions.csv").write_text("place,parent\nES11,ES1\nES12,ES1\nES21,ES2\n")
    tables = """
{counts: FOLDER/d.csv, parents: [FOLDER/kinds.csv, FOLDER/regions.csv]}
{counts: FOLDER/k.csv, strata: {sex: null}}
{counts: FOLDER/r.csv, strata: {sex: null}}
"""
    found = publish(
        tmp_path, tables,
        d="ES11 08 R\nES12 08 R\nES21 08 R",
        k="zone hour people sex\nurban 08 30 F\nurban 08 21 M\nrural 08 9 F\nrural 08 * M",
        r="zone hour people sex\nES1 08 20 F\nES1 08 15 M\nES2 08 19 F\nES2 08 10 M",
        head=HEAD.replace("count: people,", "count: people, secondary: [R],"),
    )  # fmt: skip
    assert told(found) == {f"rural (sex M) {AT}": (4, 4)}


def test_what_a_place_is_part_of_is_followed_from_one_file_to_the_next(tmp_path):
    """Districts by sex are parts of the country, though regions are published without it."""
    (tmp_path / "up.csv").write_text("place,parent\nD1,R1\nD2,R1\n")
    (tmp_path / "top.csv").write_text("place,parent\nR1,TOP\n")
    tables = """
{counts: FOLDER/d.csv, strata: {sex: null}, parents: FOLDER/up.csv}
{counts: FOLDER/r.csv, parents: FOLDER/top.csv}
{counts: FOLDER/c.csv, strata: {sex: null}}
"""
    found = publish(
        tmp_path, tables,
        d="zone hour people sex\nD1 08 11 F\nD1 08 * M\nD2 08 6 F\nD2 08 7 M",
        r="R1 08 R",
        c="zone hour people sex\nTOP 08 17 F\nTOP 08 9 M",
        head=HEAD.replace("count: people,", "count: people, secondary: [R],"),
    )  # fmt: skip
    assert told(found)[f"D1 (sex M) {AT}"] == (2, 2)


def test_all_parts_of_people_are_related_where_only_their_whole_is_known(tmp_path):
    """Visitors by sex are published of the region, all and residents by sex of its district."""
    tables = """
{counts: FOLDER/all.csv, strata: {sex: null}, parents: codes}
{counts: FOLDER/res.csv, strata: {sex: null}, people: residents, parts_of: all.csv, parents: codes}
{counts: FOLDER/vis.csv, strata: {sex: null}, people: visitors, parts_of: all.csv}
"""
    found = publish(
        tmp_path, tables,
        all="zone hour people sex\nES11 08 17 F\nES11 08 19 M",
        res="zone hour people sex\nES11 08 10 F\nES11 08 * M",
        vis="zone hour people sex\nES1 08 7 F\nES1 08 16 M",
    )  # fmt: skip
    assert told(found)[f"ES11 (sex M) {AT}"] == (3, 3)


def test_a_part_of_people_that_nobody_publishes_is_a_difference(tmp_path):
    """One visitor is in the region: of visitors, only districts are published, and are hidden."""
    tables = """
{counts: FOLDER/all.csv, parents: codes}
{counts: FOLDER/res.csv, people: residents, parts_of: all.csv, parents: codes}
{counts: FOLDER/vis.csv, people: visitors, parts_of: all.csv, parents: codes%s}
"""
    counts = {"all": "ES1 08 21", "res": "ES1 08 20", "vis": "ES11 08 *\nES12 08 *"}
    found = publish(tmp_path, tables % "", **counts)
    assert any(c.rest and (c.low, c.high) == (1, 1) for c in found.open_cells)
    exact = tables % ", mechanism: exact"
    found = publish(tmp_path, exact, **counts | {"vis": "ES11 08 1\nES12 08 0"})
    assert not found.open_cells  # it is published


def test_a_category_without_rows_for_some_places_is_said(tmp_path):
    """A misspelt total leaves the hidden count of one place without its relation."""
    rows = "zone hour people sex\nA 08 20 F\nA 08 * M\nA 08 23 _T\nB 08 20 F\nB 08 * M\nB 08 23 T"
    found = publish(tmp_path, "{counts: FOLDER/t.csv, strata: {sex: _T}}", t=rows)
    assert found.verdict == "warn"
    assert "T of sex in t.csv has no row for A" in found.undecided[0].text


def test_epochs_that_cross_are_related_by_those_that_both_fill(tmp_path):
    format_ = "format: {name: long, place: zone, count: people, step: %dh}"
    tables = (
        f"{{counts: FOLDER/two.csv, {format_ % 2}}}\n{{counts: FOLDER/three.csv, {format_ % 3}}}"
    )
    found = publish(tmp_path, tables, HEAD, two="A 06 9\nA 08 12\nA 10 *", three="A 06 13\nA 09 11")
    assert told(found) == {"A at 2026-03-02 10:00": (3, 3)}
    assert list(tilings([(0, 2), (0, 3), (0, 6), (2, 4), (3, 6), (4, 6)])) == [
        (2, [1, 4]), (2, [0, 3, 5]),
    ]  # fmt: skip


def test_persons_are_bounded_by_each_way_to_add_up(tmp_path):
    """Of each sex, at least as many are in a region as in any of its districts: 12 + 9 = 21."""
    tables = """
{counts: FOLDER/r.csv, measure: persons}
{counts: FOLDER/d.csv, measure: persons, strata: {sex: null}, parents: codes}
"""
    found = publish(
        tmp_path, tables,
        r="D 08 R",
        d="zone hour people sex\nD1 08 12 F\nD1 08 5 M\nD2 08 6 F\nD2 08 9 M",
        head=HEAD.replace("count: people,", "count: people, secondary: [R],") + "within: 1000\n",
    )  # fmt: skip
    assert found.verdict == "pass"  # what protects others is no finding
    found = publish(tmp_path, tables, r="D 08 20")
    assert "no counts fit" in found.results[0].text  # max(12, 6) + max(5, 9) = 21


def test_hidden_zeros_follow_unless_they_are_declared_unprotected(tmp_path):
    tables = "{counts: FOLDER/s.csv, strata: {sex: _T}}"
    rows = "zone hour people sex\nA 08 12 _T\nA 08 12 F\nA 08 * M\nB 08 30 _T\nB 08 18 F\nB 08 12 M"
    found = publish(tmp_path, tables, s=rows)
    assert (found.verdict, told(found)) == ("fail", {f"A (sex M) {AT}": (0, 0)})
    assert found.results[0].text.endswith("0 count 1 to 4 people, 1 is 0")
    repair_tables(str(tmp_path / "p.yaml"), str(tmp_path / "fixed"))
    assert check([str(tmp_path / "fixed/publication.yaml")])[0].verdict == "pass"
    found = publish(tmp_path, tables, head=HEAD + "zeros: unprotected\n", s=rows)
    assert (found.verdict, told(found)) == ("pass", {})
    assert found.notes == ("zeros are declared unprotected: 1 hidden cell must be 0",)


def test_what_follows_without_values_that_contradict_is_told(tmp_path):
    """Over sexes B's total counts what is shown; over places all: 43 − 23 − 17 = 3 men."""
    found = publish(
        tmp_path, "{counts: FOLDER/t.csv, strata: {sex: _T}}",
        head=HEAD.replace("count: people", "count: people, total: All"),
        t="zone hour people sex\nA 08 43 _T\nA 08 20 F\nA 08 23 M\n"
        "B 08 11 _T\nB 08 11 F\nB 08 * M\nC 08 33 _T\nC 08 16 F\nC 08 17 M\n"
        "All 08 90 _T\nAll 08 47 F\nAll 08 43 M",
    )  # fmt: skip
    assert found.verdict == "fail"
    assert sum("no counts fit" in one.text for one in found.results) == 2
    assert [(one.low, one.high) for one in found.open_cells] == [(0, 0), (3, 3)]


def test_subtotals_in_the_column_of_places_are_not_added_twice(tmp_path):
    found = publish(
        tmp_path, "{counts: FOLDER/t.csv, parents: codes}",
        head=HEAD.replace("count: people", "count: people, total: Total"),
        t="A 08 20\nA1 08 12\nA2 08 8\nB 08 9\nB1 08 9\nB2 08 *\nTotal 08 29",
    )  # fmt: skip
    assert (found.verdict, told(found)) == ("fail", {f"B2 {AT}": (0, 0)})


def test_places_of_unequal_depth_add_up_at_each_level(tmp_path):
    """Districts of a region, of which only one is divided once more, are all in its sum."""
    (tmp_path / "of.csv").write_text("place,parent\nd1,R\nd2,R\nS,R\nd3,S\nd4,S\n")
    tables = """
{counts: FOLDER/r.csv}
{counts: FOLDER/s.csv, complete: false}
{counts: FOLDER/d.csv, parents: [FOLDER/of.csv]}
"""
    found = publish(
        tmp_path, tables, r="R 08 40", s="S 08 *", d="d1 08 13\nd2 08 9\nd3 08 16\nd4 08 *"
    )
    assert told(found) == {f"d4 {AT}": (2, 2)}


RELATED = {"r": "ES2 08 14\nES3 08 *", "d": "ES21 08 11\nES22 08 *\nES30 08 *"}


@pytest.mark.parametrize(
    ("tables", "files", "names"),
    [
        ("{counts: FOLDER/r.csv}\n{counts: FOLDER/d.csv, parents: [FOLDER/of.csv]}", {},
         ["ES21, ES22 in d.csv are part of no place", "ES2 in r.csv has no parts in d.csv"]),
        ("{counts: FOLDER/r.csv}\n{counts: FOLDER/d.csv, parents: codes}",
         {"r": "es2 08 14\nES3 08 *"}, ["only their spelling differs: 'ES2' and 'es2'"]),
        ("{counts: FOLDER/r.csv}\n{counts: FOLDER/d.csv, parents: codes}",
         {"r": "ES2\u200b 08 14\nES3 08 *"}, [r"'ES2' and 'ES2\u200b'"]),
        ("{counts: FOLDER/r.csv}\n{counts: FOLDER/d.csv, parents: codes, people: residents}", {},
         ["r.csv is related to no other table", "ES21, ES22, ES30 in d.csv are part of no place"]),
        ("{counts: FOLDER/r.csv}\n{counts: FOLDER/d.csv, parents: codes, measure: trips}", {},
         ["d.csv is related to no other table"]),
        ("{counts: FOLDER/r.csv}\n{counts: FOLDER/d.csv, parents: codes}",
         {"r": "ES2 11 14\nES3 11 *"}, ["d.csv is related to no other table"]),
        ("{counts: FOLDER/r.csv}\n{counts: FOLDER/d.csv}", {}, ["d.csv is related to no other"]),
        ("{counts: FOLDER/r.csv}\n{counts: FOLDER/d.csv, subset_of: r.csv}", {},
         ["subset of r.csv of d.csv relates nothing"]),
        ("{counts: FOLDER/d.csv}", {}, ["nothing in d.csv is related"]),
        ("{counts: FOLDER/s.csv, strata: {sex: null}}\n{counts: FOLDER/t.csv, strata: {sex: null}}",
         {"s": "zone hour people sex\nA 08 20 F\nA 08 * M",
          "t": "zone hour people sex\nA 08 20 f\nA 08 * M"},
         ["categories of sex in s.csv and t.csv differ in F, f"]),
    ],
)  # fmt: skip
def test_what_relates_nothing_is_said_and_is_not_consistent(tmp_path, tables, files, names):
    (tmp_path / "of.csv").write_text("place,parent\nES21,ES02\nES22,ES02\nES30,ES3\n")
    found = publish(tmp_path, tables, **{**RELATED, **files})
    assert found.verdict == "warn"
    for name in names:
        assert name in found.omitted


def test_a_table_may_be_declared_to_stand_alone(tmp_path):
    found = publish(tmp_path, "{counts: FOLDER/d.csv, alone: true}", d=RELATED["d"])
    assert (found.verdict, found.omitted) == ("pass", "")


@pytest.mark.parametrize(
    ("one", "two", "is_said"),
    [
        ("residents", "resident", True),
        ("Residents", "residents", True),
        ("residents", "reside\u200bnts", True),
        ("male", "female", False),
        ("group 1", "group 10", False),
    ],
)
def test_people_whose_names_differ_in_a_letter_are_said(tmp_path, one, two, is_said):
    tables = "\n".join(
        f"{{counts: FOLDER/{name}.csv, people: '{people}', alone: true}}"
        for name, people in (("a", one), ("b", two))
    )
    found = publish(tmp_path, tables, a="A 08 20", b="A 08 30")
    assert any("written alike" in why.text for why in found.undecided) == is_said


def test_what_each_relation_related_is_said(tmp_path):
    tables = "{counts: FOLDER/r.csv}\n{counts: FOLDER/d.csv, parents: codes}"
    found = publish(tmp_path, tables, **RELATED)
    assert [one.text for one in found.related] == [
        "d.csv to r.csv by places: 3 of 3 places, 1 of 1 time",
    ]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ("{counts: FOLDER/r.csv, subset_of: d.csv}\n{counts: FOLDER/d.csv, subset_of: r.csv}",
         "subset_of and parts_of leads in a circle: r.csv → d.csv → r.csv"),
        ("{counts: FOLDER/r.csv, people: all, subset_of: all}", "r.csv names its own counts"),
        ("{counts: FOLDER/r.csv, unchanged_from: d.csv}\n"
         "{counts: FOLDER/d.csv, unchanged_from: r.csv}",
         "unchanged_from leads in a circle"),
        ("{counts: FOLDER/r.csv, strata: {zone: null}}", "column zone of r.csv has two roles"),
        ("{counts: FOLDER/r.csv}\n{counts: FOLDER/d.csv, parents: [FOLDER/of.csv]}",
         "a is a part of b is a part of a: a place cannot be a part of itself"),
    ],
)  # fmt: skip
def test_relations_without_an_order_are_refused(tmp_path, tables, message):
    (tmp_path / "of.csv").write_text("place,parent\na,b\nb,a\n")
    with pytest.raises(ClusterscaleError, match=message):
        publish(tmp_path, tables, **RELATED)


def test_a_file_of_parents_in_another_form_is_refused_with_the_form_that_is_read(tmp_path):
    (tmp_path / "nuts.hrc").write_text("12\n@120\n@@1200\n13\n@130\n")
    tables = "{counts: FOLDER/r.csv}\n{counts: FOLDER/d.csv, parents: [FOLDER/nuts.hrc]}"
    with pytest.raises(ClusterscaleError, match="has the columns place and parent, and a row for"):
        publish(tmp_path, tables, **RELATED)


def test_codes_of_any_length_are_names(tmp_path):
    found = publish(
        tmp_path, "{counts: FOLDER/t.csv, parents: codes}",
        t="0123456789abcdef0123456789abcdef 08 14\n10000000000000000 08 *",
    )  # fmt: skip
    assert "are part of no place" in found.omitted


def test_rounded_counts_are_evidence_within_the_reach_of_rounding(tmp_path):
    tables = """
{counts: FOLDER/r.csv, mechanism: exact}
{counts: FOLDER/d.csv, parents: codes, mechanism: {name: round_to_base, base: 3}}
"""
    found = publish(tmp_path, tables, r="ES1 08 4", d="ES11 08 0\nES12 08 0")
    assert told(found) == {f"ES11 {AT}": (2, 2), f"ES12 {AT}": (2, 2)}  # each is 0, 1 or 2
    found = publish(
        tmp_path, tables, head=HEAD + "within: 0\n", r="ES1 08 8", d="ES11 08 3\nES12 08 3"
    )
    assert (found.verdict, found.open_cells) == ("pass", ())  # 3 shows 1 to 5
    tables = tables.replace("exact", "{name: cell_key, deviation: 2, variance: 1.0}")
    tables = tables.replace("{name: round_to_base, base: 3}", "exact")
    found = publish(tmp_path, tables, r="ES1 08 20", d="ES11 08 11\nES12 08 12")
    assert "no counts fit" in found.results[0].text  # 23 is never published as 20


def test_totals_that_are_multiplied_or_rounded_as_values_are_bound_counts(tmp_path):
    """Of 17 men, 7 and 6 are shown; and 2 to 4 and 0 to 1 are 5 only if they are 4 and 1."""
    head = HEAD.replace("count: people,", "count: people, total: Total,")
    rows = "A 08 35.91\nB 08 30.78\nC 08 *\nTotal 08 87.21"
    found = publish(tmp_path, "{counts: FOLDER/t.csv, factor: 5.13}", head, t=rows)
    assert told(found) == {f"C {AT}": (4, 4)}
    rounds = "{counts: FOLDER/t.csv, mechanism: {name: round_to_base, base: 3, rule: nearest}}"
    found = publish(tmp_path, rounds, head, t="A 08 3\nB 08 0\nTotal 08 6")
    assert told(found) == {f"A {AT}": (4, 4), f"B {AT}": (1, 1)}
    keys = "{counts: FOLDER/t.csv, mechanism: {name: cell_key, deviation: 1, variance: 0.5}}"
    found = publish(tmp_path, keys, head, t="A 08 3\nB 08 4\nTotal 08 10")
    assert told(found) == {f"A {AT}": (4, 4), f"B {AT}": (5, 5)}
    found = publish(tmp_path, rounds, head, t="A 08 3\nB 08 0\nTotal 08 3")
    assert told(found) == {}


def test_two_random_roundings_of_the_same_counts_are_evidence_together(tmp_path):
    form = "mechanism: {name: round_to_base, base: 3}"
    tables = f"{{counts: FOLDER/a.csv, {form}}}\n{{counts: FOLDER/b.csv, {form}}}"
    found = publish(
        tmp_path, tables, head=HEAD + "within: 0\n", a="A 08 3\nB 08 3", b="A 08 6\nB 08 3"
    )
    assert found.verdict == "pass"  # A is 4 or 5, B is 1 to 5
    found = publish(tmp_path, tables, a="A 08 3\nB 08 3", b="A 08 9\nB 08 3")
    assert "no counts fit" in found.results[0].text


def test_values_that_are_rounded_before_they_are_added_do_not_contradict(tmp_path):
    """65 − 60 = 5 leaves 0 to 7 women, as the threshold does; 30 beside 15 and 20 is no fault."""
    found = publish(
        tmp_path, "{counts: FOLDER/t.csv, strata: {sex: _T}}",
        head="""
format: {name: long, place: zone, count: people, step: 1h}
mechanism:
  name: chain
  steps: [{name: threshold, k: 8, shown: hidden}, {name: round_to_base, base: 5, rule: nearest}]
group_size: 500
within: 0
""",
        t="zone hour people sex\nA 08 100 _T\nA 08 45 F\nA 08 55 M\n"
        "B 08 65 _T\nB 08 * F\nB 08 60 M\nC 08 30 _T\nC 08 15 F\nC 08 20 M",
    )  # fmt: skip
    assert (found.verdict, found.open_cells) == ("pass", ())


def test_persons_of_the_same_places_are_the_same_persons(tmp_path):
    """A region and the total of its districts are both who was in any of these."""
    tables = """
{counts: FOLDER/d.csv, parents: codes, measure: persons, format: FORM}
{counts: FOLDER/r.csv, measure: persons, mechanism: {name: fixed_ranges, size: 4}}
""".replace("FORM", "{name: long, place: zone, count: people, step: 1h, total: Total}")
    districts = "ES11 08 11\nES12 08 12\nTotal 08 21"
    found = publish(tmp_path, tables, d=districts, r="ES1 08 22")
    assert told(found) == {f"ES1 {AT}": (21, 21)}
    districts = "ES11 08 11\nES12 08 12\nES21 08 14\nTotal 08 21"
    found = publish(tmp_path, tables, d=districts, r="ES1 08 22")
    assert told(found) == {f"ES1 {AT}": (20, 21)}, "at most the total, which others may be in too"


def test_parts_of_people_are_related_where_none_is_published_for_all_of_these(tmp_path):
    """Both women who were in the kind of places are visitors, whose three hours are one count."""
    (tmp_path / "of.csv").write_text("place,parent\nd1,rural\nd2,rural\n")
    tables = """
{counts: FOLDER/k.csv, strata: {sex: null}}
{counts: FOLDER/v.csv, strata: {sex: null}, people: visitors, OF, format: FORM}
{counts: FOLDER/s.csv, strata: {sex: null}, people: residents, OF}
""".replace("OF", "parts_of: k.csv, parents: [FOLDER/of.csv]")
    tables = tables.replace("FORM", "{name: long, place: zone, count: people, step: 2h}")
    found = publish(
        tmp_path, tables, head=HEAD.replace("k: 5", "k: 2"),
        k="zone hour people sex\nrural 08 3 F\nrural 08 9 M\nrural 09 2 F\nrural 09 9 M",
        v="zone hour people sex\nd1 08 5 F\nd1 08 8 M\nd2 08 * F\nd2 08 2 M",
        s="zone hour people sex\nd1 08 * F\nd1 08 2 M\nd2 08 * F\nd2 08 2 M\n"
        "d1 09 * F\nd1 09 2 M\nd2 09 * F\nd2 09 2 M",
    )  # fmt: skip
    zeros = {f"d{i} (sex F) at 2026-03-02 0{hour}:00": (0, 0) for i in (1, 2) for hour in (8, 9)}
    assert zeros.items() <= told(found).items()


def test_hidden_totals_and_those_over_places_and_times_are_cells_like_others(tmp_path):
    """The man at 8, and the total of all people at 8, follow from what both times add up to."""
    head = HEAD.replace("count: people,", "count: people, total: Total,").replace(
        "threshold, k: 5, shown: hidden", "exact"
    )
    hidden = "A 08 *\nA 09 8\nB 08 {b}\nB 09 12\nTotal 08 *\nTotal 09 20\n"
    rows = [*hidden.format(b=10).splitlines(), "A Total *", "B Total 22", "Total Total 33"]
    (tmp_path / "t.csv").write_text("")
    found = publish(tmp_path, "{counts: FOLDER/t.csv}", head, t="\n".join(rows))
    both = "at 2026-03-02 08:00 to 2026-03-02 10:00"
    expected = {f"A {AT}": (3, 3), f"A {both}": (11, 11), f"Total {AT}": (13, 13)}
    assert (found.verdict, told(found)) == ("fail", expected)
    rows = [*hidden.format(b="*").splitlines(), "Total Total 23"]
    found = publish(tmp_path, "{counts: FOLDER/t.csv}", head, t="\n".join(rows))
    assert (found.verdict, told(found)) == ("fail", {f"Total {AT}": (3, 3)})
    by_sex = (
        "zone hour people sex\nA 08 12 _T\nA 08 10 F\nA 08 * M\nB 08 31 _T\nB 08 30 F\nB 08 * M"
    )
    hidden = by_sex.replace("12 _T", "* _T").replace("31 _T", "* _T")
    totals = "\nTotal 08 43 _T\nTotal 08 40 F\nTotal 08 * M"
    entry = "{counts: FOLDER/t.csv, strata: {sex: _T}}"
    found = publish(tmp_path, entry, head, t=hidden + totals)
    assert (found.verdict, told(found)) == ("fail", {f"Total (sex M) {AT}": (3, 3)})


def test_a_grand_total_that_is_the_sum_of_shown_values_is_a_doubt_unless_all_hidden_count_some(
    tmp_path,
):
    head = HEAD.replace("count: people,", "count: people, total: Total,")
    rows = "A 08 *\nA 09 8\nB 08 10\nB 09 12\nTotal Total 30"
    found = publish(tmp_path, "{counts: FOLDER/t.csv, alone: true}", head, t=rows)
    assert (found.verdict, found.open_cells) == ("warn", ())
    assert "1 total of t.csv equals the sum of shown values" in found.omitted
    labels = head.replace("shown: hidden", "shown: label")
    assert (
        publish(tmp_path, "{counts: FOLDER/t.csv, alone: true}", labels, t=rows).verdict == "pass"
    )


def test_repair_protects_hidden_counts_from_totals_over_places_and_times(tmp_path):
    head = HEAD.replace("count: people,", "count: people, total: Total,")
    rows = "A 08 *\nA 09 8\nB 08 10\nB 09 12\nC 08 11\nC 09 9\nTotal Total 53"
    publish(tmp_path, "{counts: FOLDER/t.csv, alone: true}", head, t=rows)
    repair_tables(str(tmp_path / "p.yaml"), str(tmp_path / "fixed"))
    assert check([str(tmp_path / "fixed/publication.yaml")])[0].verdict == "pass"


def test_a_category_without_a_row_is_hidden_where_rows_are_absent_that_hide(tmp_path):
    """One person in A is not a woman, and may be a man, who has a row elsewhere."""
    head = HEAD.replace("step: 1h", "step: 1h, absent: hidden")
    rows = "zone hour people sex\nA 08 10 _T\nA 08 9 F\nB 08 20 _T\nB 08 11 F\nB 08 9 M"
    found = publish(tmp_path, "{counts: FOLDER/t.csv, strata: {sex: _T}}", head, t=rows)
    assert (found.verdict, told(found)) == ("warn", {f"A (sex M) {AT}": (0, 1)})


@pytest.mark.parametrize("total", ["Total", "Insgesamt", "all"])
def test_places_and_categories_named_like_totals_are_doubts_until_they_are_declared(
    total, tmp_path
):
    rows, entry = f"A 08 *\nB 08 20\nC 08 12\n{total} 08 35", "{counts: FOLDER/t.csv, alone: true}"
    publish(tmp_path, entry, t=rows)
    findings = check([str(tmp_path / "p.yaml")])
    assert findings[1].verdict == "warn"
    assert f"'{total}' is read as a place: set `total: {total}`" in findings[1].omitted
    declared = HEAD.replace("step: 1h", "step: 1h, total: null")
    publish(tmp_path, entry, declared, t=rows)
    assert check([str(tmp_path / "p.yaml")])[1].verdict == "pass"
    rows = f"zone hour people sex\nA 08 30 {total}\nA 08 20 F\nA 08 * M"
    entry = "{counts: FOLDER/t.csv, alone: true, strata: {sex: null}}"
    assert "if it is the total" in publish(tmp_path, entry, t=rows).omitted


def test_all_trips_of_an_hour_are_both_margins_beside_trips_of_two_hours(tmp_path):
    form = "{name: long, count: people, step: 2h, origin: from, destination: to}"
    rows = [f"{a},{b},2026-03-02T08:00Z,*" for a in "AB" for b in "AB"]
    (tmp_path / "od.csv").write_text("\n".join(["from,to,time,people", *rows, ""]))
    tables = f"""
{{counts: FOLDER/od.csv, measure: trips, format: {form}}}
{{counts: FOLDER/out.csv, measure: trips, margins_of: {{od.csv: origin}}}}
{{counts: FOLDER/into.csv, measure: trips, margins_of: {{od.csv: destination}}}}
"""
    found = publish(
        tmp_path, tables, HEAD + "within: 0\n",
        out="A 08 2\nA 09 *\nB 08 0\nB 09 7", into="A 08 1\nA 09 6\nB 08 1\nB 09 5",
    )  # fmt: skip
    assert told(found)["A at 2026-03-02 09:00"] == (4, 4)


def test_persons_in_a_region_are_at_most_those_in_all_kinds_of_its_places(tmp_path):
    """Of 9 persons, 6 were in rural places, and so 3 or 4 in urban ones."""
    (tmp_path / "kind_of.csv").write_text("place,parent\nES11,rural\nES12,urban\n")
    tables = """
{counts: FOLDER/d.csv, measure: persons, parents: [codes, FOLDER/kind_of.csv], mechanism: RULE}
{counts: FOLDER/r.csv, measure: persons}
{counts: FOLDER/k.csv, measure: persons}
""".replace("RULE", "{name: threshold, k: 20, shown: hidden}")
    found = publish(
        tmp_path, tables, d="ES11 08 *\nES12 08 *", r="ES1 08 9", k="rural 08 6\nurban 08 *"
    )
    assert told(found)[f"urban {AT}"] == (3, 4)
    tables = """
{counts: FOLDER/d.csv, measure: persons, parents: codes, format: FORM}
{counts: FOLDER/r.csv, measure: persons}
""".replace("FORM", "{name: long, place: zone, count: people, step: 1h, total: Total}")
    districts = "ES11 08 *\nES12 08 *\nES21 08 *\nTotal 08 20"
    found = publish(tmp_path, tables, d=districts, r="ES1 08 16\nES2 08 *")
    assert told(found)[f"ES2 {AT}"] == (4, 4)


def test_decimals_of_totals_say_that_values_are_not_rounded(tmp_path):
    head = HEAD.replace("count: people,", "count: people, total: Total,")
    rows = "A 08 3\nB 08 *\nTotal 08 3.75"
    entry = "{counts: FOLDER/t.csv, mechanism: {name: chain, steps: STEPS}, alone: true}".replace(
        "STEPS", "[{name: expand, factor: 0.25}, {name: threshold, k: 3, shown: hidden}]"
    )
    assert told(publish(tmp_path, entry, head, t=rows)) == {f"B {AT}": (3, 3)}


def test_counts_are_of_any_size_where_the_number_of_people_is_not_stated(tmp_path):
    (tmp_path / "t.csv").write_text("zone,people\nA,9000000\nB,*\nC,2000001.5\n")
    form = {"name": "long", "place": "zone", "count": "people", "at": "2026-03-02", "step": "1d"}
    form["timezone"] = "UTC"
    method = {"name": "threshold", "k": 5, "shown": "hidden"}
    found = check([str(tmp_path / "t.csv")], mechanism=method, form=form)[0]
    told = "1 of 2 published values, such as 2000001.5, can never be published"
    assert [one.level for one in found.results if told in one.text] == ["inconsistent"]


def test_a_subset_of_a_subset_is_a_subset_also_where_that_between_is_hidden(tmp_path):
    tables = """
{counts: FOLDER/all.csv}
{counts: FOLDER/residents.csv, subset_of: [all.csv]}
{counts: FOLDER/old.csv, subset_of: [residents.csv]}
"""
    head = HEAD.replace("step: 1h", "step: 1h, secondary: D")
    found = publish(tmp_path, tables, head, all="A 08 14", residents="A 08 D", old="A 08 12")
    assert (found.verdict, told(found)) == ("fail", {f"the difference of A {AT}": (2, 2)})


@pytest.mark.parametrize(
    ("declared", "row"), [("Total", "TOTAL"), ("Totl", "Total"), ("Total", "合計"), ("S", "TOT")]
)
def test_a_total_in_another_spelling_than_declared_is_a_doubt(declared, row, tmp_path):
    head = HEAD.replace("step: 1h", f"step: 1h, total: {declared}")
    publish(
        tmp_path, "{counts: FOLDER/t.csv, alone: true}", head, t=f"A 08 *\nB 08 20\n{row} 08 23"
    )
    found = check([str(tmp_path / "p.yaml")])[1]
    assert (found.verdict, f"'{row}' is read as a place" in found.omitted) == ("warn", True)


def test_totals_of_trips_from_one_place_are_a_doubt(tmp_path):
    form = "{name: long, count: people, step: 1h, origin: from, destination: to, total: Total}"
    ends = ["A,A,*", "A,B,12", "A,Total,15", "B,A,9", "B,B,11", "B,Total,20"]
    rows = [f"{a},{b},2026-03-02T08:00Z,{n}" for a, b, n in (one.split(",") for one in ends)]
    (tmp_path / "od.csv").write_text("\n".join(["from,to,time,people", *rows, ""]))
    publish(tmp_path, f"{{counts: FOLDER/od.csv, measure: trips, alone: true, format: {form}}}")
    found = check([str(tmp_path / "p.yaml")])[1]
    assert (found.verdict, "margins_of" in found.omitted) == ("warn", True)


@pytest.mark.parametrize(
    ("rows", "rule", "doubt"),
    [
        ("A 08 *\nB 08 NA\nC 08 8\nTotal 08 11", "", "may count values that were not collected"),
        ("A 08 5\nB 08 5\nC 08 0\nTotal 08 16", "{name: round_to_base, base: 5, rule: nearest}",
         "1 total of t.csv is not used: no count gives such a value"),
        ("A 08 *\nB 08 0\nC 08 *\nTotal 08 3", "", "1 total of t.csv shows 1 to 4 people"),
    ],
)  # fmt: skip
def test_totals_that_say_nothing_certain_are_doubts(rows, rule, doubt, tmp_path):
    head = HEAD.replace("step: 1h", "step: 1h, total: Total, not_covered: NA, hidden: '*'")
    entry = "{counts: FOLDER/t.csv, alone: true" + (f", mechanism: {rule}" if rule else "") + "}"
    found = publish(tmp_path, entry, head + "within: 0\n", t=rows)
    assert (found.verdict, doubt in found.omitted) == ("warn", True)


def test_sums_with_parts_that_were_not_collected_are_doubts(tmp_path):
    head = HEAD.replace("step: 1h", "step: 1h, not_covered: NA, hidden: '*'")
    tables = "{counts: FOLDER/r.csv}\n{counts: FOLDER/d.csv, parents: codes}"
    found = publish(tmp_path, tables, head, r="ES1 08 11", d="ES11 08 8\nES12 08 *\nES13 08 NA")
    assert (found.verdict, "may count parts that were not collected" in found.omitted) == (
        "warn", True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("A 08 10-19\nB 08 10-19\nTotal 08 38", {"A": (19, 19), "B": (19, 19)}),
        ("A 08 1-4\nB 08 5-9\nTotal 08 13", {"A": (4, 4), "B": (9, 9)}),
        ("A 08 2-4\nB 08 2-4\nC 08 17\nTotal 08 21", {"A": (2, 2), "B": (2, 2)}),
        ("A 08 2-4\nB 08 2-4\nTotal 08 <5", {"A": (2, 2), "B": (2, 2), "Total": (4, 4)}),
        ("A 08 1-4\nB 08 <5\nTotal 08 6", {}),
    ],
)
def test_each_band_that_is_shown_bounds_its_count(rows, expected, tmp_path):
    head = HEAD.replace("step: 1h", "step: 1h, total: Total").replace("k: 5", "k: 10")
    found = publish(tmp_path, "{counts: FOLDER/t.csv, alone: true}", head + "within: 0\n", t=rows)
    exact = {name: ends for name, ends in told(found).items() if ends[0] == ends[1]}
    assert exact == {f"{name} {AT}": ends for name, ends in expected.items()}


def test_a_category_without_a_row_is_0_where_absent_rows_are(tmp_path):
    head = HEAD.replace("step: 1h", "step: 1h, absent: zero").replace("hidden}", "label}")
    rows = "zone hour people sex\nA 08 9 _T\nA 08 9 F\nB 08 20 _T\nB 08 11 F\nB 08 9 M"
    entry = "{counts: FOLDER/t.csv, strata: {sex: _T}}"
    assert publish(tmp_path, entry, head, t=rows).verdict == "pass"
    assert (
        publish(tmp_path, entry, head, t=rows.replace("A 08 9 _T", "A 08 10 _T")).verdict == "fail"
    )
