"""Tables that are published together: what follows from all of them, and from which values."""

from itertools import product

import pytest

from clusterscale.api import check
from clusterscale.errors import ClusterscaleError
from clusterscale.reauditing import junit_of_tables
from clusterscale.release import averaging, unpublished
from clusterscale.release.checks import disclosure
from clusterscale.release.publication import Hierarchy
from clusterscale.reporting import render_checks
from clusterscale.runtime import SerialExecutor

HEAD = """
format: {name: long, place: zone, count: people}
mechanism: {name: threshold, k: 5, shown: hidden}
group_size: 5000
"""
NEVER = "threshold(k=6, shown='label') never publishes it"


def publish(folder, tables, head=HEAD, **files):
    """Write tables, each a text of lines ``zone hour value``, and a publication of them."""
    for name, text in files.items():
        rows = [line.split() for line in text.strip().splitlines()]
        lines = [f"{zone},2026-03-02T{hour}:00Z,{','.join(rest)}" for zone, hour, *rest in rows]
        head_line = "zone,time,people,sex" if len(rows[0]) == 4 else "zone,time,people"
        (folder / f"{name}.csv").write_text("\n".join([head_line, *lines]) + "\n")
    (folder / "p.yaml").write_text(f"{head}tables:\n{tables.replace('FOLDER', str(folder))}")
    return check([str(folder / "p.yaml")])


def texts(findings):
    return [cell.text for cell in findings[0].open_cells]


def test_levels_of_codes_give_a_hidden_place_away(tmp_path):
    found = publish(
        tmp_path,
        """
  - {counts: FOLDER/two.csv}
  - {counts: FOLDER/three.csv, parents: codes}
""",
        two="ES2 08 14\nES2 09 20\nES3 08 *\nES3 09 30",
        three="ES21 08 11\nES22 08 *\nES21 09 12\nES22 09 8\n"
        "ES31 08 *\nES31 09 30\nES32 08 *\nES32 09 *",
    )
    assert found[0].verdict == "fail"
    assert texts(found) == [
        "ES22 at 2026-03-02 08:00 is 3: ES2 shows 14, ES21 shows 11",
        "ES32 at 2026-03-02 09:00 is 0: ES3 shows 30, ES31 shows 30",
    ]


def test_the_difference_of_a_group_and_a_part_of_it_is_found(tmp_path):
    found = publish(
        tmp_path,
        """
  - {counts: FOLDER/all.csv}
  - {counts: FOLDER/residents.csv, subset_of: all.csv}
""",
        head=HEAD.replace("k: 5", "k: 16"),
        all="A 08 50\nA 09 61\nB 08 *\nB 09 40",
        residents="A 08 45\nA 09 61\nB 08 *\nB 09 20",
    )
    assert found[0].verdict == "fail"
    assert texts(found) == [
        "the difference of A at 2026-03-02 08:00 is 5: all.csv shows 50, residents.csv shows 45"
    ]


def test_a_category_is_the_total_less_the_others(tmp_path):
    found = publish(
        tmp_path,
        "\n  - {counts: FOLDER/t.csv, strata: {sex: _T}}",
        t="A 08 20 _T\nA 08 17 M\nA 08 * F\nA 09 20 _T\nA 09 10 M\nA 09 10 F",
    )
    assert found[0].verdict == "fail"
    assert texts(found) == [
        "A (sex F) at 2026-03-02 08:00 is 3: t.csv (sex _T) shows 20, t.csv (sex M) shows 17"
    ]


