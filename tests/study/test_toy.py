"""An analysis of 60 lines is run, resumed, explained and watched by the spine alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from report.page import Page
from study.toy import Toy

from clusterscale import storage, study
from clusterscale.cli.reports import gather, report
from clusterscale.cli.running import RunOptions, report_status
from clusterscale.errors import ConfigError, ExistsError, MissingError
from clusterscale.reporting import render, write_tables
from clusterscale.runtime import SerialExecutor
from clusterscale.storage.manifest import to_sealed
from clusterscale.study.execution import Finished

KILLED = """
import os, signal, sys
from study.toy import Toy
from clusterscale import study
from clusterscale.cube import TraceCube
from clusterscale.runtime import SerialExecutor

def kill(now):
    if now.n_done == 3:
        os.kill(os.getpid(), signal.SIGKILL)

study.run(Toy(), TraceCube(sys.argv[1]), sys.argv[2], SerialExecutor(), on_progress=kill)
"""


@pytest.fixture(scope="module")
def expected(cube, tmp_path_factory):
    return study.run(Toy(), cube, tmp_path_factory.mktemp("toy"), SerialExecutor()).load()


def test_any_executor_gives_the_same_bits(cube, expected, local_cluster, tmp_path):
    assert expected.share.notnull().all()
    found = study.run(Toy(), cube, tmp_path, local_cluster)
    assert found.load().identical(expected)


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bits(cube, expected, tmp_path):
    words = [sys.executable, "-c", KILLED, cube.uri, str(tmp_path)]
    tests = str(Path(__file__).parents[1])
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    }
    ended = subprocess.run(words, env=environment, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    with pytest.raises(MissingError, match="this toy has not finished; run it again"):
        Toy().open(str(tmp_path))
    told = []
    again = study.run(Toy(), cube, tmp_path, SerialExecutor(), on_progress=told.append)
    assert (told[0].stage, told[0].n_done) == ("measure", 3)
    assert again.load().identical(expected)


def test_a_failed_task_is_named_and_the_others_are_kept(cube, expected, tmp_path, monkeypatch):
    class Fails(SerialExecutor):
        def map_batches(self, function, items, **options):
            def fail(task):
                if task[1] == 16:
                    raise MemoryError("no room")
                return function(task)

            return super().map_batches(fail, items)

    with pytest.raises(MemoryError, match="no room") as caught:
        study.run(Toy(), cube, tmp_path, Fails())
    assert caught.value.__notes__ == [
        "1 of 8 tasks of stage measure failed; the others are kept, and the same command resumes "
        "with those that are left"
    ]
    told = []
    again = study.run(Toy(), cube, tmp_path, SerialExecutor(), on_progress=told.append)
    assert told[0].n_done == told[0].n_tasks - 1
    assert again.load().identical(expected)


def test_a_task_that_returns_nothing_has_failed(cube, tmp_path):
    class Empty(SerialExecutor):
        def map_batches(self, function, items, **options):
            return ([Finished(item)] for item in items)

    with pytest.raises(RuntimeError, match="the task returned nothing"):
        study.run(Toy(), cube, tmp_path, Empty())
    with pytest.raises(MissingError, match="has not finished"):
        Toy().open(str(tmp_path))


def test_the_folder_belongs_to_one_study(cube, tmp_path, monkeypatch):
    study.run(Toy(), cube, tmp_path, SerialExecutor())
    monkeypatch.setattr(Toy, "digest", "toy-2")
    with pytest.raises(ExistsError, match="holds a toy of another plan: choose another `output`"):
        study.run(Toy(), cube, tmp_path, SerialExecutor())
    study.run(Toy(), cube, tmp_path, SerialExecutor(), force=True)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("notes.txt", b"mine", "holds something else: choose another `output`"),
        ("plan.json", b"{}", "holds a run of an older version: choose another `output`"),
        ("toy.json", b"{", "holds a toy whose toy.json is damaged: choose another `output`"),
        ("toy.json", b"[]", "holds a toy whose toy.json is damaged: choose another `output`"),
        ("toy.json", b'{"version": "0.1.0"}', "holds a toy whose toy.json is damaged"),
        ("toy.json", to_sealed({}), "of another plan and cube and audit or screen and revision"),
    ],
)
def test_the_folder_of_something_else_is_left_alone(cube, tmp_path, name, content, words):
    storage.put(f"{tmp_path}/toy/{name}", content)
    with pytest.raises(ExistsError, match=words):
        study.run(Toy(), cube, tmp_path, SerialExecutor())
    assert storage.read(f"{tmp_path}/toy/{name}") == content


def test_a_plan_that_does_not_fit_touches_nothing(cube, tmp_path, monkeypatch):
    def refuse(self, cube, memory):
        raise ConfigError("memory: too little")

    monkeypatch.setattr(Toy, "check", refuse)
    with pytest.raises(ConfigError):
        study.run(Toy(), cube, tmp_path / "run", SerialExecutor())
    assert not (tmp_path / "run").exists()


def test_it_is_watched(cube, tmp_path):
    folder = str(tmp_path / "run")
    with report_status(folder, Toy.kind) as status:
        study.run(
            Toy(),
            cube,
            folder,
            SerialExecutor(),
            on_progress=lambda now: status.update(now.stage, now.n_tasks, now.n_done, now.n_failed),
        )
    assert b'"measure"' in storage.read(f"{folder}/status/toy.json")


def test_it_is_explained(cube):
    rows = Toy().explain(cube, 10**9, 1)
    assert rows["time"].endswith(" s of the cluster, if it does nothing else")
    assert RunOptions().explain is False


def test_it_is_reported_without_values_of_single_users(cube, expected, tmp_path):
    study.run(Toy(), cube, tmp_path, SerialExecutor())
    share = expected.share.values
    report([str(tmp_path)])
    page = Page((tmp_path / "report.html").read_text())
    assert page.sections == ["overview", "toy-variables", "configuration", "provenance", "reading"]
    assert page.tables["Variables of toy"][1:] == [
        ["user", "index of the user in the cube", "1", "user (60)", "60", "0", "29.5", "59"],
        [
            "share",
            "share of epochs with an event, plus noise",
            "1",
            "user (60)",
            "60",
            *(f"{value:.3g}" for value in (share.min(), share.mean(), share.max())),
        ],
    ]
    assert "noise: 0.01" in page.text, "the plan"
    assert cube.fingerprint in page.text
    assert "toy-1" in page.text
    for user in (7, 23):
        assert f"{share[user]:.6f}" not in page.text
    assert all(len(table) < 10 for table in page.tables.values())


def test_it_is_reported_from_its_own_folder_and_as_tables(cube, expected, tmp_path):
    study.run(Toy(), cube, tmp_path, SerialExecutor())
    run = gather(f"{tmp_path}/toy")
    assert render(run) == render(gather(str(tmp_path))).replace(str(tmp_path), f"{tmp_path}/toy")
    (table,) = write_tables(run, tmp_path / "tables", "csv")
    assert table.endswith("tables/toy-user.csv")
    assert len(Path(table).read_text().splitlines()) == 61


def test_a_damaged_identity_is_no_analysis_to_report(cube, tmp_path):
    study.run(Toy(), cube, tmp_path, SerialExecutor())
    (tmp_path / "toy" / "toy.json").write_text('{"kind": "toy", "plan": {}}')
    with pytest.raises(MissingError, match="there are no results"):
        gather(str(tmp_path))


def test_while_it_is_unfinished_there_is_nothing_to_report(cube, tmp_path, capsys):
    class Half(Toy):
        def stages(self, job):
            yield next(super().stages(job))

    with pytest.raises(MissingError, match="has not finished"):
        study.run(Half(), cube, tmp_path, SerialExecutor())
    with pytest.raises(MissingError, match="there are no results"):
        gather(str(tmp_path))
