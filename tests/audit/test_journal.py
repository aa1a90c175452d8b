"""Batches come back as they were put, bit by bit; a torn one is named."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.outcomes import outcome

from clusterscale.analyses.audit.journal import Entry, Journal
from clusterscale.analyses.dp_audit import EvaluationJournal
from clusterscale.analyses.dp_audit.evaluation_task import MechanismEvaluation
from clusterscale.errors import DamagedError

KEY = (7, "first week", "known_subset(alpha=0.2)", 100)


@given(st.floats(allow_nan=True))
def test_numbers_keep_their_bits(tmp_path_factory, number):
    journal = Journal(str(tmp_path_factory.mktemp("journal")))
    journal.add([Entry(KEY, (outcome(auc=number), outcome(accuracy=number)))])
    (entry,) = journal.read(0)
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
    journal.add([Entry(KEY, (told,))])
    assert journal.read(0) == [Entry(KEY, (told,))]


def test_a_batch_keeps_its_tasks_apart(tmp_path):
    other, lost = (8, *KEY[1:]), (9, *KEY[1:])
    batch = [
        Entry(KEY, (outcome(), outcome(auc=0.25))),
        Entry(lost, error="MemoryError: no room", traceback="line 7"),
        Entry(other, (outcome(auc=0.75),)),
    ]
    assert Journal(str(tmp_path)).add(batch) == 0
    journal = Journal(str(tmp_path))
    assert journal.n_files == 1
    assert journal.read(0) == batch
    assert journal.keys(0) == [(KEY, False), (lost, True), (other, False)]


@pytest.mark.parametrize("order", [1, -1])
def test_a_price_counts_before_a_failure_in_any_order(tmp_path, order):
    journal, key = EvaluationJournal(str(tmp_path)), ("first week", 100)
    for price in (
        MechanismEvaluation(key, error="MemoryError: no room", traceback="…"),
        MechanismEvaluation(key),
    )[::order]:
        journal.add(price)
    assert journal.read() == {key: MechanismEvaluation(key)}


def test_what_was_being_written_when_the_driver_died_is_ignored(tmp_path):
    Journal(str(tmp_path)).add([Entry(KEY, (outcome(),))])
    (tmp_path / "0123.partial").write_bytes(b"half an ent")
    journal = Journal(str(tmp_path))
    assert journal.n_files == 1
    assert [entry.key for entry in journal.read(0)] == [KEY]


def test_a_damaged_entry_is_named(tmp_path):
    Journal(str(tmp_path)).add([Entry(KEY, (outcome(),))])
    (file,) = tmp_path.glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-7])
    journal = Journal(str(tmp_path))
    for look in (journal.keys, journal.read):
        with pytest.raises(DamagedError, match=rf"{file.name}: this entry of the journal cannot"):
            look(0)
