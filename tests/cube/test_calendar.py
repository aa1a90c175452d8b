"""Time: zones, summer time, steps, and what is no time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

from clusterscale.cube import Calendar
from clusterscale.cube.calendar import Step
from clusterscale.errors import InputError

CABS = Calendar.parse("2008-05-19T00:00", "1h", 504, "America/Los_Angeles")


def seconds(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp())


@for_each(
    ("start", "timezone", "utc"),
    [
        ("2008-05-19T00:00", "America/Los_Angeles", (2008, 5, 19, 7)),
        ("2008-12-19T00:00", "America/Los_Angeles", (2008, 12, 19, 8)),
        ("2008-05-19", "UTC", (2008, 5, 19)),
        ("2008-05-19T00:00", "Asia/Kathmandu", (2008, 5, 18, 18, 15)),
        ("2008-05-19T00:00+02:00", "America/Los_Angeles", (2008, 5, 18, 22)),
        ("2008-05-19T00:00:01Z", "Europe/Paris", (2008, 5, 19, 0, 0, 1)),
        # Shown twice: the first of the two, which is summer time.
        ("2008-11-02T01:30", "America/Los_Angeles", (2008, 11, 2, 8, 30)),
        ("1950-01-01T00:00", "UTC", (1950, 1, 1)),
    ],
)
def test_a_start_is_named_in_its_zone(start, timezone, utc):
    assert Calendar.parse(start, "1h", 1, timezone).start == seconds(*utc)


def test_epochs_are_elapsed_time_when_clocks_change():
    """On the day that summer time begins, 24 epochs end at one o'clock of the next day."""
    calendar = Calendar.parse("2008-03-09T00:00", "1h", 24, "America/Los_Angeles")
    assert np.diff(calendar.seconds()).tolist() == [3600] * 23
    assert calendar.describe() == (
        "Sun 2008-03-09 00:00 to Mon 2008-03-10 01:00 America/Los_Angeles"
    )
    skipped = np.array([seconds(2008, 3, 9, 9, 59, 59), seconds(2008, 3, 9, 10)])  # 01:59:59, 03:00
    assert calendar.locate(skipped).tolist() == [1, 2]


def test_describe_and_attributes():
    assert CABS.describe() == "Mon 2008-05-19 00:00 to Mon 2008-06-09 00:00 America/Los_Angeles"
    assert Calendar.from_attributes(CABS.attributes()) == CABS


@given(
    start=st.integers(-(2**32), 2**32),
    step=st.integers(1, 86_400),
    n_epochs=st.integers(1, 1000),
    offset=st.integers(-(10**8), 10**8),
)
def test_locate_against_division(start, step, n_epochs, offset):
    calendar = Calendar(start, step, n_epochs, "UTC")
    epoch = offset // step
    expected = epoch if 0 <= epoch < n_epochs else -1
    moments = np.array([start + offset])
    assert calendar.locate(moments).tolist() == [expected]
    assert calendar.locate(moments.astype(float)).tolist() == [expected]
    assert calendar.locate(calendar.seconds()).tolist() == list(range(n_epochs))
    assert calendar.locate(calendar.seconds() + step - 1).tolist() == list(range(n_epochs))
    ends = np.array([start - 1, start + step * n_epochs])
    assert calendar.locate(ends).tolist() == [-1, -1]


def test_locate_any_number():
    begin = float(CABS.start)
    odd = np.array([[np.nan, np.inf, -np.inf], [begin, begin + 3599.9, begin - 1e-3]])
    assert CABS.locate(odd).tolist() == [[-1, -1, -1], [0, 0, -1]]
    assert CABS.locate(np.array([], np.int64)).tolist() == []
    long = Calendar(CABS.start, 1, 2_000_000_000, "UTC")
    assert long.locate(np.array([0, 5], np.uint32)).tolist() == [-1, -1]  # before, not wrapped
    assert long.locate(np.array([CABS.start + 9], np.uint64)).tolist() == [9]
    assert CABS.locate(np.array([100], np.int8)).tolist() == [-1]


@for_each(
    ("text", "expected"),
    [
        ("90s", 90),
        ("15min", 900),
        ("1h", 3600),
        ("24 h", 86_400),
        (" 1d ", 86_400),
        ("2w", 1_209_600),
    ],
)
def test_steps(text, expected):
    assert Step.parse(text).seconds == expected


@for_each("text", ["", "h", "1", "0h", "-1h", "1.5h", "1 hour", "1y", "1H", "h1"])
def test_wrong_steps(text):
    with pytest.raises(InputError) as caught:
        Step.parse(text)
    assert (
        str(caught.value) == f"epoch {text!r} is not a step such as 90s, 15min, 1h, 1d, 1w or 1mo"
    )


ZONE = "is not an IANA name such as 'Europe/London' or 'UTC'"
ISO = "is not an ISO date and time such as '2008-05-19T00:00'"
MEANT = "is not an ISO date and time: write what is meant,"
EITHER = "2008-04-05 or 2008-05-04"
LEAVES = "the calendar leaves the years 1678 to 2261"


