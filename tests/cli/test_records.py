"""Ingesting from the command line: its help, its options and how it refuses them."""

import sys
from inspect import cleandoc
from textwrap import dedent

import pytest
from typer.testing import CliRunner

pytest.importorskip("dask")

from clusterscale import cli
from clusterscale.cli import app, records
from clusterscale.cube import TraceCube
from clusterscale.ingestion import READERS
from clusterscale.phrases import option, typed_options

pytestmark = [pytest.mark.dask, pytest.mark.usefixtures("no_figures")]

PERIOD = ("--start", "2012-04-03", "--epochs", "24")
GRID = ("--grid", "40,-75,41,-73/2x2")
LINES = "card;when;lat;lon\nann;2012-04-03T18:00:09;40.7;-74\nbob;2012-04-03T19:00:00;40.2;-74.5\n"


def refused(*words, monkeypatch, capsys):
    """Return what is printed about words that cannot be used."""
    monkeypatch.setattr(sys, "argv", ["clusterscale", *map(str, words)])
    with pytest.raises(SystemExit) as ending:
        cli.main()
    assert ending.value.code == 2
    said = capsys.readouterr().err.strip()
    return said[said.index("error: ") :]  # after the progress bar


def squeezed(text):
    """Return a text with one space for each run of spaces and line ends."""
    return " ".join(text.split())


def lines_on_readers():
    """Return the lines of the help that list the readers."""
    _, _, readers, *_ = cleandoc(records.ingest.__doc__).split("\n\n")
    return dedent(readers).splitlines()


@pytest.mark.parametrize("name", list(READERS))
def test_help_lists_every_field_of_every_reader(name):
    reader = READERS[name]
    lines = lines_on_readers()
    first = next(number for number, line in enumerate(lines) if line.startswith(f"{name} "))
    section = [lines[first]]
    for line in lines[first + 1 :]:
        if not line.startswith(" "):
            break
        section.append(line)
    text = " ".join(section)
    columns, _, settings = text.partition("settings")
    for field, about in reader.model_fields.items():
        if field in ("name", "where"):  # --where is an option of its own
            continue
        default = about.default
        assert f" {field}={default if default is not None else ''}" in (
            settings if field in reader.settings else columns
        )


def test_help_keeps_its_lines_at_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(app, ["ingest", "--help"]).output
    for line in lines_on_readers():
        assert f" {line} ".rstrip() in shown


def test_columns_and_settings_of_a_reader(tmp_path):
    source = tmp_path / "events.csv"
    source.write_text(LINES)
    words = ["ingest", source, tmp_path / "cube", *PERIOD, *GRID]
    words += ["--column", "user=card", "--column", "time=when"]
    words += ["--setting", "timezone=America/New_York", "--setting", "delimiter=;"]
    result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    cube = TraceCube(tmp_path / "cube")
    assert (cube.n_users, cube.calendar.timezone) == (2, "America/New_York")
    factors = tmp_path / "factors.csv"
    factors.write_text("weight;card\n2.5;bob\n1;ann\n7;eve\n")  # with the reader's delimiter
    words += ["--weights", factors, "--force"]
    result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert "(weights 1 to 2.5, mean 1.75)" in result.output
    assert TraceCube(tmp_path / "cube").weights.tolist() == [1.0, 2.5]
    stations = tmp_path / "stations.csv"
    stations.write_text("peñón;lat;lon\nPeñón;40.7;-74\n", encoding="latin-1")
    words = [word for word in words if word not in GRID] + ["--points", stations]
    for one in ("roi=peñón", "delimiter=;", "encoding=latin-1"):
        words += ["--points-setting", one]
    result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert TraceCube(tmp_path / "cube").regions.names == ("Peñón",)


def test_only_rows_with_a_text_in_a_column_are_read(tmp_path, monkeypatch, capsys):
    source, cube = tmp_path / "taps.csv", tmp_path / "cube"
    flags = zip(LINES.splitlines(), ("Válida", "S", "N"), strict=True)
    source.write_text("\n".join(f"{line};{flag}" for line, flag in flags))
    words = ["ingest", source, cube, *PERIOD, *GRID, "--column", "user=card", "--column"]
    words += ["time=when", "--setting", "timezone=UTC", "--setting", "delimiter=;"]
    result = CliRunner().invoke(app, [*map(str, words), "--where", "Válida=S"])
    assert result.exit_code == 0, result.output
    assert "dropped: left out by where 1" in squeezed(result.output)
    assert TraceCube(cube).user_ids().tolist() == ["ann"]
    both = [*words, "--where", "Válida=S", "--where", "Válida=N", "--force"]
    assert "users 2" in squeezed(CliRunner().invoke(app, [*map(str, both)]).output)
    for where, message in (
        ("Válida", "--where 'Válida' is not NAME=VALUE, e.g. --where valid=yes"),
        ("Válida=s", "no row has 's' in Válida, as `--where` asks; its values are 'N', 'S'"),
    ):
        told = refused(*words, "--where", where, "--force", monkeypatch=monkeypatch, capsys=capsys)
        assert message in squeezed(told)
    words = ["ingest", source, cube, *PERIOD, *GRID, "--reader", "cabspotting", "--where", "a=b"]
    told = refused(*words, monkeypatch=monkeypatch, capsys=capsys)
    assert "where" in told