def test_margins_of_trips_give_a_hidden_pair_away(tmp_path):
    for name, end in (("out", "origin"), ("into", "destination")):
        (tmp_path / f"{name}.csv").write_text(
            "zone,time,people\n"
            + "".join(
                f"{zone},2026-03-02T0{hour}:00Z,{n}\n"
                for hour in (8, 9)
                for zone, n in (
                    {"A": 12, "B": 31} if end == "origin" else {"A": 29, "B": 14}
                ).items()
            )
        )
    (tmp_path / "trips.csv").write_text(
        "origin,destination,time,people\n"
        + "".join(
            f"{a},{b},2026-03-02T0{hour}:00Z,{n}\n"
            for hour in (8, 9)
            for a, b, n in (("A", "A", "*"), ("A", "B", 9), ("B", "A", 26), ("B", "B", 5))
        )
    )
    found = publish(
        tmp_path,
        """
  - counts: FOLDER/trips.csv
    measure: trips
    format: {name: long, origin: origin, destination: destination, count: people}
  - {counts: FOLDER/out.csv, measure: trips, margins_of: {trips.csv: origin}}
  - {counts: FOLDER/into.csv, measure: trips, margins_of: {trips.csv: destination}}
""",
    )
    assert found[0].verdict == "fail"
    assert texts(found)[0] == "A → A at 2026-03-02 08:00 is 3: A in out.csv shows 12, A → B shows 9"


def test_two_overlapping_districts_give_a_zone_away(tmp_path):
    (tmp_path / "schools.csv").write_text("place,parent\nz1,S\nz2,S\nz3,other\n")
    (tmp_path / "posts.csv").write_text("place,parent\nz1,P\nz2,P\nz3,P\n")
    zones = "z1 08 *\nz1 09 30\nz2 08 *\nz2 09 30\nz3 08 *\nz3 09 30"
    found = publish(
        tmp_path,
        """
  - {counts: FOLDER/districts.csv}
  - {counts: FOLDER/zones.csv, parents: [FOLDER/schools.csv, FOLDER/posts.csv]}
""",
        districts="S 08 6\nS 09 60\nP 08 9\nP 09 90",
        zones=zones,
    )
    assert found[0].verdict == "fail"
    assert texts(found)[0] == "z3 at 2026-03-02 08:00 is 3: P shows 9, S shows 6"


def test_a_total_in_the_column_of_zones_is_a_relation(tmp_path):
    found = publish(
        tmp_path,
        "\n  - {counts: FOLDER/t.csv}",
        head=HEAD.replace("count: people", "count: people, total: Total"),
        t="A 08 *\nB 08 *\nC 08 30\nTotal 08 38\nA 09 12\nB 09 9\nC 09 31\nTotal 09 52",
    )
    assert found[0].verdict == "fail"
    assert texts(found) == [
        "A at 2026-03-02 08:00 is 4: Total shows 38, B is 0 to 4, C shows 30",
        "B at 2026-03-02 08:00 is 4: Total shows 38, A is 0 to 4, C shows 30",
    ]
    shown = publish(
        tmp_path,
        "\n  - {counts: FOLDER/t.csv}",
        head=HEAD.replace("count: people", "count: people, total: Total"),
        t="A 08 *\nB 08 17\nC 08 30\nTotal 08 47\nA 09 12\nB 09 *\nC 09 31\nTotal 09 43",
    )
    assert "of shown cells only" in shown[0].notes[0]
    # Both hidden counts may be 0: then totals of all counts are those of shown ones, too.
    assert [one.verdict for one in shown] == ["warn", "pass"]
    assert shown[0].omitted.startswith("if 2 sums count hidden cells, 2 cells follow: A at")


def test_sums_are_not_taken_for_those_of_shown_cells_because_others_are_hidden(tmp_path):
    """Where two totals have no hidden people, the third would show that it has some."""
    head = HEAD.replace("count: people", "count: people, total: Total, secondary: [D]")
    rows = "A 08 *\nB 08 12\nTotal 08 12\nA 09 *\nB 09 9\nTotal 09 9\nA 10 *\nB 10 9"
    lines = [
        f"{zone},2026-03-02T{hour}:00Z,{n}" for zone, hour, n in map(str.split, rows.split("\n"))
    ]
    for total in ("12", "D"):
        third = f"Total,2026-03-02T10:00Z,{total}"
        (tmp_path / "t.csv").write_text(
            "\n".join(["zone,time,people", *lines, third, "A,Total,3", "B,Total,30", ""])
        )
        found = publish(tmp_path, "\n  - {counts: FOLDER/t.csv}\nwithin: 0\n", head=head)
        assert found[0].verdict == "fail", total
        assert texts(found)[0].startswith("A at 2026-03-02 10:00 is 3"), total
        assert not any("of shown cells only" in note for note in found[0].notes)


