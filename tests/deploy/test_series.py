"""The job that queues its successor, on a double of Slurm's commands."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from doubles.command import StandIn

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


@pytest.mark.parametrize("script", ["allocation.sh", "array.sh", "reaudit.sh"])
def test_shellcheck_has_nothing_to_say(script):
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run(["shellcheck", SCRIPT.with_name(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
