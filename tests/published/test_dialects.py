"""Tables in random dialects are read back equal: marks, encodings, zones, clocks, codes, rows."""

import gzip
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from clusterscale.release import TABLE_FORMATS

NAMES = ["00043", "43", "Łódź", "São Paulo", "İzmir", "NA", "null", "1e5", "a b", "Köln", "x,y;z"]
HIDDEN = ["*", "-1", "c", "<5", "< 10", "", "n.a."]
STAMPS = ["%d/%m/%Y %H:%M", "%Y%m%d%H%M", "%m-%d-%y %I:%M %p", "%Y-%m-%d %H:%M %z"]
ENCODINGS = ["utf-8", "utf-8", "latin-1", "cp1252", "cp1250", "iso-8859-9"]
CLOCKS = ["zoned", "local", "seconds", "milliseconds", "format", "hour"]


def encodes(text, encoding):
    try:
        return text.encode(encoding).decode(encoding) == text
    except UnicodeEncodeError:
        return False


class Dialect:
    """A random way to write a table, and the settings that read it."""

    def __init__(self, rng):
        def one_of(*choices):
            return choices[rng.integers(len(choices))]

        self.clock, comma = one_of(*CLOCKS), one_of(True, False)
        self.settings = {
            "delimiter": one_of(*",;\t|"),
            "decimal_comma": comma,
            "thousands": one_of(None, "'", " ", "." if comma else ","),
            "encoding": one_of(*ENCODINGS),
            "skip": one_of(0, 0, 1, 3),
            "notes": one_of([], ["Source"], ["*", "Source"]),
            "hidden": HIDDEN[:3] + HIDDEN[5:],
            "timezone": one_of("UTC", "Europe/London", "Asia/Kathmandu"),
            "absent": one_of(None, "zero", "hidden"),
            "where": one_of({}, {"sex": ["_T", "all"]}),
            "empty": one_of("hidden", "zero"),
        }
        if self.clock == "milliseconds":
            self.settings["milliseconds"] = True
        if self.clock == "format":
            self.settings["time_format"] = one_of(*STAMPS)
        if self.clock == "hour":
            self.settings |= {"hour": "hour", "hours": one_of("0-23", "1-24", "hhmm")}

    def number(self, value):
        """Return a number as text."""
        whole, _, part = f"{abs(value):.2f}".partition(".")
        settings, part = self.settings, part.rstrip("0")
        mark = settings["thousands"]
        if mark == " " and encodes("\u00a0", settings["encoding"]):
            mark = "\u00a0"
        grouped = f"{int(whole):,}".replace(",", mark or "")
        decimal = "," if settings["decimal_comma"] else "."
        return ("-" if value < 0 else "") + grouped + (decimal + part if part else "")

    def time(self, moment):
        """Return the texts of a time, in one column or two."""
        local = moment.astimezone(ZoneInfo(self.settings["timezone"]))
        seconds = int(moment.timestamp())
        if self.clock == "hour":
            hours = {"0-23": local.hour, "1-24": local.hour + 1, "hhmm": f"{local:%H%M}"}
            return [f"{local:%Y-%m-%d}", str(hours[self.settings["hours"]])]
        texts = {"zoned": local.isoformat(), "local": f"{local:%Y-%m-%d %H:%M:%S}"}
        texts |= {"seconds": str(seconds), "milliseconds": f"{seconds}000"}
        return [texts.get(self.clock) or f"{local:{self.settings.get('time_format')}}"]

    def file(self, rows, rng):
        """Return the bytes of a file with rows of fields."""
        delimiter, end = self.settings["delimiter"], "\r\n" if rng.random() < 0.3 else "\n"

        def line(fields):
            quoted = [
                f'"{field}"' if set(field) & set(delimiter + '"') else field for field in fields
            ]
            return delimiter.join(quoted)

        hour = ["hour"] * (self.clock == "hour")
        lines = ["A title"] * self.settings["skip"]
        lines.append(line(["sex", "place", "time", *hour, "count"]))
        lines += [line(fields) for fields in rows]
        lines += [f"{note}: an office{delimiter}" for note in self.settings["notes"]]
        encoding = self.settings["encoding"]
        return (end.join(lines) + end).encode("utf-8-sig" if encoding == "utf-8" else encoding)


def make(seed):
    """Return the file and the settings of a random table, its places, first time and values."""
    rng = np.random.default_rng(seed)
    dialect = Dialect(rng)
    settings = dialect.settings
    known = [name for name in NAMES if encodes(name, settings["encoding"])]
    names = sorted(rng.choice(known, rng.integers(1, 4), replace=False).tolist())
    # In winter; on whole local hours, of which the last may be that before midnight.
    begin = datetime(2026, 1, int(rng.integers(1, 28)), int(rng.integers(0, 23)), tzinfo=UTC)
    if settings["timezone"] == "Asia/Kathmandu":
        begin += timedelta(minutes=15)
    shape = (len(names), int(rng.integers(3, 6)))
    values = rng.choice([0, 7, 1234, 1234567, 99.5, 1000.25, -12345.5], shape)
    values[rng.random(shape) < 0.2] = np.nan
    values[0, :2] = 1234.5, 7  # the first two are there, so that the step is known
    rows, expected = [], values.copy()
    for (i, epoch), value in np.ndenumerate(values):
        fields = [names[i], *dialect.time(begin + timedelta(hours=epoch))]
        group = rng.choice(["_T", "all"])
        if settings["where"]:
            rows.append(["F", *fields, "3"])
        if settings["absent"] and epoch > 1 and rng.random() < 0.3:
            expected[i, epoch] = 0 if settings["absent"] == "zero" else np.nan
            continue
        text = rng.choice(HIDDEN) if np.isnan(value) else dialect.number(value)
        if not text and settings["empty"] == "zero":
            expected[i, epoch] = 0
        rows.append([group, *fields, text])
    if settings["absent"]:  # a place and a time that no row of these has are not read
        expected = expected[:, : 1 + max(read_epochs(rows, dialect, begin, shape[1]))]
    rng.shuffle(rows)
    return dialect.file(rows, rng), settings, names, begin, expected


def read_epochs(rows, dialect, begin, n_epochs):
    """Yield the epochs of the rows that are read."""
    times = {tuple(dialect.time(begin + timedelta(hours=n))): n for n in range(n_epochs)}
    for group, _, *time, _ in rows:
        if group != "F":
            yield times[tuple(time)]


@pytest.mark.parametrize("seeds", [range(50), pytest.param(range(50, 500), marks=pytest.mark.slow)])
def test_a_table_in_any_dialect_is_read_as_it_was_written(seeds, tmp_path):
    for seed in seeds:
        content, settings, names, begin, expected = make(seed)
        path = tmp_path / ("t.csv" if seed % 4 else "t.csv.gz")
        path.write_bytes(content if seed % 4 else gzip.compress(content))
        table = TABLE_FORMATS.create("long", **settings).read(str(path))
        assert list(table.rois) == names, (seed, settings)
        np.testing.assert_array_equal(table.values, expected, err_msg=f"{seed}: {settings}")
        assert table.epochs[0] == np.datetime64(begin.replace(tzinfo=None)), (seed, settings)