def test_what_follows_only_if_sums_are_of_shown_cells_is_not_decided(tmp_path):
    """9 women in B if the third total has no hidden ones, else 8 or 9; then the man is known."""
    found = publish(
        tmp_path,
        """
  - {counts: FOLDER/all.csv}
  - counts: FOLDER/women.csv
    parts_of: all.csv
    format: {name: long, place: zone, count: people, total: Total, secondary: [D]}
  - {counts: FOLDER/men.csv, parts_of: all.csv}
within: 0
""",
        all="B 08 22\nB 09 19\nB 10 12",
        women="A 08 *\nB 08 12\nTotal 08 12\nA 09 *\nB 09 9\nTotal 09 9\n"
        "A 10 *\nB 10 D\nTotal 10 9",
        men="B 08 10\nB 09 10\nB 10 *",
    )
    assert found[0].omitted.startswith("if 3 sums are of shown cells only, 1 cell follows: B at")
    assert found[0].verdict == "warn"


def triangle(folder):
    """Return a publication of three places, two at a time in others, which takes programs."""
    for name, pair in (("x", "ab"), ("y", "bc"), ("z", "ca")):
        lines = [f"{place},{name}" for place in pair]
        (folder / f"of-{name}.csv").write_text("\n".join(["place,parent", *lines, ""]))
    publish(
        folder,
        """
  - {counts: FOLDER/w.csv}
  - {counts: FOLDER/p.csv, parents: [FOLDER/of-x.csv, FOLDER/of-y.csv, FOLDER/of-z.csv]}
""",
        w="x 08 5\ny 08 5\nz 08 6\nx 09 20\ny 09 22\nz 09 24",
        p="a 08 *\nb 08 *\nc 08 *\na 09 11\nb 09 9\nc 09 13",
    )
    return str(folder / "p.yaml")


