"""What is done is found again, task by task; nothing of another plan slips in."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles.outcomes import outcome

from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.audit.finished_tasks import Entry, FinishedTasks, entries_in
from clusterscale.analyses.audit.results import open_results, write_results
from clusterscale.errors import DamagedError
from clusterscale.metrics import N_PVALUE_BINS
from clusterscale.runtime import SerialExecutor


@pytest.fixture
def plan(plan_fields):
    return AuditPlan(**(plan_fields | {"targets": {"random": 20}}))


@pytest.fixture
def chosen(plan, cube):
    return plan.targets.choose(cube, plan.seed)


def write(done, folder, entries):
    """Write entries as a worker does, and note them as the driver does."""
    path = entries_in(folder).write(entries)
    done.note(path, {entry.key: bool(entry.error) for entry in entries})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_batches_of_any_order_come_back(cube, plan_fields, tmp_path_factory, data):
    """Against a plain dict: the last that is said of a task counts, in the run that says it."""
    plan = AuditPlan(**(plan_fields | {"targets": {"random": 5}}))
    chosen = plan.targets.choose(cube, plan.seed)
    tasks = list(plan.tasks(cube, chosen))
    folder = str(tmp_path_factory.mktemp("journal"))
    done, known = FinishedTasks(plan, chosen, folder), {}
    order = data.draw(st.permutations(range(len(tasks))))
    ended = order[: data.draw(st.integers(0, len(tasks)))]
    while ended:
        size = data.draw(st.integers(1, len(ended)))
        batch, ended = ended[:size], ended[size:]
        entries = []
        for i in batch:
            failed = data.draw(st.booleans())
            told = {"error": "E: no", "traceback": "…"} if failed else {"outcomes": (outcome(),)}
            entries.append(Entry(tasks[i].key, **told))
        write(done, folder, entries)
        if data.draw(st.booleans()) and (merging := done.merging(1)) is not None:
            merging.run(SerialExecutor(), lambda progress: None)
        known |= {entry.key: entry for entry in entries}
    n_failed = sum(bool(entry.error) for entry in known.values())
    assert (done.n_tasks, done.n_failed) == (10, n_failed)
    assert done.n_done == len(known) - n_failed
    assert done.block(0, 5).entries() == known
    assert done.block(1, 3).entries() == {
        k: v for k, v in known.items() if k[0] in chosen.users[1:3]
    }
    assert set(done.failures(100)) == {key for key, entry in known.items() if entry.error}
    assert len(done.failures(1)) == min(1, n_failed)
    again = FinishedTasks(plan, chosen, folder)
    sound = {key: entry for key, entry in known.items() if not entry.error}
    assert again.block(0, 5).entries() == sound, "what failed is to be tried again"
    assert [task.key for task in again.left(tasks)] == [
        task.key for task in tasks if task.key not in sound
    ]


@pytest.mark.parametrize(
    "other", [(61, 0, 0, 0), (None, "week", 0, 0), (None, 0, "perfect", 0), (None, 0, 0, 5)]
)
def test_entries_of_another_plan_are_refused(plan, cube, chosen, tmp_path, other):
    key = next(iter(plan.tasks(cube, chosen))).key
    strange = tuple(new or old for new, old in zip(other, key, strict=True))
    entries_in(str(tmp_path)).add([Entry(strange, (outcome(),))])
    with pytest.raises(DamagedError, match="entries of tasks that are not in this plan"):
        FinishedTasks(plan, chosen, str(tmp_path))


@pytest.mark.slow
def test_results_written_a_few_targets_at_a_time_are_the_same(
    plan, cube, chosen, tmp_path, monkeypatch
):
    rng = np.random.default_rng(0)
    folder = str(tmp_path / "journal")
    done = FinishedTasks(plan, chosen, folder)
    levels = {name: tuple(range(N_PVALUE_BINS)) for name in ("level_inside", "level_outside")}
    keys = [(m.id, a.id) for m in plan.mechanisms for a in plan.attacks]
    for task in plan.tasks(cube, chosen):
        outcomes = (
            replace(outcome(auc=rng.random(), **levels), mechanism=mechanism, attack=attack)
            for mechanism, attack in keys
        )
        write(done, folder, [Entry(task.key, tuple(outcomes))])
    found = []
    for size in (4096, 7, 1):
        monkeypatch.setattr("clusterscale.analyses.audit.results._TARGETS", size)
        monkeypatch.setattr("clusterscale.analyses.audit.results._BLOCKS", 4096)
        uri = str(tmp_path / f"{size}.zarr")
        for stage in write_results(plan, cube, chosen, done, {}, uri):
            stage.run(SerialExecutor(), lambda progress: None)
        found.append(open_results(uri).load())
    assert found[0].auc.notnull().all()
    assert found[0].identical(found[1])
    assert found[0].identical(found[2])
