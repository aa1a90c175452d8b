"""Times of tables: steps of the calendar, hours that clocks skip or repeat, lengths and periods."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.cube.calendar import Calendar, Step
from clusterscale.errors import ConfigError, InputError, SourceError
from clusterscale.reading.clock import Clock
from clusterscale.release import TABLE_FORMATS, RawRelease

ZONES = ["UTC", "Europe/London", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu"]


def read(folder, rows, name="t.csv", **settings):
    """Read rows of place, time and count, separated by spaces."""
    path = folder / name
    lines = ["place,time,count", *(row.replace(" ", ",") for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return TABLE_FORMATS.create("long", **settings).read(str(path))


def shown(table, zone="UTC"):
    """Return the first second of each epoch as local text."""
    seconds = table.epochs.astype("datetime64[s]").astype(np.int64).tolist()
    return [f"{datetime.fromtimestamp(each, ZoneInfo(zone)):%Y-%m-%dT%H:%M%z}" for each in seconds]


@given(
    st.sampled_from(ZONES),
    st.datetimes(datetime(1990, 1, 1), datetime(2035, 1, 1)),
    st.sampled_from(["1d", "3d", "1w", "1mo", "5mo", "24h"]),
    st.integers(2, 40),
)
def test_steps_are_those_of_the_calendar(zone, begin, step, n):
    begin = begin.replace(day=min(begin.day, 28), hour=0, minute=0, second=0, microsecond=0)
    local = begin.replace(tzinfo=ZoneInfo(zone))
    if datetime.fromtimestamp(local.timestamp(), local.tzinfo).hour:  # clocks skip midnight
        with pytest.raises(InputError, match="does not exist"):
            Calendar.parse(begin.isoformat(), step, n, zone)
        return
    calendar = Calendar.parse(begin.isoformat(), step, n, zone)
    begins, ends = calendar.seconds(), calendar.begins(1, n)
    if step == "24h":
        assert (np.diff(begins) == 86400).all()
    else:  # as local clocks show them, unless they skip midnight
        days = [datetime.fromtimestamp(each, ZoneInfo(zone)).date() for each in begins.tolist()]
        if step.endswith("mo"):
            months = [12 * day.year + day.month for day in days]
            assert set(np.diff(months).tolist()) == {int(step[:-2])}
        else:
            n_days = {"1d": 1, "3d": 3, "1w": 7}[step]
            assert days == [begin.date() + timedelta(days=n_days * i) for i in range(n)]
    assert calendar.locate(begins).tolist() == calendar.locate(ends - 1).tolist() == [*range(n)]
    assert calendar.locate(np.array([begins[0] - 1, ends[-1], np.nan])).tolist() == [-1, -1, -1]
    assert Calendar.from_attributes(calendar.attributes()) == calendar
    found = Step.between(begins, zone)
    assert (found.begins(int(begins[0]), n, zone) == begins).all()


@pytest.mark.parametrize("step", [None, "1d"])
def test_local_days_over_a_change_of_clocks(step, tmp_path):
    rows = [f"a 2026-03-{day} {day}" for day in range(27, 32)]
    table = read(tmp_path, rows, timezone="Europe/London", step=step)
    assert table.values.tolist() == [[27, 28, 29, 30, 31]]
    assert shown(table, "Europe/London")[1:4] == [
        *("2026-03-28T00:00+0000", "2026-03-29T00:00+0000", "2026-03-30T00:00+0100")
    ]
    with pytest.raises(SourceError, match="times are not 86400 s apart: 2026-03-30T00:00:00"):
        read(tmp_path, rows, timezone="Europe/London", step="24h")


@pytest.mark.parametrize("step", ["1d", "1w", "1mo"])
def test_days_of_a_zone_that_is_not_stated_follow_each_other(step, tmp_path):
    """Releases are written in UTC, and read again without the zone of their cube."""
    calendar = Calendar.parse("2026-03-20T00:00", step, 12, "Europe/London")
    days = calendar.seconds().astype("datetime64[s]")
    form, uri = TABLE_FORMATS.create("long"), str(tmp_path / "t.csv")
    form.write(uri, RawRelease(np.ones((1, 12)), ("a",), days))
    assert (form.read(uri).epochs == days).all()
    form.write(uri, RawRelease(np.ones((1, 11)), ("a",), np.delete(days, 5)))
    with pytest.raises(SourceError, match="times are not"):  # one is missing
        form.read(uri)


@pytest.mark.parametrize(
    ("times", "begins"),
    [
        (["2026-01", "2026-02", "2026-04"], [f"2026-0{month}-01" for month in range(1, 5)]),
        (["2026-M01", "2026-M02", "2026-M03"], ["2026-01-01", "2026-02-01", "2026-03-01"]),
        (["2026-W01", "2026-W02"], ["2025-12-29", "2026-01-05"]),
        (["2026-Q1", "2026-Q2", "2026-Q3"], ["2026-01-01", "2026-04-01", "2026-07-01"]),
    ],
)  # fmt: skip
def test_weeks_months_and_quarters(times, begins, tmp_path):
    rows = [f"a {time} {i}" for i, time in enumerate(times)]
    table = read(tmp_path, rows, timezone="Europe/Madrid", absent="hidden")
    assert [text[:10] for text in shown(table, "Europe/Madrid")] == begins


def test_midnight_may_be_that_of_the_day_before(tmp_path):
    rows = ["a 2026-03-28T23:00 1", "a 2026-03-28T24:00 2", "a 2026-03-29T01:00Z 3"]
    table = read(tmp_path, rows, timezone="Europe/London")
    assert table.values.tolist() == [[1, 2, 3]]
    assert shown(table)[1] == "2026-03-29T00:00+0000"


@pytest.mark.parametrize(
    ("lengths", "step", "message"),
    [
        ("PT1H PT1H", "1h", None),
        ("PT60M PT60M", "1h", None),
        ("PT1H PT1H", None, "line 2, .* states its length, PT1H, and `step` is not .*`step: 1h`"),
        ("PT1H PT2H", "1h", "line 3, column time: .*PT2H, and `step` is 1h: set `step: 2h`"),
        ("PT1H30M PT1H30M", "90min", "its epochs are of no such length"),
    ],
)
def test_lengths_of_times_are_those_of_epochs(lengths, step, message, tmp_path):
    times = zip(("08", "09"), lengths.split(), strict=True)
    rows = [f"a 2026-03-02T{hour}:00Z/{length} 5" for hour, length in times]
    if message is None:
        assert len(read(tmp_path, rows, step=step).epochs) == 2
        return
    with pytest.raises(SourceError, match=message):
        read(tmp_path, rows, step=step)


AUTUMN = [f"{place} 2026-10-25T0{hour}:00 {value}" for place in "ab" for hour, value in
          enumerate((10, 11, 12, 13))]  # fmt: skip
REPEATED = [*AUTUMN[:3], "a 2026-10-25T02:00 92", *AUTUMN[3:7], "b 2026-10-25T02:00 93", AUTUMN[7]]


def test_an_hour_that_clocks_repeat_is_told_apart_by_order(tmp_path):
    with pytest.raises(SourceError, match=r"listed 2 times: .* `repeated_hour: in_order` keeps"):
        read(tmp_path, REPEATED, timezone="Europe/Madrid")
    table = read(tmp_path, REPEATED, timezone="Europe/Madrid", repeated_hour="in_order")
    assert table.values.tolist() == [[10, 11, 12, 92, 13], [10, 11, 12, 93, 13]]
    assert np.diff(table.epochs.astype(int)).tolist() == [3600] * 4
    assert table.changes == ()


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("a 2026-10-25T02:00 94", "'a', 2026-10-25T02:00:00[+]01:00 is listed 2 times"),
        ("a 2026-10-25T01:00 94", "'a', 2026-10-25T01:00:00[+]02:00 is listed 2 times"),
        ("a 2026-10-25T02:00+02:00 94", "'a', 2026-10-25T02:00:00[+]02:00 is listed 2 times"),
    ],
)
def test_other_rows_that_repeat_are_refused_even_so(row, told, tmp_path):
    with pytest.raises(SourceError, match=told):
        read(tmp_path, [*REPEATED, row], timezone="Europe/Madrid", repeated_hour="in_order")


@pytest.mark.parametrize("settings", [{}, {"time_format": "%Y-%m-%dT%H:%M"}])
def test_an_hour_that_clocks_skip_is_left_out_if_that_is_set(settings, tmp_path):
    rows = [f"a 2026-03-29T0{hour}:00 {hour}" for hour in range(5)]
    settings = {"timezone": "Europe/Madrid", **settings}
    with pytest.raises(SourceError, match=r"line 4, column time: .*clocks in Europe/Madrid skip"):
        read(tmp_path, rows, **settings)
    table = read(tmp_path, rows, skipped_hour="drop", **settings)
    assert table.values.tolist() == [[0, 1, 3, 4]]
    assert table.changes == ("1 row of an hour that clocks skip was left out",)
    with pytest.raises(SourceError, match="line 7, column time"):
        read(tmp_path, [*rows, "a soon 3"], skipped_hour="drop", **settings)
    if "time_format" not in settings:
        with pytest.raises(SourceError, match="the time is 1969-12-31T23:59:59"):
            read(tmp_path, [*rows, "a -1 3"], skipped_hour="drop", **settings)


def test_the_name_of_a_file_may_have_its_time(tmp_path):
    form = {"at_name": "flows_(.*)[.]csv", "step": "1d", "timezone": "Europe/London"}
    for day in (28, 29):
        read(tmp_path, [f"a x {day}"], name=f"flows_2026-03-{day}.csv", **form)
    table = TABLE_FORMATS.create("long", **form).read(str(tmp_path))
    assert table.values.tolist() == [[28, 29]]
    with pytest.raises(SourceError, match=r"t.csv: its name does not contain a time as of `at_na"):
        read(tmp_path, ["a x 1"], **form)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"at_name": "(a)(b)"}, "at_name: .* has 2 groups"),
        ({"at_name": "("}, "at_name: .* is no regular expression"),
        ({"at_name": "(a)", "at": "2026-03-02", "step": "1d"}, "give one of at, at_name"),
        ({"repeated_hour": "in_order", "add_rows": True}, "repeated_hour: rows of one place"),
        ({"step": "1y"}, "step: .*1d, 1w or 1mo"),
    ],
)
def test_settings_of_times_that_contradict_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        TABLE_FORMATS.create("long", **settings)


SDMX = "REF_AREA,TIME_PERIOD,OBS_VALUE,OBS_STATUS,CONF_STATUS\n"


def test_code_lists_of_sdmx_are_kept_apart(tmp_path):
    """S is a strike in one list, and secondary confidentiality in the other."""
    path = tmp_path / "t.csv"
    rows = "ES51,2026-03-02,1200,A,F\nES51,2026-03-03,310,S,F\nES51,2026-03-04,,Q,F\n"
    path.write_text(SDMX + rows + "ES51,2026-03-05,,A,S\n")
    form = {"timezone": "UTC", "confidentiality": "CONF_STATUS"}
    values = TABLE_FORMATS.create("sdmx_csv", **form).read(str(path)).values
    np.testing.assert_array_equal(values, [[1200, 310, np.nan, np.nan]])
    path.write_text(SDMX + rows + "ES51,2026-03-05,7,A,S\n")
    with pytest.raises(
        SourceError, match=r"line 5, column OBS_VALUE: .* its status is 'S', hidden"
    ):
        TABLE_FORMATS.create("sdmx_csv", **form).read(str(path))


def test_arrays_of_hours_are_read(tmp_path):
    path = tmp_path / "patterns.csv"
    head = "placekey,date_range_start,raw_visit_counts,visits_by_each_hour\n"
    rows = 'p,2026-03-08T00:00:00-06:00,9,"[0,0,4,5]"\nq,2026-03-08T01:00:00-06:00,9,"[4,1]"\n'
    path.write_text(head + rows)
    form = TABLE_FORMATS.create("safegraph", absent="hidden")
    table = form.read(str(path))
    assert table.rois == ("p", "q")
    np.testing.assert_array_equal(table.values, [[0, 0, 4, 5], [np.nan, 4, 1, np.nan]])
    assert shown(table)[0] == "2026-03-08T06:00+0000"
    with pytest.raises(InputError, match="tables are not written as safegraph"):
        form.write(str(tmp_path / "again.csv"), table)
    for wrong in (
        '"[0,""1""]"',
        "[]",
        "7",
        '"{""a"":1}"',
        '"[1,null]"',
        '"[1,NaN]"',
        f'"[1{"0" * 400}]"',
        "",
    ):
        path.write_text(head + rows + f"r,2026-03-08T00:00:00-06:00,9,{wrong}\n")
        with pytest.raises(SourceError, match="line 4, column visits_by_each_hour: the value is n"):
            form.read(str(path))
    path.write_text(head + rows + 'p,2026-03-08T02:00:00-06:00,9,"[4]"\n')
    with pytest.raises(SourceError, match="'p', 2026-03-08T08:00:00 is listed 2 times"):
        form.read(str(path))


@pytest.mark.parametrize("zone", ["Europe/Madrid", "America/New_York", "America/Havana", "UTC",
                                  "Atlantic/Azores", "Australia/Lord_Howe"])  # fmt: skip
def test_hours_that_clocks_repeat_are_those_of_the_zone(zone):
    """The oracle is the ``fold`` of Python's own local times."""
    first = 1_704_067_200  # 2024
    expected, local = [], []
    for second in range(first, first + 2 * 366 * 86_400, 1800):
        shown = datetime.fromtimestamp(second, ZoneInfo(zone))
        if shown.fold == 0:
            again = shown.replace(fold=1).timestamp()
            expected.append(int(again) if again != second else -1)
            local.append(second)
    found = Clock(zone).repeats(pa.repeat("2024-01-01T02:00", len(local)), np.array(local))
    assert found.tolist() == expected
    assert (found >= 0).any() == (zone != "UTC")
