"""``init --table``: the format that reads a table, and the questions that it leaves."""

from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from clusterscale.cli import app
from clusterscale.errors import ConfigError
from clusterscale.release import TABLE_FORMATS, read_table
from clusterscale.release.propose import propose_format

HOURS = ["2026-03-02T08:00Z", "2026-03-02T09:00Z"]
LONG = "zone,time,people\n" + "".join(f"{zone},{hour},{n}\n" for zone in ("00043", "NA")
                                      for n, hour in enumerate(HOURS, 25))  # fmt: skip
TRIPS = "20260302|{hour:02}|1|2|0-25|{n}"

TABLES = {
    "long": ("t.csv", LONG, {"place": "zone", "time": "time", "count": "people"}, []),
    "wide": ("t.csv", f"place,{HOURS[0]},{HOURS[1]},all\na,1,2,3\n", {"name": "wide"}, []),
    "layout": (
        "t.txt",
        "Table 4\n\nCell;Date;Persons\nA;02.03.2026 08:00;1.234,5\nA;02.03.2026 09:00;7\n* note\n",
        {"delimiter": ";", "skip": 2, "notes": ["*"], "time_format": "%d.%m.%Y %H:%M",
         "thousands": ".", "decimal_comma": True, "place": "Cell"},
        ["timezone"],
    ),
    "thousands or decimals": (
        "t.csv", LONG.replace(",26", ',1.234'), {"count": "people"}, ["thousands"],
    ),
    "commas": ("t.csv", LONG.replace(",26", ',"1,234"'), {"thousands": ","}, ["thousands"]),
    "spaces": ("t.csv", LONG.replace(",26", ",1 234"), {"thousands": " "}, []),
    "hidden": ("t.csv", LONG.replace(",26", ",n.a."), {}, ["hidden"]),
    "a code for no value": ("t.csv", LONG.replace(",26", ",<5"), {}, []),
    "a date of two meanings": (
        "t.csv", "zone,date,count\na,02/03/2026,1\na,03/03/2026,2\n",
        {"time_format": "%d/%m/%Y"}, ["time_format", "timezone"],
    ),
    "milliseconds": (
        "t.csv", "zone,time,count\na,1772438400000,1\na,1772442000000,2\n",
        {"milliseconds": True}, [],
    ),
    "hours beside dates": (
        "t.csv", "zone,day,hour,count\na,2026-03-02,800,1\na,2026-03-02,900,2\n",
        {"hour": "hour"}, ["timezone"],
    ),
    "hours of two meanings": (
        "t.csv", "zone,day,hour,count\na,2026-03-02,8,1\na,2026-03-02,9,2\n",
        {"hour": "hour"}, ["hours", "timezone"],
    ),
    "hours from 0": (
        "t.csv", "zone,day,hour,count\na,2026-03-02,00,1\na,2026-03-02,01,2\n",
        {"hour": "hour"}, ["timezone"],
    ),
    "columns of two kinds": (
        "t.csv", "zone,date_time,ds,n_base,n_now\n" + "".join(
            f"a,2026-04-01 0{hour}00,2026-04-01,5,{n}\n" for hour, n in ((0, "4"), (8, "\\N"))),
        {"time_format": "%Y-%m-%d %H%M"}, ["time", "count", "timezone"],
    ),
    "groups": (
        "t.csv", "sex,zone,time,count\n" + "".join(f"{sex},a,{hour},5\n" for sex in ("_T", "F")
                                                   for hour in HOURS), {}, ["where"],
    ),
    "no time": (
        "t.csv", "from,to,trips\na,b,5\nb,a,6\n", {"origin": "from"}, ["at", "step", "timezone"],
    ),
    "ministry": (
        "t.csv", "fecha|periodo|origen|destino|edad|viajes\n" + "".join(
            TRIPS.format(hour=hour, n=5) + "\n" for hour in (8, 9)),
        {"name": "mitma"}, [],
    ),
    "Latin-1": ("t.csv", LONG.replace("NA", "Málaga").encode("latin-1"),
                {"encoding": "cp1252"}, ["encoding"]),
    "rows that are absent": (
        "t.csv", LONG.replace(f"NA,{HOURS[1]},26\n", ""), {}, ["absent"],
    ),
    "several questions": (
        "t.csv", LONG.replace(f"NA,{HOURS[1]},26\n", "").replace("Z,", ","), {},
        ["timezone", "absent"],
    ),
    "totals": (
        "t.csv", LONG + f"Total,{HOURS[0]},50\nTotal,{HOURS[1]},52\nNA,Total,51\n",
        {"time": "time", "total": "Total"}, ["total"],
    ),
    "a row of totals": (
        "t.csv", f"zone,{HOURS[0]},{HOURS[1]}\na,1,2\nAll zones (total),1,2\n",
        {"name": "wide", "total": "All zones (total)"}, ["total"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_a_format_is_proposed_and_what_is_in_doubt_is_asked(name, tmp_path):
    file, content, fields, asked = TABLES[name]
    path = tmp_path / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = propose_format(str(path), {})
    assert fields.items() <= found.fields.items()
    assert [doubt.key for doubt in found.doubts] == asked, found.doubts
    answers = {
        "timezone": {"timezone": "Europe/Berlin"},
        "hidden": {"hidden": ["n.a."]},
        "where": {"where": {"sex": ["_T"]}},
        "at": {"at": "2026-03-02"},
        "step": {"step": "1d"},
        "absent": {"absent": "hidden"},
        "hours": {"hours": "hhmm" if "beside" in name else "1-24"},
    }
    given = {}
    for _ in range(4):  # an answer may lead to another question
        if not found.doubts:
            break
        for doubt in found.doubts:
            given |= answers.get(doubt.key, {doubt.key: found.fields.get(doubt.key)})
        found = propose_format(str(path), given)
    assert not found.doubts
    assert found.release is not None, found
    form = TABLE_FORMATS.create(**found.fields)
    assert read_table(str(path), form).digest == found.release.digest
    assert (found.release.totals.epoch is not None) == ("total" in asked)


def run(*words):
    return CliRunner().invoke(app, ["init", *map(str, words)])


def test_it_is_written_and_ten_cells_are_shown(tmp_path):
    table, file = tmp_path / "t.csv", tmp_path / "columns.yaml"
    table.write_text(LONG.replace(",26", ",n.a."))
    done = run(file, "--table", table)
    assert done.exit_code == 3
    assert "in doubt: hidden: does 'n.a.' hide a value?" in done.output
    assert "2 places, 2 times, 2 values hidden" in done.output
    fields = yaml.safe_load(file.read_text())
    with pytest.raises(
        ConfigError, match=r"decide this, and delete the line: hidden: does 'n\.a\.'"
    ):
        TABLE_FORMATS.create(**fields)
    assert "--force --setting hidden=ANSWER" in done.output
    assert "check: " not in done.output
    del fields["in_doubt"]
    assert read_table(str(table), TABLE_FORMATS.create(**fields)).rois == ("00043", "NA")
    assert "exists" in str(run(file, "--table", table).exception)
    done = run(file, "--table", table, "--setting", "hidden=[n.a.]", "--force")
    assert done.exit_code == 0
    assert "doubt" not in done.output + file.read_text()
    assert "check: " in done.output


def test_the_name_of_a_table_is_data(tmp_path):
    for mark in ("\n", "\r", "\x85", "\u2028"):
        table, file = tmp_path / f"t{mark}skip: 3 #.csv", tmp_path / "columns.yaml"
        table.write_text(LONG)
        assert run(file, "--table", table, "--force").exit_code == 0
        written = file.read_text()
        assert "skip" not in yaml.safe_load(written)
        assert written.splitlines()[0].endswith("skip: 3 #.csv is read.")


def test_nothing_is_written_that_reads_nothing(tmp_path):
    table, file = tmp_path / "t.csv", tmp_path / "columns.yaml"
    table.write_text(LONG.replace("Z,", ","))
    done = run(file, "--table", table)
    assert "timezone: line 2, column time" in str(done.exception)
    assert "answer with --setting timezone=ANSWER" in str(done.exception)
    assert not file.exists()
    done = run(file, "--table", table, "--setting", "timezone=Europe/London")
    assert done.exit_code == 0
    for wrong, message in (("zone", "is not KEY=VALUE"), ("timezome=UTC", "timezome")):
        done = run(tmp_path / "other.yaml", "--table", table, "--setting", wrong)
        assert message in str(done.exception)


def test_a_table_that_is_read_without_a_format_leads_here(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text(LONG)
    hint = f"clusterscale init format.yaml --table {table}"
    for form in ([], ["--format", "long"]):
        done = CliRunner().invoke(app, ["check", str(table), "--method", "exact", *form])
        assert "has no column place" in str(done.exception)
        assert (hint in str(done.exception)) == (not form)


def test_the_last_cell_is_shown(tmp_path):
    table = tmp_path / "t.csv"
    rows = "".join(f"z{i},{hour},{i}\n" for hour in HOURS for i in range(10, 40))
    table.write_text(f"place,time,count\n{rows}")
    done = run(tmp_path / "c.yaml", "--table", table)
    found = [name in done.output for name in ("z10", "z18", "z19", "z38", "z39")]
    assert found == [True, True, False, False, True]


def test_what_is_not_covered_is_shown(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text(LONG.replace("NA,", "NA,").replace(",26", ",NO_DATA"))
    done = run(tmp_path / "c.yaml", "--table", table, "--setting", "not_covered=[NO_DATA]")
    assert done.exit_code == 0
    assert "not covered" in done.output
    assert "2 places, 2 times, 0 values hidden" in done.output
    assert "2 of 4 values are not covered: neither 0 nor hidden" in done.output


def test_a_terminal_asks_until_an_answer_fits(tmp_path, monkeypatch):
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("clusterscale.cli.init_table.sys", terminal)
    table, file = tmp_path / "t.csv", tmp_path / "c.yaml"
    table.write_text("from;to;trips\na;b;1.204\nb;a;1.060\n")
    answers = ["", "yes", "2026-03-01", "dot", ".", "day", "1d", "Brussels", "Europe/Brussels"]
    words = ["init", str(file), "--table", str(table)]
    done = CliRunner().invoke(app, words, input="\n".join(answers) + "\n")
    assert done.exit_code == 0, done.output
    assert done.output.count("answer again") == 4
    fields = yaml.safe_load(file.read_text())
    wanted = {"thousands": ".", "at": "2026-03-01", "step": "1d", "timezone": "Europe/Brussels"}
    assert wanted.items() <= fields.items()
    assert read_table(str(table), TABLE_FORMATS.create(**fields)).values.tolist() == [
        [1204],
        [1060],
    ]


def test_settings_are_those_of_a_table():
    done = run("--cube", "tfl.zarr", "--setting", "timezone=UTC")
    assert "`--setting` needs `--table`" in str(done.exception)


def test_levels_of_a_folder(tmp_path):
    for level, place in ((1, "ES2"), (2, "ES21")):
        folder = tmp_path / "gold" / f"level={level}"
        folder.mkdir(parents=True)
        table = {"zone_id": [place] * 2, "timestamp": HOURS, "population": [20, 11]}
        pd.DataFrame(table).to_parquet(folder / "part.parquet")
    found = propose_format(str(tmp_path / "gold"), {})
    assert found.fields["name"] == "multimno"
    assert [doubt.key for doubt in found.doubts] == ["where"]
    found = propose_format(str(tmp_path / "gold"), {"where": {"level": ["2"]}})
    assert found.release.rois == ("ES21",)
    assert not found.doubts
