"""The job that queues its successor, on a real Slurm."""

import sys
from pathlib import Path

import pandas as pd
import pytest
from doubles.command import StandIn
from doubles.slurm import Queue
from oracles.catalogues import write_catalogue, write_release

pytestmark = [
    pytest.mark.nightly(group="slurm"),
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("slurm-series"),
]

SCRIPT = Path(__file__).parents[3] / "deploy" / "slurm" / "reaudit.sh"
NAME = "weekly-counts"


class Series(Queue):
    """A series on a real Slurm: how it is submitted, and what is seen of it."""

    def __init__(self, env, folder, *endings):
        self.folder, self.command = folder, StandIn(folder / "command", *endings)
        told = {"EVERY": "now+1", "LASTS": "1", "CLUSTERSCALE": str(self.command.path)}
        size = {"SBATCH_MEM_PER_CPU": "500M", "SBATCH_TIMELIMIT": "60"}
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

    def hanging(self, n_rounds, but=""):
        """Wait until so many have hung, and look meanwhile that only one waits."""
        self.until(lambda: self.waiting(but) and len(self.command.told("hangs")) >= n_rounds)

    def over(self):
        """Wait for the end of the series, and look meanwhile that only one waits."""
        self.until(lambda: not self.waiting() and not self.jobs())

    def endings(self, *jobs):
        """Return state and exit code of jobs that end, by number."""
        return {job: self.wait(job) for job in jobs}

    def said(self):
        """Return all logs, and what the command was told."""
        logs = [f"{log.name}: {log.read_text()}" for log in sorted(self.folder.glob("job-*.log"))]
        return "\n".join([*logs, str(self.command.diary), super().said()])


@pytest.fixture
def series(slurm, tmp_path):
    """Return what makes a series, and see to it that nothing of it is left."""
    yield lambda *endings: Series(slurm, tmp_path, *endings)
    Queue(slurm).empty()


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
    assert made.endings(first, second, third) == {
        job: ("FAILED", code) for job, code in codes.items()
    }
    assert all(line[2:] == ["reaudit", "releases.yaml"] for line in made.command.diary[::2])


def test_three_rounds_of_the_command_itself(slurm, cube, tmp_path):
    """A release before each round, the second with a value that nobody could have counted."""
    config = write_catalogue(cube, tmp_path)
    runner = Queue(
        slurm
        | {
            "EVERY": "now+1hours",
            "ROUNDS": "3",
            "SBATCH_MEM_PER_CPU": "1G",
            "SBATCH_TIMELIMIT": "60",
        }
        | {"CLUSTERSCALE": str(Path(sys.executable).with_name("clusterscale"))}
        | {"SBATCH_OUTPUT": f"{tmp_path}/job-%j.log"}
    )
    write_release(cube, tmp_path / "releases" / "day-0.nc")
    job = runner.ask("sbatch", "--parsable", f"--job-name={NAME}", SCRIPT, str(config)).strip()
    codes = []
    for number in range(3):
        codes.append(runner.wait(job)[1])
        waiting = [line.split()[0] for line in runner.jobs("--states=PENDING", f"--name={NAME}")]
        if number == 2:
            assert waiting == []
            break
        (job,) = waiting
        fault = 0.5 if number == 0 else 0.0
        write_release(cube, tmp_path / "releases" / f"day-{number + 1}.nc", fault=fault)
        runner.update(job, "StartTime=now")
    said = "".join(log.read_text() for log in sorted(tmp_path.glob("job-*.log")))
    assert codes == ["3:0", "4:0", "3:0"], said
    table = pd.read_parquet(tmp_path / "ledger" / "verdicts.parquet")
    assert table.release.tolist() == ["day-0", "day-1", "day-2"], said
    assert table.verdict.tolist() == ["warn", "fail", "warn"], said


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
    ended = made.endings(first, second, third)
    assert ended[first] == ("FAILED", "137:0")
    assert ended[second][0] == "CANCELLED"
    assert ended[third] == ("COMPLETED", "0:0")
    (fifth,) = made.waiting()
    made.update(fifth, "StartTime=now+1hours")  # or it might begin before it is cancelled
    made.ask("scancel", f"--name={NAME}", "--user=root")
    made.until(lambda: not made.jobs())
    assert len(made.command.told("began")) == 4


def test_a_series_that_is_submitted_twice_is_one(series):
    made = series(0, 0, 0)
    made.env |= {"ROUNDS": "2"}
    first = made.submit("--hold")
    second = made.submit()
    made.ask("scontrol", "release", first)  # now that both are there
    made.until(lambda: not made.jobs())
    assert made.command.told("began")[:2] == [first, second]
    assert len(made.command.told("began")) == 3


def test_a_job_that_queues_again_has_one_successor_still(series):
    made = series(75, "hangs", 0, 0)
    made.env |= {"ROUNDS": "2", "EVERY": "now+1hours"}
    job = made.submit()
    made.run_again(job)
    (successor,) = made.waiting(but=job)
    made.hanging(1, but=job)
    assert made.command.told("began") == [job, job]
    assert made.waiting() == [successor]
    made.command.crash()
    made.update(successor, "StartTime=now")
    made.over()
    assert made.command.told("began") == [job, job, successor]
    assert made.endings(job, successor) == {
        job: ("FAILED", "137:0"),
        successor: ("COMPLETED", "0:0"),
    }
