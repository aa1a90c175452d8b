"""Every release is judged once, whatever was judged before; what cannot be is in nobody's way."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import zarr
from oracles.releases import dataset, touch, write

from clusterscale.errors import ClusterscaleError
from clusterscale.groups import count_visits
from clusterscale.reauditing import (
    Catalogue,
    Problem,
    Reaudit,
    ReauditPlan,
    find_releases,
    scoring,
)
from clusterscale.reauditing.release_analysis import ReleaseStore
from clusterscale.runtime import SerialExecutor

PLAN = {
    "audit": {
        "seed": 3,
        "targets": {"random": 3},
        "priors": [{"name": "known_subset", "alpha": 0.5, "training": 20, "challenges": 10}],
        "attacks": [{"name": "projection"}],
        "utility": {"measures": [{"name": "pearson"}]},
    },
    "everyone": False,
    "published": 4,
}


def add(folder, cube, number, /, **attributes):
    """Publish the bare counts of six users on one day, of whom the first two are known."""
    first = 12 * number
    values = count_visits(cube.traces(None, (first, first + 12)), np.arange(6)[None])[0]
    (folder / "members").mkdir(parents=True, exist_ok=True)
    members = folder / "members" / f"day-{number}.csv"
    members.write_text("user,inside\nu000,1\nu001,1\nu040,0\nu041,0\n")
    told = dataset(values.astype(float), list(cube.regions.names))
    told.attrs = {"group_size": 6, "mechanism": {"name": "exact"}, "first": first, "series": "day"}
    told.attrs |= attributes
    return write(told, folder, name=f"day-{number}", mode="w")


@pytest.fixture
def folder(cube, tmp_path):
    for number in range(2):
        add(tmp_path / "releases", cube, number)
    return tmp_path / "releases"


def work(folder, cube, tmp_path, **changed):
    output = str(tmp_path / "out")
    found = find_releases(str(folder))
    entries = tuple(each.with_uris(f"{folder}/members/{{name}}.csv") for each in found)
    known = Catalogue(entries, cube.uri, f"{output}/listed.json")
    return Reaudit(ReauditPlan(**PLAN | changed), known, output)


def judge_all(work):
    return [work.evaluate(each, SerialExecutor()) for each in work.pending()]


def names(work):
    return [each.release.name for each in work.pending()]


@pytest.mark.slow
def test_each_is_judged_once(folder, cube, tmp_path):
    one = work(folder, cube, tmp_path)
    assert names(one) == ["day-0", "day-1"]
    first, second = judge_all(one)
    assert (first.release, first.number, second.number) == ("day-0", 0, 1)
    assert (first.n_targets, first.span, first.mechanism) == (3, (0, 12), "exact")
    assert first.n_common == 0
    assert second.n_common > 0
    assert np.isfinite([first.published_auc, second.change]).all()
    assert "u0" not in json.dumps([repr(first), repr(second)])
    again = work(folder, cube, tmp_path)
    assert names(again) == []
    assert repr(again.ledger.rows) == repr([first, second])
    add(folder, cube, 2)
    later = work(folder, cube, tmp_path)
    assert names(later) == ["day-2"]
    (third,) = judge_all(later)
    assert third.number == 2


@pytest.mark.slow
def test_what_changed_is_judged_again(folder, cube, tmp_path):
    judge_all(work(folder, cube, tmp_path))
    touch(str(folder / "day-1.zarr"), np.zeros((8, 12)))
    changed = work(folder, cube, tmp_path)
    assert names(changed) == ["day-1"]
    assert not changed.is_audited(changed.pending()[0])
    policy = work(folder, cube, tmp_path, policy={"mean_privacy_loss": 0.01})
    assert names(policy) == ["day-0", "day-1"]
    assert policy.is_audited(policy.pending()[0]), "another policy asks for no other audit"
    row = policy.evaluate(policy.pending()[0], SerialExecutor())
    assert row.number == 2
    assert row.run == policy.ledger.rows[0].run
    checked = {each["check"]: each["level"] for each in row.why}
    assert "mean_privacy_loss" in checked
    assert checked["ceiling"] == "pass", "releases are certified, too"
    everyone = work(folder, cube, tmp_path, everyone=True)
    assert not any(everyone.is_audited(each) for each in everyone.pending())


@pytest.mark.slow
def test_who_is_told_to_stop_adds_nothing(folder, cube, tmp_path):
    class Stop(Exception):
        pass

    def check():
        raise Stop

    halted = work(folder, cube, tmp_path)
    with pytest.raises(Stop):
        halted.evaluate(halted.pending()[0], SerialExecutor(), check=check)
    again = work(folder, cube, tmp_path)
    assert len(again.ledger) == 0
    assert again.is_audited(again.pending()[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"epochs": 7}, "(8, 7)"),
        ({"first": 40}, "epoch"),
        ({"cube": "/nowhere/cube.zarr"}, "attributes name a cube"),
    ],
)
def test_what_cannot_be_audited_is_a_problem(folder, cube, tmp_path, attributes, told):
    add(folder, cube, 0, **attributes)
    bad = work(folder, cube, tmp_path)
    found = [*bad.problems, *judge_all(bad)]
    (problem,) = (each for each in found if isinstance(each, Problem))
    assert problem.name == "day-0"
    assert isinstance(problem.error, ClusterscaleError)
    assert told in str(problem.error)
    assert [row.release for row in bad.ledger.rows] == ["day-1"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [6, 59, 900])
def test_values_are_checked_even_if_they_cannot_be_attacked(size, folder, cube, tmp_path):
    """Groups of 59 and 900 of 60 users are simulated, but no fraction; nobody is not attacked."""
    uri = add(folder, cube, 0, group_size=size)
    values = zarr.open_group(uri, mode="r")["counts"][:]
    values[0, 0] = 2.5
    touch(uri, values)
    nobody = {"audit": PLAN["audit"] | {"targets": {"listed": ["nobody"]}}} if size == 6 else {}
    (found, _) = judge_all(work(folder, cube, tmp_path, **nobody))
    if nobody:
        assert "without an audit, inconsistent: possible_values: 1 of 96" in str(found.error)
        assert "targets.listed" in str(found.error)
    else:
        (wrong,) = (why for why in found.why if why["check"] == "possible_values")
        assert (found.verdict, wrong["level"]) == ("fail", "fail")


def test_failed_tasks_leave_no_verdict_and_are_run_again(folder, cube, tmp_path, monkeypatch):
    def fail(task):
        raise ValueError("lost")

    bad = work(folder, cube, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(scoring, "play_whole", fail)
        problem = bad.evaluate(bad.pending()[0], SerialExecutor())
    assert problem.passing
    assert str(problem.error) == "4 tasks failed, so there is no verdict"
    assert not bad.is_audited(bad.pending()[0])
    assert bad.evaluate(bad.pending()[0], SerialExecutor()).release == "day-0"


@pytest.mark.slow
def test_what_an_earlier_version_began_is_gone_on_with(folder, cube, tmp_path):
    """It wrote the tables of a release before anything said what the folder is of."""
    begun = work(folder, cube, tmp_path)
    pending = begun.pending()[0]
    store = ReleaseStore(f"{begun.output}/runs/{pending.audit}")
    begun.evaluate(pending, SerialExecutor())
    content = store.content()
    other = work(folder, cube, tmp_path / "other")
    again = ReleaseStore(f"{other.output}/runs/{pending.audit}")
    again.write_tables(content, np.arange(2))
    assert repr(other.evaluate(pending, SerialExecutor())) == repr(begun.ledger.rows[0])
    assert repr(again.record()) == repr(store.record())


@pytest.mark.slow
def test_what_was_found_is_kept(folder, cube, tmp_path):
    done = work(folder, cube, tmp_path)
    first = done.evaluate(done.pending()[0], SerialExecutor())
    audited = ReleaseStore(f"{done.output}/{first.run}")
    facts = audited.record()
    assert facts.release == done.releases[0]
    assert facts.cube == cube.fingerprint
    assert facts.n_failed == 0
    assert facts.published.value == first.published_auc
    expected = count_visits(cube.traces(None, (0, 12)), np.arange(6)[None])[0]
    np.testing.assert_array_equal(audited.content().values, expected)
    audited.write_record(facts)
    assert repr(audited.record()) == repr(facts)
    assert ReleaseStore(f"{done.output}/runs/nothing").record() is None


@pytest.mark.slow
def test_results_of_another_release_are_not_its_verdict(folder, cube, tmp_path):
    """Copied in place of its own: the record alone, the audit alone, and all of the run."""
    both = work(folder, cube, tmp_path)
    judge_all(both)
    key, other = (row.audit for row in both.ledger.rows)
    kept = tmp_path / "kept"
    shutil.copytree(tmp_path / "out/runs", kept)
    for name in ("release/facts.json", "results.zarr", ""):
        shutil.rmtree(tmp_path / "out")
        shutil.copytree(kept, tmp_path / "out/runs")
        source, target = kept / other / name, tmp_path / "out/runs" / key / name
        if source.is_dir():
            shutil.rmtree(target)
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
        again = work(folder, cube, tmp_path)
        first = again.evaluate(again.pending()[0], SerialExecutor())
        if name == "release/facts.json":  # it is written anew
            kept_row = both.ledger.rows[0]
            assert (first.verdict, first.reasons) == (kept_row.verdict, kept_row.reasons)
        else:
            assert isinstance(first, Problem), name
            assert "another" in str(first.error), name