@pytest.mark.parametrize(
    ("area", "names"),
    [
        (("--geohash", "40.1,-74.6,40.8,-73.9/4"), {"dr5r", "dr5h"}),
        (
            ("--inspire", "48,2,49,3/50000"),
            {"CRS3035RES50000mN2850000E3750000", "CRS3035RES50000mN2800000E3750000"},
        ),
    ],
)
def test_places_of_codes(area, names, tmp_path):
    pytest.importorskip("pyproj")
    source = tmp_path / "events.csv"
    paris = LINES.replace("40.7;-74", "48.9;2.3").replace("40.2;-74.5", "48.4;2.4")
    source.write_text(LINES if area[0] == "--geohash" else paris)
    words = ["ingest", source, tmp_path / "cube", *PERIOD, *area, "--column", "user=card"]
    words += ["--column", "time=when", "--setting", "timezone=UTC", "--setting", "delimiter=;"]
    result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    cube = TraceCube(tmp_path / "cube")
    assert names <= set(cube.regions.names)
    assert (cube.n_users, cube.n_events) == (2, 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--column", "timezone=Europe/London"],
            "--column timezone: timezone is a setting of this reader; use --setting "
            "timezone=Europe/London",
        ),
        (
            ["--column", "delimiter=;"],
            "--column delimiter: delimiter is a setting of this reader; use --setting "
            "'delimiter=;'",
        ),
        (["--setting", "where=valid=yes"], "--setting where: use --where valid=yes"),
        (
            ["--setting", "user=card id"],
            "--setting user: user is a column of this reader; use --column 'user=card id'",
        ),
        (
            ["--column", "card=user"],
            "--column card: this reader has no such column; choose from user, stratum, time, hour, "
            "lat, lon, roi",
        ),
        (
            ["--reader", "cabspotting", "--column", "user=cab"],
            "--column user: this reader has no columns",
        ),
        (["--setting", "zone"], "--setting 'zone' is not NAME=VALUE, e.g. --setting timezone="),
        (
            ["--setting", "timezone=Mars"],
            "reader.events.timezone: 'Mars' is not an IANA name",
        ),
        (["--reader", "xml"], "unknown reader 'xml': choose from cabspotting, events, geojson"),
        (
            [],
            "reader events gives positions: specify the regions with `--grid`, `--points`, "
            "`--h3`, `--geohash` or `--inspire`",
        ),
        ([*GRID, "--h3", "x"], "give one of --grid, --points, --h3, --geohash and --inspire"),
        (["--cutoff", "5"], "--cutoff needs --points"),
        (["--points-setting", "delimiter=;"], "--points-setting needs --points"),
        (["--points-setting", ";"], "--points-setting ';' is not NAME=VALUE, e.g. "),
        (["--geohash", "40,-75,41,-73/12"], "geohash precision 12 is not between 1 and 9"),
        (
            ["--inspire", "40,-75,41,-73"],
            "inspire '40,-75,41,-73' is not south,west,north,east/METRES, e.g. ",
        ),
        (["--min-events", "0", *GRID], "`--min-events` is 0: a user of a cube has at least 1"),
        (["--top-users", "0", *GRID], "`--top-users` is 0: keep at least 1"),
        (
            [*GRID, "--column", "user=card", "--column", "time=when", "--setting", "delimiter=;"],
            "set the reader",
        ),
    ],
)
def test_what_is_refused_is_told_as_typed(words, message, tmp_path, monkeypatch, capsys):
    source = tmp_path / "events.csv"
    source.write_text(LINES)
    text = refused(
        "ingest", source, tmp_path / "cube", *PERIOD, *words, monkeypatch=monkeypatch, capsys=capsys
    )
    if message.startswith("set the reader"):
        assert "is a time without a zone: set `--setting timezone=`" in text
        assert "\nreader events accepts Parquet (.parquet" in text
    else:
        assert text.startswith(f"error: {message}")


def test_what_is_there_is_not_overwritten_without_the_flag(tmp_path, monkeypatch, capsys):
    source = tmp_path / "events.csv"
    source.write_text(LINES)
    words = ("synth", "milan", tmp_path / "cube", "--users", 40)
    assert CliRunner().invoke(app, list(map(str, words))).exit_code == 0
    text = refused(*words, monkeypatch=monkeypatch, capsys=capsys)
    assert text.endswith("already exists: choose another address, or overwrite it with `--force`")


def test_options_are_named_as_they_were_typed():
    assert option("force", "True") == "`force=True`"
    with typed_options():
        assert option("force", "True") == "`--force`"
        assert option("top_users") == "`--top-users`"
    assert option("top_users") == "`top_users`"


def test_the_summary_says_that_clocks_change(tmp_path):
    source = tmp_path / "taps.csv"
    source.write_text("user,timestamp,lat,lon\nann,2026-10-25T08:00:00,40.7,-74\n")
    words = ["ingest", source, tmp_path / "cube", "--start", "2026-10-25", "--epochs", "24"]
    words += ["--setting", "timezone=Europe/Madrid", *GRID]
    result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert "in this period 24 hours pass, but clocks show 23" in result.output
