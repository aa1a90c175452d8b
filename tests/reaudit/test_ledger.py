"""The ledger keeps every bit of every row, takes each number once, and rewrites nothing."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.verdicts import REASON, verdict

from clusterscale import storage
from clusterscale.errors import DamagedError, ExistsError, StoreError
from clusterscale.reauditing.ledger import Ledger
from clusterscale.release.verdict import key_of


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "out")


def filled(uri, n_rows):
    ledger = Ledger(uri)
    for number in range(n_rows):
        ledger.append(verdict(number))
    return ledger


def plain(rows):
    return [repr(asdict(row)) for row in rows]


def test_rows_come_back_in_order(uri):
    ledger = filled(uri, 12)
    again = Ledger(f"{uri}/")
    assert plain(again.rows) == plain(ledger.rows)
    assert len(again) == 12
    assert [row.number for row in again.rows] == list(range(12))


def test_nothing_there(uri):
    ledger = Ledger(uri)
    assert len(ledger) == 0
    assert ledger.keys() == set()
    assert ledger.last_of("daily", "day-0", 4) == []


@given(st.floats(), st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 2**40))
def test_every_bit_comes_back(tmp_path_factory, number, text, count):
    uri = str(tmp_path_factory.mktemp("ledger"))
    row = verdict(change=number, release=text, group_size=count)
    Ledger(uri).append(row)
    (found,) = Ledger(uri).rows
    assert (found.release, found.group_size) == (text, count)
    if not np.isnan(number):
        assert struct.pack("d", found.change) == struct.pack("d", number)
    assert np.isnan(found.change) == np.isnan(number)


def test_the_table_is_read_by_others(uri):
    filled(uri, 3)
    table = pd.read_parquet(f"{uri}/verdicts.parquet")
    assert table.number.tolist() == [0, 1, 2]
    assert table.published_auc.isna().all()
    assert np.isinf(table.epsilon_declared).all()
    assert table.epochs.dtype == np.int64
    assert table.change.dtype == np.float64


def test_a_row_is_never_written_twice(uri):
    ledger = filled(uri, 2)
    before = storage.read(f"{uri}/verdicts.parquet/00000001.parquet")
    second = Ledger(uri)
    ledger.append(verdict(2))
    with pytest.raises(ExistsError, match="is another process running"):
        second.append(verdict(2, verdict="fail"))
    assert len(second) == 2
    for number in (0, 1, 4):  # neither an old one nor one too many
        with pytest.raises(ExistsError):
            ledger.append(verdict(number, verdict="fail"))
    assert storage.read(f"{uri}/verdicts.parquet/00000001.parquet") == before
    assert plain(Ledger(uri).rows) == plain(ledger.rows)
    assert len(ledger) == 3


def test_one_of_many_writers_adds_a_row(uri):
    ledgers = [filled(uri, 1), *(Ledger(uri) for _ in range(5))]
    ledgers = [Ledger(uri) for _ in ledgers]

    def add(i):
        try:
            ledgers[i].append(verdict(1, release=f"{i}"))
        except ExistsError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(add, range(6)))
    assert sum(done) == 1
    assert Ledger(uri).rows[1].release == str(done.index(True))


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_row_that_is_missing_is_named(uri, lost):
    filled(uri, 4)
    storage.remove(f"{uri}/verdicts.parquet/{lost:08d}.parquet")
    with pytest.raises(DamagedError, match=f"row {lost} is missing before {lost + 1:08d}.parquet"):
        Ledger(uri)


def test_any_byte_that_is_changed_is_noticed_or_changes_nothing(uri):
    expected = plain(filled(uri, 1).rows)
    place = f"{uri}/verdicts.parquet/00000000.parquet"
    content = storage.read(place)
    noticed = 0
    for at in np.linspace(0, len(content) - 1, 200).astype(int):
        storage.put(place, content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        try:
            found = Ledger(uri).rows
        except DamagedError:
            noticed += 1
        else:
            assert plain(found) == expected
    assert noticed > 50


@pytest.mark.parametrize("content", [b"", b"PAR1", b"number\n0\n"])
def test_a_file_that_is_no_row(uri, content):
    storage.put(f"{uri}/verdicts.parquet/00000000.parquet", content)
    with pytest.raises(DamagedError, match=r"00000000\.parquet is not a row of this ledger"):
        Ledger(uri)


def test_a_row_that_is_a_link_to_nowhere(tmp_path):
    (tmp_path / "local/verdicts.parquet").mkdir(parents=True)
    (tmp_path / "local/verdicts.parquet/00000000.parquet").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DamagedError, match=r"00000000\.parquet is listed, but cannot be found"):
        Ledger(str(tmp_path / "local"))


def test_a_table_of_others(uri, tmp_path):
    filled(uri, 2)
    place = f"{uri}/verdicts.parquet/00000001.parquet"
    rows = pq.ParquetFile(place).read()
    good = rows.drop_columns("seal").set_column(
        rows.column_names.index("verdict"), "verdict", pa.array(["good"])
    )
    tables = [pa.concat_tables([rows, rows]), rows[:0], rows.select(["number"]), good]
    tables.append(rows.set_column(0, "number", pa.array(["1"])))
    tables.append(pa.Table.from_pylist([asdict(verdict(0))], schema=rows.schema))
    for table in tables:
        pq.write_table(table, place)
        with pytest.raises(DamagedError, match="is not a row of this ledger"):
            Ledger(uri)
    pq.write_table(good, place)
    with pytest.raises(DamagedError, match="its verdict is 'good'"):
        Ledger(uri)


def test_a_store_that_gives_out_is_not_called_damaged(uri, monkeypatch):
    filled(uri, 1)

    def fail(place):
        raise StoreError("busy")

    monkeypatch.setattr(storage, "read", fail)
    with pytest.raises(StoreError, match="busy"):
        Ledger(uri)


def test_the_last_ones_of_a_series(uri):
    ledger = Ledger(uri)
    told = [("daily", "a"), ("daily", "b"), ("other", "c"), ("daily", "a"), ("daily", "d")]
    for number, (series, release) in enumerate(told):
        ledger.append(verdict(number, series=series, release=release))
    assert [row.number for row in ledger.last_of("daily", "new", 9)] == [1, 3, 4]
    assert [row.number for row in ledger.last_of("daily", "new", 2)] == [3, 4]
    assert [row.number for row in ledger.last_of("daily", "d", 9)] == [1, 3]
    assert [row.number for row in ledger.last_of("other", "a", 9)] == [2]
    assert ledger.last_of("", "a", 9) == []


def test_what_is_judged_under_one_key(uri):
    row = verdict()
    assert row.key == key_of("daily", "day-0", "a0", "p")
    assert verdict(verdict="fail", number=0).key == row.key
    for name in ("series", "release", "audit", "policy"):
        assert verdict(**{name: "other"}).key != row.key
    assert filled(uri, 2).keys() == {verdict(0).key, verdict(1).key}
    assert row.span == (0, 24)
    assert row.why == [REASON]
