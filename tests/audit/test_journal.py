"""Batches come back as they were put, bit by bit; a torn one is named."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.outcomes import outcome

from clusterscale.analyses.audit.analysis import _Writer
from clusterscale.analyses.audit.finished_tasks import Entry, entries_in
from clusterscale.analyses.dp_audit.evaluation import (
    MechanismEvaluation,
    evaluations_in,
    read_evaluations,
)
from clusterscale.errors import DamagedError, ExistsError, StoreError
from clusterscale.study.identity import Identity, run_in

KEY = (7, "first week", "known_subset(alpha=0.2)", 100)


@given(st.floats(allow_nan=True))
def test_numbers_keep_their_bits(tmp_path_factory, number):
    records = entries_in(str(tmp_path_factory.mktemp("journal")))
    records.add([Entry(KEY, (outcome(auc=number), outcome(accuracy=number)))])
    ((entry,),) = records
    assert entry.key == KEY
    assert struct.pack("d", entry.outcomes[0].auc) == struct.pack("d", number)
    assert struct.pack("d", entry.outcomes[1].accuracy) == struct.pack("d", number)


@given(
    st.lists(st.integers(0, 2**40), max_size=30), st.integers(0, 2**40), st.floats(allow_nan=False)
)
def test_counts_and_every_other_field_come_back(tmp_path_factory, counts, n_challenges, bound):
    records = entries_in(str(tmp_path_factory.mktemp("journal")))
    told = outcome(
        level_inside=tuple(counts), level_outside=(), n_challenges=n_challenges, auc_low=bound
    )
    records.add([Entry(KEY, (told,))])
    assert list(records) == [[Entry(KEY, (told,))]]


def test_a_batch_keeps_its_tasks_apart(tmp_path):
    other, lost = (8, *KEY[1:]), (9, *KEY[1:])
    batch = [
        Entry(KEY, (outcome(), outcome(auc=0.25))),
        Entry(lost, error="MemoryError: no room", traceback="line 7"),
        Entry(other, (outcome(auc=0.75),)),
    ]
    entries_in(str(tmp_path)).add(batch)
    assert list(entries_in(str(tmp_path))) == [batch]


@pytest.mark.parametrize("order", [1, -1])
def test_a_finished_evaluation_replaces_a_failed_one_in_any_order(tmp_path, order):
    records, key = evaluations_in(str(tmp_path)), ("first week", 100)
    for price in (
        MechanismEvaluation(key, error="MemoryError: no room", traceback="…"),
        MechanismEvaluation(key),
    )[::order]:
        records.add(price)
    assert read_evaluations(records) == {key: MechanismEvaluation(key)}


def test_what_was_being_written_when_the_driver_died_is_ignored(tmp_path):
    entries_in(str(tmp_path)).add([Entry(KEY, (outcome(),))])
    (tmp_path / "0123.partial").write_bytes(b"half an ent")
    assert [[entry.key for entry in batch] for batch in entries_in(str(tmp_path))] == [[KEY]]


def test_records_of_an_older_version_are_refused(tmp_path):
    (tmp_path / "0123.parquet").write_bytes(b"PAR1")
    with pytest.raises(ExistsError, match=r"older version.+start again"):
        list(entries_in(str(tmp_path)))


def test_entries_of_another_run_are_passed_over(tmp_path):
    """A worker may outlive its driver, and write into a folder that another run has claimed."""
    entries_in(str(tmp_path), "old").add([Entry(KEY, (outcome(),))])
    assert list(entries_in(str(tmp_path), "new")) == list(entries_in(str(tmp_path))) == []
    assert len(list(entries_in(str(tmp_path), "old"))) == 1


def test_a_worker_that_does_not_see_the_folder_of_the_driver_says_so(tmp_path):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    Identity("audit", "plan", "cube").claim(str(here), {}, force=False)
    name = run_in(str(here), "audit")
    assert _Writer(str(here), name)([]) == ""
    with pytest.raises(StoreError, match="must be in a folder that all workers reach"):
        _Writer(str(elsewhere), name)([])
    assert not elsewhere.exists()
    Identity("audit", "other plan", "cube").claim(str(here), {}, force=True)
    assert run_in(str(here), "audit") != name


def test_a_damaged_record_is_named(tmp_path):
    entries_in(str(tmp_path)).add([Entry(KEY, (outcome(),))])
    (file,) = tmp_path.glob("*.record")
    file.write_bytes(file.read_bytes()[:-7])
    records = entries_in(str(tmp_path))
    for look in (records.plain, lambda: records.read(str(file))):
        with pytest.raises(DamagedError, match=rf"{file.name}: this entry of the journal cannot"):
            list(look())
