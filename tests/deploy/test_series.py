"""The job that queues its successor: alone with a Slurm of paper, and on a real one."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from doubles.command import StandIn
from doubles.kube import wait_for
from doubles.slurm import Queue, start_slurm
from oracles.catalogues import write_catalogue, write_release

SCRIPT = Path(__file__).parents[2] / "deploy" / "slurm" / "reaudit.sh"
NAME = "weekly-counts"

# Each writes down how it is called; squeue lists what is in `waiting`, and sbatch may be broken.
PAPER = {
    "sbatch": 'echo "sbatch ROUNDS=$ROUNDS RESTARTS=${SLURM_RESTART_COUNT:-} $*" >> "$HOME/calls"\n'
    '[ ! -e "$HOME/broken" ] && echo 8 >> "$HOME/waiting"',
    "squeue": 'cat "$HOME/waiting"',
    "scontrol": 'echo "scontrol $*" >> "$HOME/calls"',
    "sleep": 'echo "sleep $*" >> "$HOME/calls"; [ ! -e "$HOME/mended" ] || rm -f "$HOME/broken"',
}


class Paper:
    """The script as job 7, on a Slurm that is a folder of small scripts."""

    def __init__(self, folder):
        self.folder = folder
        for name, text in PAPER.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)
        (folder / "waiting").touch()
        self.calls_file = folder / "calls"
        self.calls_file.touch()

    def run(self, ending, *words, **variables):
        """Run the script to its end; return its exit code and what it said."""
        command = StandIn(self.folder / "command", ending)
        env = {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "CLUSTERSCALE": str(command.path),
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NAME": NAME,
            "SLURM_JOB_PARTITION": "night",
        }
        words = ["bash", SCRIPT, *(words or ["releases.yaml"])]
        done = subprocess.run(words, env=env | variables, capture_output=True, text=True)
        self.command, self.said = command, done.stdout + done.stderr
        return done.returncode

    def calls(self, what):
        lines = self.calls_file.read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.split()[0] == what]


@pytest.fixture
def paper(tmp_path):
    return Paper(tmp_path)


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 130])
def test_a_job_queues_its_successor_and_ends_as_the_command_does(code, paper):
    assert paper.run(code, "releases.yaml", "--workers", "2") == code
    assert paper.command.diary[0] == ["began", "7", "reaudit", "releases.yaml", "--workers", "2"]
    (call,) = paper.calls("sbatch")
    assert call == (
        f"ROUNDS= RESTARTS= --begin=now+7days --job-name={NAME} --partition=night {SCRIPT} "
        "releases.yaml --workers 2"
    )
    assert paper.calls("scontrol") == []


def test_the_successor_is_queued_before_anything_else(paper):
    (paper.folder / "squeue").write_text('#!/bin/sh\ncat "$HOME/command/diary" >> "$HOME/calls"\n')
    paper.run(0)
    assert paper.calls("began") == []
    assert len(paper.calls("sbatch")) == 1


@pytest.mark.parametrize(("rounds", "left"), [("", ["ROUNDS="]), ("3", ["ROUNDS=2"]), ("1", [])])
def test_rounds_are_counted_down(rounds, left, paper):
    assert paper.run(4, ROUNDS=rounds, EVERY="02:17", SLURM_JOB_ACCOUNT="lab") == 4
    assert [call.split()[0] for call in paper.calls("sbatch")] == left
    assert all(
        "--begin=02:17 " in call and "--account=lab " in call for call in paper.calls("sbatch")
    )


@pytest.mark.parametrize("rounds", ["0", "08", "-1", "many", "1.5"])
def test_rounds_that_are_no_number_are_refused(rounds, paper):
    assert paper.run(0, ROUNDS=rounds) == 2
    assert f"ROUNDS is {rounds} and not a number from 1 on" in paper.said
    assert paper.calls("sbatch") == []
    assert paper.command.diary == []


def test_outside_of_a_job_nothing_begins(paper):
    assert paper.run(0, SLURM_JOB_ID="") == 2
    assert "give this file to sbatch" in paper.said
    assert paper.calls("sbatch") == []


@pytest.mark.parametrize("waiting", ["8", "7\n8", "12\n17"])
def test_where_one_waits_there_is_no_second(waiting, paper):
    """As when a job is run again, or submitted twice."""
    (paper.folder / "waiting").write_text(f"{waiting}\n")
    assert paper.run(3, SLURM_RESTART_COUNT="1") == 3
    assert paper.calls("sbatch") == []


def test_a_job_that_was_lost_before_it_queued_one_does_so_when_run_again(paper):
    (paper.folder / "waiting").write_text("7\n")
    assert paper.run(0, SLURM_RESTART_COUNT="1") == 0
    (call,) = paper.calls("sbatch")
    assert "RESTARTS= " in call, "the next has not been started anew"


def test_what_gave_out_queues_again_and_not_for_ever(paper):
    assert paper.run(75) == 75
    assert paper.calls("scontrol") == ["requeue 7"]
    assert "run 1 ended with 75 before all was audited" in paper.said
    assert paper.run(75, SLURM_RESTART_COUNT="3") == 75
    assert paper.calls("scontrol") == ["requeue 7"]
    assert len(paper.calls("sbatch")) == 1


def test_the_series_outlives_a_controller_that_is_away(paper):
    (paper.folder / "broken").touch()
    (paper.folder / "mended").touch()
    assert paper.run(0) == 0
    assert paper.calls("sleep")[0] == "15"
    assert len(paper.calls("sbatch")) == 2


def test_a_series_that_must_end_says_so(paper):
    (paper.folder / "broken").touch()
    assert paper.run(0) == 75
    assert "no successor could be queued: the series ends here" in paper.said
    assert paper.command.told("began") == ["7"], "what can be done is done"
    assert len(paper.calls("sbatch")) == 6


def test_a_warning_before_the_walltime_ends_the_command_in_order(paper):
    caught = "trap 'exit 143' TERM; : > \"$HOME/ready\"; while :; do /bin/sleep 0.05; done"
    command = paper.folder / "patient"
    command.write_text(f"#!/bin/sh\n{caught}\n")
    command.chmod(0o755)
    warn = 'until [ -e "$HOME/ready" ]; do /bin/sleep 0.05; done; kill -USR1 "$0"'
    (paper.folder / "sbatch").write_text(f"#!/bin/sh\n(sh -c '{warn}' $PPID) > /dev/null &\n")
    assert paper.run(0, CLUSTERSCALE=str(command)) == 143
    assert paper.calls("scontrol") == ["requeue 7"]


@pytest.mark.parametrize("script", ["allocation.sh", "reaudit.sh"])
def test_shellcheck_has_nothing_to_say(script):
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run(["shellcheck", SCRIPT.with_name(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


class Series(Queue):
    """A series on a real Slurm: how it is submitted, and what is seen of it."""

    def __init__(self, env, folder, *endings):
        self.folder, self.command = folder, StandIn(folder / "command", *endings)
        told = {"EVERY": "now+5", "LASTS": "1", "CLUSTERSCALE": str(self.command.path)}
        size = {"SBATCH_MEM_PER_CPU": "500M", "SBATCH_TIMELIMIT": "10"}
        super().__init__(env | told | size | {"SBATCH_OUTPUT": f"{folder}/job-%j.log"})

    def submit(self, *options):
        command = ["sbatch", "--parsable", f"--job-name={NAME}", *options, SCRIPT, "releases.yaml"]
        return self.ask(*command).strip()

    def waiting(self, but=""):
        """Return the numbers of jobs that wait, one at most beside the one given."""
        found = [line.split()[0] for line in self.jobs("--states=PENDING", f"--name={NAME}")]
        found = [job for job in found if job != but]
        assert len(found) <= 1, self.said()
        assert len(self.jobs("--states=RUNNING")) <= 1, self.said()
        return found

    def until(self, condition):
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.2)

    def hanging(self, n_rounds, but=""):
        """Wait until so many have hung, and look meanwhile that only one waits."""
        self.until(lambda: self.waiting(but) and len(self.command.told("hangs")) >= n_rounds)

    def over(self):
        """Wait for the end of the series, and look meanwhile that only one waits."""
        self.until(lambda: not self.waiting() and not self.jobs())

    def endings(self):
        """Return state and exit code of every job, by number."""
        found = sorted({job for job in self.command.told("began")}, key=int)
        return {job: (self.fact(job, "JobState"), self.fact(job, "ExitCode")) for job in found}

    def said(self):
        """Return all logs, and what the command was told."""
        logs = [f"{log.name}: {log.read_text()}" for log in sorted(self.folder.glob("job-*.log"))]
        return "\n".join([*logs, str(self.command.diary), *self.jobs()])


@pytest.fixture(scope="module")
def slurm(real_data):
    with start_slurm(real_data) as env:
        yield env


@pytest.fixture
def series(slurm, tmp_path):
    """Return what makes a series, and see to it that nothing of it is left."""
    yield lambda *endings: Series(slurm, tmp_path, *endings)
    subprocess.run(["scancel", "--user", "root"], env=slurm, check=True)
    wait_for(lambda: not Queue(slurm).jobs(), 60, "an empty queue")


@pytest.mark.nightly(group="slurm")
@pytest.mark.timeout(400)
def test_three_rounds_one_after_the_other(series):
    made = series(3, 4, 2)
    made.env |= {"ROUNDS": "3"}
    made.submit()
    made.over()
    words = [(what, job) for what, job, *_ in made.command.diary]
    first, second, third = made.command.told("began")
    assert words == [(what, job) for job in (first, second, third) for what in ("began", "ended")]
    assert int(first) < int(second) < int(third)
    codes = {first: "3:0", second: "4:0", third: "2:0"}
    assert made.endings() == {job: ("FAILED", code) for job, code in codes.items()}
    assert all(line[2:] == ["reaudit", "releases.yaml"] for line in made.command.diary[::2])


@pytest.mark.nightly(group="slurm")
@pytest.mark.timeout(900)
def test_three_rounds_of_the_command_itself(slurm, cube, tmp_path):
    """A release before each round, the second with a value that nobody could have counted."""
    config = write_catalogue(cube, tmp_path)
    runner = Queue(
        slurm
        | {
            "EVERY": "now+1hours",
            "ROUNDS": "3",
            "SBATCH_MEM_PER_CPU": "1G",
            "SBATCH_TIMELIMIT": "10",
        }
        | {"CLUSTERSCALE": str(Path(sys.executable).with_name("clusterscale"))}
        | {"SBATCH_OUTPUT": f"{tmp_path}/job-%j.log"}
    )
    write_release(cube, tmp_path / "releases" / "day-0.nc")
    job = runner.ask("sbatch", "--parsable", f"--job-name={NAME}", SCRIPT, str(config)).strip()
    codes = []
    for number in range(3):
        wait_for(lambda job=job: "RUN" not in state(runner, job), 300, f"the end of job {job}")
        codes.append(runner.fact(job, "ExitCode"))
        waiting = [line.split()[0] for line in runner.jobs("--states=PENDING", f"--name={NAME}")]
        if number == 2:
            assert waiting == []
            break
        (job,) = waiting
        fault = 0.5 if number == 0 else 0.0
        write_release(cube, tmp_path / "releases" / f"day-{number + 1}.nc", fault=fault)
        runner.ask("scontrol", "update", f"JobId={job}", "StartTime=now")
    said = "".join(log.read_text() for log in sorted(tmp_path.glob("job-*.log")))
    assert codes == ["0:0", "4:0", "0:0"], said
    table = pd.read_parquet(tmp_path / "ledger" / "verdicts.parquet")
    assert table.release.tolist() == ["day-0", "day-1", "day-2"], said
    assert table.verdict.tolist() == ["pass", "fail", "pass"], said


def state(runner, job):
    """Return what Slurm says of a job, as far as it waits for nothing but its turn."""
    found = runner.fact(job, "JobState")
    return "RUN" if found in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING") else found


@pytest.mark.nightly(group="slurm")
@pytest.mark.timeout(400)
def test_nothing_that_ends_a_job_ends_the_series(series):
    """A command that is killed, and a job that is cancelled; in the end, whoever stops it."""
    made = series("hangs", "hangs", 0, "hangs")
    first = made.submit()
    made.hanging(1)
    (second,) = made.waiting()
    made.command.crash()
    made.hanging(2)
    made.ask("scancel", second)
    made.hanging(3)
    assert len(made.waiting()) == 1
    third = made.command.told("began")[2]
    ended = made.endings()
    assert ended[first] == ("FAILED", "137:0")
    assert ended[second][0] == "CANCELLED"
    assert ended[third] == ("COMPLETED", "0:0")
    made.ask("scancel", f"--name={NAME}", "--user=root")
    made.until(lambda: not made.jobs())
    assert len(made.command.told("began")) == 4


@pytest.mark.nightly(group="slurm")
@pytest.mark.timeout(400)
def test_a_series_that_is_submitted_twice_is_one(series):
    made = series(0, 0, 0)
    made.env |= {"ROUNDS": "2", "LASTS": "3"}
    first, second = made.submit(), made.submit()
    made.until(lambda: not made.jobs())
    assert made.command.told("began")[:2] == [first, second]
    assert len(made.command.told("began")) == 3


@pytest.mark.nightly(group="slurm")
@pytest.mark.timeout(400)
def test_a_job_that_queues_again_has_one_successor_still(series):
    made = series(75, "hangs", 0, 0)
    made.env |= {"ROUNDS": "2", "EVERY": "now+1hours"}
    job = made.submit()
    made.until(lambda: made.fact(job, "Restarts") == "1")
    (successor,) = made.waiting(but=job)
    made.until(lambda: made.fact(job, "JobState") == "PENDING")
    made.ask("scontrol", "update", f"JobId={job}", "StartTime=now+3")
    made.hanging(1, but=job)
    assert made.command.told("began") == [job, job]
    assert made.waiting() == [successor]
    made.command.crash()
    made.ask("scontrol", "update", f"JobId={successor}", "StartTime=now")
    made.over()
    assert made.command.told("began") == [job, job, successor]
    assert made.fact(job, "ExitCode") == "137:0"
    assert made.fact(successor, "ExitCode") == "0:0"
