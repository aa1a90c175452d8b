"""Verdicts on promises as a terminal shows them."""

import re

import numpy as np
import pytest
import xarray as xr
from rich.console import Console

from clusterscale.cli.results import count_guarantees, guarantee_table, warn_of_float_noise
from clusterscale.cli.tables import Key
from clusterscale.reporting.audit.model import AuditReport

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
            "verdict_trials": by([0.0, 400.0, 400.0, 400.0], SIZED),
        },
        coords={"period": list(periods), "group_size": [20, 100], "mechanism": NAMES},
    )


@pytest.fixture
def shown():
    def call(dataset):
        out, key = Console(width=80, record=True, file=None), Key()
        with out.capture() as text:
            for part in guarantee_table(dataset, key):
                out.print(part)
            key.show(out)
        return text.get()

    return call


def test_one_line_for_each_promise_and_group_size(shown):
    text = shown(results())
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    rule = next(i for i, line in enumerate(lines) if set(line.strip()) == {"─"})
    rows = [re.split(r" {2,}", line.strip()) for line in lines[rule + 1 : rule + 7]]
    assert rows == [
        ["A", "event", "20", "1", "1.41", "broken"],
        ["A", "event", "100", "1", "1.41", "broken"],
        ["gaussian[1]", "user", "20", "2.5, δ 1e-05", "0.12", "consistent"],
        ["gaussian[1]", "user", "100", "2.5, δ 1e-05", "0.12", "consistent"],
        ["B", "user's day", "20", "9", "6.79", "too few samples"],
        ["B", "user's day", "100", "9", "6.79", "too few samples"],
    ]
    assert f"A  {NAMES[1]}" in text
    assert f"B  {NAMES[3]}" in text
    assert "exact" not in text


def test_what_is_the_same_for_all_has_no_column(shown):
    assert "group size" not in shown(results().isel(group_size=[0]))
    text = shown(results(periods=("week 1", "week 2")))
    assert text.count("week 1") == text.count("week 2") == 6


def test_nothing_promised_shows_nothing(shown):
    assert shown(results().isel(mechanism=[0])) == ""


def test_unrounded_noise_is_named_once_with_the_remedy():
    told = np.array([["no", "no", "yes", "no"]] * 2, dtype=object)
    dataset = results(periods=("a", "b")).assign(float_noise=(("period", "mechanism"), told))
    named, remedy = warn_of_float_noise(Key(longest=40).names(AuditReport(dataset).float_noise, 8))
    assert named.endswith(f"floating-point numbers:[/] {NAMES[2]}")
    assert "publish whole numbers: integers: round" in remedy


def test_a_summary_names_the_worst_verdict_of_each_mechanism():
    dataset, key = results(), Key()
    dataset["verdict"].loc[{"group_size": 100, "mechanism": NAMES[2]}] = "unheard of"
    said = list(count_guarantees(AuditReport(dataset), key, 8))
    assert said == [
        "guarantees [bold red]broken[/]: 1 (A)",
        "guarantees too few samples: 1 (B)",
        "guarantees unheard of: 1 (gaussian[1])",
    ]
