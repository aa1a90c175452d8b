"""Flags and statuses of values stay with them as a variable."""

import itertools

import numpy as np
import pytest

import clusterscale as cs

FLAGS = ("", "p", "b", "be")


def drawn(seed):
    """Return values (place, hour) and their flags; −1 is a hidden value, whose flag is ``c``."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-1, 50, (4, 6))
    return values, np.where(values < 0, "c", rng.choice(FLAGS, values.shape))


def text_of(value, flag):
    return f"{':' if value < 0 else value} {flag}".strip()


HOURS = [f"2026-03-02T{hour:02}:00Z" for hour in range(6)]


def write_long(path, values, flags):
    """One flag after the value, another in a column of statuses."""
    rows = ["zone,time,count,status"]
    for place, hour in itertools.product(range(4), range(6)):
        cell = place, hour
        rows.append(f"z{place},{HOURS[hour]},{text_of(values[cell], flags[cell])},{hour % 2 or ''}")
    path.write_text("\n".join(rows))
    return {"name": "long", "place": "zone", "status": "status", "flags": ["p", "b", "e"]}


def write_wide(path, values, flags):
    rows = [",".join(["zone", *HOURS])]
    rows += [",".join([f"z{i}", *map(text_of, values[i], flags[i])]) for i in range(4)]
    path.write_text("\n".join(rows))
    return {"name": "wide", "flags": ["p", "b", "e"]}


@pytest.mark.parametrize("write", [write_long, write_wide])
@pytest.mark.parametrize("seed", range(3))
def test_each_value_has_its_flags(write, seed, tmp_path):
    values, flags = drawn(seed)
    form = write(tmp_path / "t.csv", values, flags)
    table = cs.read_table(str(tmp_path / "t.csv"), form)
    np.testing.assert_array_equal(table["values"], np.where(values < 0, np.nan, values))
    if write is write_long:
        statuses = np.where(np.arange(6) % 2, " 1", "")
        flags = np.char.strip(np.char.add(flags, np.broadcast_to(statuses, flags.shape)))
    np.testing.assert_array_equal(table["flag"], flags)


def test_absent_rows_have_no_flag_and_other_formats_no_variable(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"place,time,count,s\na,{HOURS[0]},5,E\nb,{HOURS[1]},6,\n")
    form = {"name": "long", "status": "s", "absent": "hidden"}
    np.testing.assert_array_equal(cs.read_table(str(path), form)["flag"], [["E", ""], ["", ""]])
    plain = {"name": "long", "absent": "hidden"}
    assert "flag" not in cs.read_table(str(path), plain)
    added = {"name": "long", "status": "s", "absent": "hidden", "add_rows": True}
    assert "flag" not in cs.read_table(str(path), added)
