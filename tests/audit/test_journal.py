"""Entries come back as they were put, bit by bit; a torn one is named."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.outcomes import outcome

from clusterscale.audit.journal import Entry, Journal
from clusterscale.errors import DamagedError

KEY = (7, "first week", "known_subset(alpha=0.2)", 100)


@given(st.floats(allow_nan=True))
def test_numbers_keep_their_bits(tmp_path_factory, number):
    journal = Journal(str(tmp_path_factory.mktemp("journal")))
    journal.add(Entry(KEY, (outcome(auc=number), outcome(accuracy=number))))
    (entry,) = journal.entries().values()
    assert entry.key == KEY
    assert struct.pack("d", entry.outcomes[0].auc) == struct.pack("d", number)
    assert struct.pack("d", entry.outcomes[1].accuracy) == struct.pack("d", number)


@given(
    st.lists(st.integers(0, 2**40), max_size=30), st.integers(0, 2**40), st.floats(allow_nan=False)
)
def test_counts_and_every_other_field_come_back(tmp_path_factory, counts, n_challenges, bound):
    journal = Journal(str(tmp_path_factory.mktemp("journal")))
    told = outcome(
        level_inside=tuple(counts), level_outside=(), n_challenges=n_challenges, auc_low=bound
    )
    journal.add(Entry(KEY, (told,)))
    assert journal.entries() == {KEY: Entry(KEY, (told,))}


@pytest.mark.parametrize("order", [1, -1])
def test_a_success_counts_before_a_failure_in_any_order(tmp_path, order):
    journal = Journal(str(tmp_path))
    for entry in (Entry(KEY, error="MemoryError: no room"), Entry(KEY, (outcome(),)))[::order]:
        journal.add(entry)
    assert journal.entries() == {KEY: Entry(KEY, (outcome(),))}


def test_what_was_being_written_when_the_driver_died_is_ignored(tmp_path):
    journal = Journal(str(tmp_path))
    journal.add(Entry(KEY, (outcome(),)))
    (tmp_path / "0123.partial").write_bytes(b"half an ent")
    assert list(journal.entries()) == [KEY]


def test_a_damaged_entry_is_named(tmp_path):
    journal = Journal(str(tmp_path))
    journal.add(Entry(KEY, (outcome(),)))
    (file,) = tmp_path.glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(DamagedError, match=rf"{file.name}: this entry of the journal cannot be"):
        journal.entries()