@for_each(
    ("change", "message"),
    [
        ({"start": "19/05/2008"}, f"start '19/05/2008' {MEANT} 2008-05-19"),
        ({"start": "5.4.2008 6:00"}, f"start '5.4.2008 6:00' {MEANT} {EITHER}"),
        ({"start": "04/04/2008"}, f"start '04/04/2008' {MEANT} 2008-04-04"),
        ({"start": "19/19/2008"}, f"start '19/19/2008' {ISO}"),
        ({"start": "05/04/20081"}, f"start '05/04/20081' {ISO}"),
        ({"start": ""}, f"start '' {ISO}"),
        ({"start": "2008-02-30"}, f"start '2008-02-30' {ISO}"),
        (
            {"start": "2008-05-19T00:00:00.5"},
            "start '2008-05-19T00:00:00.5' is not in whole seconds",
        ),
        (
            {"start": "2008-03-09T02:30"},
            "start '2008-03-09T02:30' does not exist: clocks in America/Los_Angeles skip it",
        ),
        ({"start": "0001-01-01"}, LEAVES),
        ({"start": "9999-12-31"}, LEAVES),
        ({"n_epochs": 100_000_000}, LEAVES),
        ({"step": "999999999999d"}, LEAVES),
        ({"n_epochs": 0}, "epochs is 0: a cube has at least 1"),
        ({"n_epochs": 2**31}, "epochs is 2147483648: a cube has at most 2147483647"),
        ({"timezone": "Mars/Olympus"}, f"timezone 'Mars/Olympus' {ZONE}"),
        ({"timezone": ""}, f"timezone '' {ZONE}"),
        ({"timezone": "America"}, f"timezone 'America' {ZONE}"),
        ({"timezone": "../UTC"}, f"timezone '../UTC' {ZONE}"),
    ],
)
def test_what_is_no_calendar(change, message):
    fields = {"start": "2008-05-19", "step": "1h", "n_epochs": 24}
    with pytest.raises(InputError) as caught:
        Calendar.parse(**{**fields, "timezone": "America/Los_Angeles", **change})
    assert str(caught.value) == message


def test_a_step_must_be_positive():
    with pytest.raises(InputError, match="an epoch of 0 s is not positive"):
        Calendar(0, 0, 1, "UTC")


def test_times_fit_what_xarray_shows():
    for calendar in (
        Calendar.parse("1678-01-01", "1h", 1, "UTC"),
        Calendar.parse("2261-12-31", "1d", 1, "UTC"),
    ):
        shown = calendar.seconds().astype("datetime64[s]").astype("datetime64[ns]")
        assert shown.astype("datetime64[s]").astype(np.int64).tolist() == [calendar.start]
    assert Calendar.parse("2261-12-31", "1d", 1, "UTC").describe().startswith("Tue 2261-12-31")
    assert timedelta(seconds=CABS.step) == timedelta(hours=1)


def test_clocks_are_local_and_may_show_an_hour_twice():
    def shown(calendar):
        return calendar.clocks().astype("datetime64[s]").astype(str).tolist()

    hours = CABS.clocks().astype("datetime64[s]")
    assert hours[0] == np.datetime64("2008-05-19T00:00:00")
    assert (np.diff(hours) == np.timedelta64(3600, "s")).all()
    autumn = Calendar.parse("2008-11-02T00:00", "1h", 4, "America/Los_Angeles")
    assert [time[11:13] for time in shown(autumn)] == ["00", "01", "01", "02"]
    spring = Calendar.parse("2008-03-09T01:00", "1h", 2, "America/Los_Angeles")
    assert [time[11:13] for time in shown(spring)] == ["01", "03"]
    old = Calendar.parse("1950-06-01T12:30", "1d", 1, "Asia/Kathmandu")
    assert shown(old) == ["1950-06-01T12:30:00"]


@pytest.mark.parametrize(
    ("start", "step", "n", "zone", "said"),
    [
        (
            *("2026-10-05", "1h", 672, "Europe/Madrid"),
            "672 hours pass, but clocks show 671; 673 end with the last day",
        ),
        ("2026-10-05", "1h", 673, "Europe/Madrid", "673 hours pass, but clocks show 672"),
        ("2026-03-09", "1h", 671, "Europe/Madrid", "671 hours pass, but clocks show 672"),
        (
            *("2026-03-09", "1h", 672, "Europe/Madrid"),
            "672 hours pass, but clocks show 673; 671 end with the last day",
        ),
        ("2026-10-05T06:00", "1h", 672, "Europe/Madrid", "672 hours pass, but clocks show 671"),
        ("2026-10-19", "1d", 7, "Europe/Madrid", "169 hours pass, but clocks show 168"),
        ("2026-04-01", "1h", 24, "Australia/Lord_Howe", ""),
        (
            "2026-04-05",
            "1h",
            24,
            "Australia/Lord_Howe",
            "24 hours pass, but clocks show 23.5; 24.5 end with the last day",
        ),
        ("2026-01-01", "1d", 365, "Europe/Madrid", ""),
        ("2026-10-05", "1h", 672, "UTC", ""),
    ],
)
def test_a_period_in_which_clocks_change_says_so(start, step, n, zone, said):
    row = Calendar.parse(start, step, n, zone).describe_clock_change((0, n))
    assert row == ({"clocks change": f"in this period {said}"} if said else {})


def test_days_are_those_of_the_zone_also_where_clocks_change():
    autumn = Calendar.parse("2026-10-19T06:00", "1h", 500, "Europe/Lisbon")
    assert autumn.span_of_days(date(2026, 10, 19), date(2026, 10, 25)) == (0, 163)  # 169 less 6
    assert autumn.span_of_days(date(2026, 10, 26), date(2026, 11, 1)) == (163, 331)
    weeks = Calendar.parse("2026-10-19", "1w", 4, "Europe/Lisbon")
    assert weeks.span_of_days(date(2026, 10, 26), date(2026, 11, 1)) == (1, 2)
    for first, last in ((25, 24), (18, 20), (20, 20)):
        with pytest.raises(InputError, match="are not in"):
            weeks.span_of_days(date(2026, 10, first), date(2026, 10, last))
