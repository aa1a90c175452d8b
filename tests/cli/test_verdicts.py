"""Verdicts on promises as a terminal shows them."""

import numpy as np
import pytest
import xarray as xr
from rich.console import Console

from clusterscale.cli import show, verdicts

pytestmark = pytest.mark.usefixtures("no_figures")

SIZED = ("period", "group_size", "mechanism")
NAMES = ["exact", "truncated_laplace(epsilon=1.0)", "gaussian[1]", "laplace(epsilon=9.0)"]


def results(periods=("first week",)):
    def by(values, dims):
        shape = (len(periods), 2, 4) if "group_size" in dims else (len(periods), 4)
        return dims, np.broadcast_to(np.array(values), shape).copy()

    words = ["nothing promised", "broken", "consistent", "too few samples"]
    stated = ("period", "mechanism")
    return xr.Dataset(
        {
            "guarantee_unit": by(["none", "event", "user", "user_day"], stated),
            "guarantee_epsilon": by([np.inf, 1.0, 2.5, 9.0], stated),
            "guarantee_delta": by([0.0, 0.0, 1e-5, 0.0], stated),
            "epsilon_seen": by([np.nan, 1.414, 0.125, 6.789], SIZED),
            "verdict": by(words, SIZED),
        },
        coords={"period": list(periods), "group_size": [20, 100], "mechanism": NAMES},
    )


@pytest.fixture
def shown(monkeypatch):
    def call(dataset):
        monkeypatch.setattr(verdicts, "out", Console(width=110, record=True, file=None))
        monkeypatch.setattr(show, "out", verdicts.out)
        with verdicts.out.capture() as text:
            verdicts.show_verdicts(dataset)
        return text.get()

    return call


def test_one_line_for_each_promise_and_group_size(shown):
    text = shown(results())
    lines = [line.split("│")[1:-1] for line in text.splitlines() if line.startswith("│")]
    rows = [[cell.strip() for cell in line] for line in lines]
    assert rows == [
        [NAMES[1], "event", "20", "1", "1.41", "broken"],
        [NAMES[1], "event", "100", "1", "1.41", "broken"],
        [NAMES[2], "user", "20", "2.5, δ", "0.12", "consistent"],
        ["", "", "", "1e-05", "", ""],
        [NAMES[2], "user", "100", "2.5, δ", "0.12", "consistent"],
        ["", "", "", "1e-05", "", ""],
        [NAMES[3], "user's day", "20", "9", "6.79", "too few"],
        ["", "", "", "", "", "samples"],
        [NAMES[3], "user's day", "100", "9", "6.79", "too few"],
        ["", "", "", "", "", "samples"],
    ]
    assert "exact" not in text


def test_what_is_the_same_for_all_has_no_column(shown):
    assert "group size" not in shown(results().isel(group_size=[0]))
    text = shown(results(periods=("week 1", "week 2")))
    assert text.count("week 1") == text.count("week 2") == 6


def test_nothing_promised_shows_nothing(shown):
    assert shown(results().isel(mechanism=[0])) == ""


def test_unrounded_noise_is_named_once_with_the_remedy(shown):
    told = np.array([["no", "no", "yes", "no"]] * 2, dtype=object)
    text = shown(
        results(periods=("a", "b")).assign(float_noise=(("period", "mechanism"), told))
    ).partition("not safe to publish as floating-point numbers:")[2]
    assert text.splitlines()[1] == f"  {NAMES[2]}"
    assert not any(name in text for name in (NAMES[0], NAMES[1], NAMES[3]))
    assert "publish whole numbers: integers: round" in " ".join(text.split())