def test_programs_run_as_tasks_however_many_cells_are_hidden(tmp_path, monkeypatch):
    uri, seen = triangle(tmp_path), []
    here = check([uri])
    assert [one.text.split(": ")[0] for one in here[0].open_cells] == [
        "b at 2026-03-02 08:00 is 2", "a at 2026-03-02 08:00 is 3", "c at 2026-03-02 08:00 is 3",
    ]  # fmt: skip
    monkeypatch.setattr(disclosure, "_MOST_HIDDEN", 0)
    few = check([uri])
    assert few[0].verdict == "warn"
    assert few[0].omitted.endswith("the ranges of 3 cells are not known exactly")
    assert check([uri], executor=SerialExecutor(), progress=seen.append) == here
    assert [(now.n_tasks, now.n_done) for now in seen if now.stage == "check"] == [(1, 0), (1, 1)]
    assert [(now.stage, now.n_tasks) for now in seen if now.n_done == now.n_tasks] == [
        ("reading tables", 2), ("bounding counts", 2), ("checking tables", 2), ("check", 1),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.dask
def test_findings_do_not_depend_on_the_number_of_workers(tmp_path, local_cluster):
    uri = triangle(tmp_path)
    assert check([uri], executor=local_cluster, progress=False) == check([uri])


def test_days_are_sums_of_hours_where_visits_are_counted_and_not_persons(tmp_path):
    hours = "".join(f"A {hour:02} {n}\n" for hour, n in enumerate([*[7] * 23, "*"]))
    (tmp_path / "days.csv").write_text("zone,time,people\nA,2026-03-02,163\n")
    tables = """
  - {counts: FOLDER/hours.csv, measure: MEASURE}
  - counts: FOLDER/days.csv
    measure: MEASURE
    format: {name: long, place: zone, count: people, timezone: UTC, step: 1d}
"""
    visits = publish(tmp_path, tables.replace("MEASURE", "visits"), hours=hours)
    assert texts(visits)[0].startswith(
        "A at 2026-03-02 23:00 is 2: at 2026-03-02 shows 163, at 2026"
    )
    persons = publish(tmp_path, tables.replace("MEASURE", "persons"), hours=hours)
    assert texts(persons)[0].startswith("A at 2026-03-02 23:00 is 2 to 4: at 2026-03-02 ")
    assert persons[0].verdict == "warn"


def test_hours_of_districts_and_days_of_regions_are_related(tmp_path):
    hours = "".join(f"ES2{i} {hour:02} {7}\n" for i in (1, 2) for hour in range(24))
    (tmp_path / "days.csv").write_text("zone,time,people\nES2,2026-03-02,331\n")
    found = publish(
        tmp_path,
        """
  - {counts: FOLDER/hours.csv, parents: codes}
  - counts: FOLDER/days.csv
    format: {name: long, place: zone, count: people, timezone: UTC, step: 1d}
""",
        hours=hours.replace("ES22 23 7", "ES22 23 *"),
    )
    assert texts(found)[0].startswith("ES22 at 2026-03-02 23:00 is 2: ES2 at 2026-03-02 ")


def test_codes_name_what_places_are_parts_of():
    coded = Hierarchy()
    assert list(coded.above("ES21")) == [(1, "ES2"), (2, "ES"), (3, "E")]
    assert next(coded.above("85283473fffffff")) == (1, "8428347ffffffff")
    inspire = dict(map(reversed, coded.above("CRS3035RES500mN2689500E4337500")))
    assert inspire["CRS3035RES1000mN2689000E4337000"] == 1
    assert "CRS3035RES2000mN2688000E4336000" in inspire
    assert list(coded.above("a1 → b1")) == [(1, "a → b1"), (1, "a1 → b"), (2, "a → b")]
    listed = Hierarchy({"z": ("S", "P"), "S": ("all",), "P": ("all",)})
    assert list(listed.above("z")) == [(1, "S"), (1, "P"), (2, "all")]


def test_what_tables_state_relates_them(tmp_path):
    """Parts, columns of parents, factors, and counts that have not changed."""
    (tmp_path / "z.csv").write_text(
        "zone,time,people,region\n"
        "a,2026-03-02T08:00Z,12,R\nb,2026-03-02T08:00Z,*,R\n"
        "a,2026-03-02T09:00Z,*,R\nb,2026-03-02T09:00Z,*,R\n"
    )
    found = publish(
        tmp_path,
        """
  - {counts: FOLDER/z.csv, parent_columns: [region]}
  - {counts: FOLDER/r.csv, factor: 2.5, mechanism: {name: exact}}
  - {counts: FOLDER/in.csv, parts_of: r.csv}
  - {counts: FOLDER/out.csv, parts_of: r.csv}
  - {counts: FOLDER/next.csv, people: later, unchanged_from: out.csv, mechanism: {name: exact}}
""",
        **{"r": "R 08 37.5\nR 09 15", "in": "R 08 12\nR 09 *", "out": "R 08 *\nR 09 *",
           "next": "R 10 3\nR 11 4"},
    )  # fmt: skip
    at = " at 2026-03-02 "
    assert set(texts(found)) == {
        f"R{at}09:00 is 2: r.csv shows 15,{at}11:00 in next.csv shows 4",
        f"R{at}08:00 is 3: r.csv shows 37.5, in.csv shows 12",
        f"b{at}08:00 is 3: R shows 37.5, a shows 12",
        f"R{at}09:00 is 4:{at}11:00 in next.csv shows 4",
        f"a{at}09:00 is 2 to 4: R shows 15, b is 0 to 4",
        f"b{at}09:00 is 2 to 4: R shows 15, a is 0 to 4",
    }


def test_what_cannot_be_decided_is_never_consistent(tmp_path):
    two, three = "A 08 14\nA 09 20", "A1 08 11\nA2 08 *\nA1 09 12\nA2 09 8"
    tables = "\n  - {counts: FOLDER/two.csv}\n  - {counts: FOLDER/three.csv, parents: codes}"
    noise = "\n    mechanism: {name: laplace, epsilon: 1.0, sensitivity: 1}"
    noisy = publish(
        tmp_path, tables.replace("{counts: FOLDER/two.csv}", "counts: FOLDER/two.csv" + noise),
        two=two, three=three,
    )  # fmt: skip
    assert noisy[0].verdict == "warn"
    assert noisy[0].omitted == "values of two.csv do not determine counts, and take no part"
    assert noisy[0].notes == (
        "noise of two.csv: standard deviation 1.41 alone, and with all tables 0.707 (median) and 0 "
        "(smallest): as ε 2 and ∞ instead of 1",
    )
    wrong = publish(tmp_path, tables, two=two.replace("20", "21"), three=three)
    assert wrong[0].verdict == "fail"
    assert "A at 2026-03-02 09:00 in two.csv shows 21, A1 at" in wrong[0].results[0].text
    lists_some = publish(
        tmp_path, tables.replace("codes", "codes, complete: false"), two=two, three=three
    )
    assert (lists_some[0].verdict, texts(lists_some)) == ("pass", [])  # there may be others
    narrow = {  # two hidden counts are 0 to 2
        "two": "A 08 13\nA 09 20",
        "three": "\n".join(
            f"A1 {i} {n}\nA2 {i} {m}\nA3 {i} {m}" for i, n, m in (("08", 11, "*"), ("09", 10, 5))
        ),
    }
    for more, verdict, n_failures in (("", "warn", 0), ("within: 1\n", "fail", 3)):
        known = publish(tmp_path, tables, head=HEAD + more, **narrow)[0]
        assert (known.verdict, len(known.open_cells)) == (verdict, 2)
        assert junit_of_tables([known]).count("<failure") == n_failures
    for fault, text in (
        ("{counts: FOLDER/two.csv, subset_of: all}", "two.csv names all, which is none of"),
        ("{counts: FOLDER/two.csv, strata: {sex: _T}}", "sex"),
        ("{counts: FOLDER/two.csv, strat: {}}", "strat"),
    ):
        with pytest.raises(ClusterscaleError, match=text):
            publish(tmp_path, f"\n  - {fault}", two=two)


def test_the_number_of_a_label_beside_labels_is_not_taken_for_one(tmp_path):
    """A2 is 1 if A1 is 3, which a method never publishes whose label "<6" is read as 3."""
    tables = "\n  - {counts: FOLDER/two.csv, KIND}\n  - {counts: FOLDER/three.csv, parents: codes}"
    tables = tables.replace("KIND", "mechanism: {name: threshold, k: 5, shown: label}")
    head = HEAD.replace("k: 5, shown: hidden", "k: 6, shown: label").replace(
        "people}", "people, step: 1h}"
    )
    three = "A1 08 {}\nA2 08 *"
    for value in (2, 3, 4):
        found = publish(tmp_path, tables, head=head, two="A 08 *", three=three.format(value))
        assert [one.verdict for one in found] == ["warn", "warn", "fail"]
        assert found[0].undecided[-1].text.endswith(f"as {value}, is not used: {NEVER}")


def test_the_number_of_a_label_beside_labels_of_another_category_is_impossible(tmp_path):
    head = HEAD.replace("k: 5, shown: hidden", "k: 6, shown: label").replace(
        "people}", "people, step: 1h}"
    )
    tables = "\n  - {counts: FOLDER/two.csv, strata: {sex: null}}"
    for other, verdict in (("*", "fail"), ("8", "pass")):
        two = f"A 08 3 F\nB 08 9 F\nA 08 {other} M\nB 08 9 M"
        found = publish(tmp_path, tables, head=head, two=two)
        assert found[1].verdict == verdict, other


def test_a_method_that_hides_every_count_is_no_crash(tmp_path):
    head = HEAD.replace("name: threshold, k: 5, shown: hidden", "name: dominance, share: 1.0e-300")
    two = "A 08 3\nB 08 *\nTotal 08 12\nA 09 4\nB 09 9\nTotal 09 13"
    head = head.replace("people}", "people, total: Total}")
    found = publish(tmp_path, "\n  - {counts: FOLDER/two.csv}", head=head, two=two)
    assert "fail" in [one.verdict for one in found]


def test_persons_of_a_group_and_not_of_its_part_are_not_related_over_times(tmp_path):
    """The residents at 8 are all who were there until 10, so that no other was there at 9."""
    tables = """
  - {counts: FOLDER/hours.csv, measure: persons}
  - counts: FOLDER/longer.csv
    measure: persons
    format: {name: long, place: zone, count: people, step: 2h}
"""
    files = {"hours": "A 08 7\nA 09 *", "longer": "A 08 7"}
    part = "  - {counts: FOLDER/few.csv, measure: persons, people: residents, subset_of: hours.csv}"
    doubts = [
        [one for one in found[0].undecided if "may be missed" in one.text]
        for found in (
            publish(tmp_path, tables, **files),
            publish(tmp_path, f"{tables}{part}\n", few="A 08 7\nA 09 *", **files),
        )
    ]
    assert list(map(len, doubts)) == [0, 1]


def test_how_much_noise_averages_out_is_noted(tmp_path, monkeypatch):
    """A region with two districts has √⅔ of the deviation, as they have, and one without has 1.

    Nothing averages out where the region is the sum of the noisy values.
    """
    noise = "{name: laplace, epsilon: 1.0, sensitivity: 10}"
    head = HEAD.replace("{name: threshold, k: 5, shown: hidden}", noise)
    tables = "\n  - {counts: FOLDER/two.csv, factor: 2.5}"
    tables += "\n  - {counts: FOLDER/three.csv, parents: codes}"
    two, three = "A 08 36.25\nA 09 40\nB 08 9.5", "A1 08 11.2\nA2 08 8.1\nA1 09 12.3\nA2 09 3.5"
    found = publish(tmp_path, tables, head=head, two=two + "\nB 09 3", three=three)[0]
    assert found.verdict == "warn"
    assert found.notes == (
        "noise of two.csv: standard deviation 14.1 alone, and with all tables 12.8 (median) and "
        "11.5 (smallest): as ε 1.1 and 1.22 instead of 1",
        "noise of three.csv: standard deviation 14.1 alone, and with all tables 11.5 (median) and "
        "11.5 (smallest): as ε 1.22 and 1.22 instead of 1",
    )
    sums = "A 08 48.25\nA 09 39.5\nB 08 9.5\nB 09 3"
    found = publish(tmp_path, tables, head=head, two=sums, three=three)[0]
    assert all("14.1 (median) and 14.1 (smallest)" in note for note in found.notes)
    monkeypatch.setattr(averaging, "_MOST", 1)
    found = publish(tmp_path, tables, head=head, two=two + "\nB 09 3", three=three)[0]
    assert found.notes == (
        "how much noise averages out is not computed: 2 relations, of which 1 are connected, are "
        "too many",
    )


def test_a_column_of_levels_needs_no_file(tmp_path):
    rows = [("ES2", 1, 14, 20), ("ES21", 2, 11, 12), ("ES22", 2, "*", 8)]
    (tmp_path / "t.csv").write_text("zone,level,time,people\n" + "".join(
        f"{zone},{level},2026-03-02T0{8 + i}:00Z,{n}\n"
        for zone, level, *values in rows for i, n in enumerate(values)
    ))  # fmt: skip
    given = {"form": {"name": "long", "place": "zone", "count": "people"}, "group_size": 500}
    hidden = {"name": "threshold", "k": 5, "shown": "hidden"}
    (found,) = check([str(tmp_path / "t.csv")], mechanism=hidden, **given)
    assert found.verdict == "fail"
    assert texts([found]) == ["ES22 at 2026-03-02 08:00 is 3: ES2 shows 14, ES21 shows 11"]
    assert "Counts of t.csv (level 2) that follow" in render_checks([found])
    assert "ES22 at 2026-03-02 08:00 is 3" in junit_of_tables([found])


@pytest.mark.parametrize(
    ("columns", "more", "is_told"),
    [
        (("sex", "age"), "", False),
        (("sex", "age"), ", complete: false", True),  # who is in no row, nobody knows
        (("sex", "age"), ", measure: persons", True),
        (("sex,age", "age,job", "sex,job"), "", True),
    ],
)
def test_tables_of_which_three_may_say_more_than_two_are_named(
    tmp_path, monkeypatch, columns, more, is_told
):
    """Two tables fit each other if their totals do; of three that share columns, this may fail."""
    monkeypatch.setattr(unpublished, "_MOST", 0)
    tables, texts_of = "", {"sex": "FM", "age": "yo", "job": "+-"}
    for i, names in enumerate(columns):
        rows = ["".join(one) for one in product(*(texts_of[name] for name in names.split(",")))]
        lines = [f"a,2026-03-02T08:00Z,{24 // len(rows)},{','.join(row)}" for row in rows]
        (tmp_path / f"{i}.csv").write_text("\n".join([f"zone,time,people,{names}", *lines]) + "\n")
        strata = ", ".join(f"{name}: null" for name in names.split(","))
        tables += f"  - {{counts: FOLDER/{i}.csv, strata: {{{strata}}}{more}}}\n"
    found = publish(tmp_path, tables, head=HEAD.replace("people}", "people, step: 1h}"))[0]
    told = [one.text for one in found.undecided if "compared in pairs" in one.text]
    assert (bool(told), found.verdict) == (is_told, "warn" if is_told else "pass")


def test_totals_of_rounded_values_beside_hidden_ones_are_a_doubt(tmp_path):
    """A total of 0 over hidden places says that they round to 0, if it counts them."""
    head = HEAD.replace("people}", "people, step: 1h, total: Total, secondary: [D]}")
    head = head.replace("{name: threshold, k: 5, shown: hidden}", "{name: round_to_base, base: 2}")
    verdicts = []
    for value in (4, "D"):
        found = publish(
            tmp_path,
            "  - {counts: FOLDER/t.csv}\n",
            head=head,
            t=f"""
a 08 {value}
b 08 8
Total 08 {12 if value == 4 else 8}""",
        )[0]
        verdicts.append((found.verdict, "hidden ones are counted too" in found.omitted))
    assert verdicts == [("pass", False), ("warn", True)]


def test_ranges_that_are_not_exact_are_inconclusive_unless_only_determined_counts_matter(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(disclosure, "_MOST_HIDDEN", 0)
    monkeypatch.setattr(unpublished, "_MOST", 0)
    (tmp_path / "s.csv").write_text("place,parent\na,S\nb,S\nc,T\nd,T\n")
    (tmp_path / "p.csv").write_text("place,parent\na,P\nb,Q\nc,P\nd,Q\n")
    zones = "\n".join(
        f"{z} 08 * {s}\n{z} 09 {40 if s == '_T' else 20} {s}" for z in "abcd" for s in ("_T", *"FM")
    )
    districts = "\n".join(f"{z} 08 8\n{z} 09 80" for z in "STPQ")
    tables = """
  - {counts: FOLDER/d.csv}
  - {counts: FOLDER/z.csv, strata: {sex: _T}, parents: [FOLDER/s.csv, FOLDER/p.csv]}
"""
    head = HEAD.replace("k: 5", "k: 8")
    for more, verdict in (("", "warn"), ("within: 0\n", "pass")):
        found = publish(tmp_path, tables, head=head + more, z=zones, d=districts)[0]
        assert (found.verdict, found.open_cells) == (verdict, ())
