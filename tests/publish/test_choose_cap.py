"""The private choice of how many events of each user and day are kept."""

import numpy as np
import pytest
from oracles.publications import plan, publish
from pydantic import ValidationError

from clusterscale.analyses.publish import counting
from clusterscale.analyses.publish.counting import fold_days, write_members
from clusterscale.analyses.publish.plan import CapChoice
from clusterscale.analyses.publish.publication import CAP
from clusterscale.analyses.publish.release import choose_cap
from clusterscale.analyses.publish.source import OperatingSystemSource
from clusterscale.cube import blocks
from clusterscale.errors import StoreError
from clusterscale.mechanisms import create
from clusterscale.release import read_table
from clusterscale.runtime import SerialExecutor
from clusterscale.storage.manifest import read_sealed

NOISE = {"name": "laplace", "epsilon": 1.0, "unit": "user_day", "discrete": True}
CAPPED = {"name": "chain", "steps": [{"name": "cap_contributions", "per_day": 24}, NOISE]}
BUDGET = {"unit": "user_day", "epsilon": 4.0}


def test_user_days_are_counted_by_their_events(cube, dense, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "_MOST_USERS", 4)
    monkeypatch.setattr(counting, "_BLOCKS", 2)
    rows = np.flatnonzero(np.arange(60) % 3 != 1)
    members = str(tmp_path / "members.zarr")
    write_members(members, rows)
    source = OperatingSystemSource.of(cube, null_roi=True, seed=0)
    window = (10, 48), (create("cap_contributions", per_day=9),)
    parts = counting.divide(source, cube, window, members)
    done = [one.value for one in SerialExecutor().map_reductions(map(fold_days, parts))]
    days = cube.calendar.days()[10:48]
    expected = np.zeros(10, np.int64)
    for user in rows:
        for day in np.unique(days):
            n_events = int(dense[user][:, 10:][:, days == day].sum())
            expected[min(n_events, 9)] += 1
    np.testing.assert_array_equal(np.sum(done, axis=0)[1:], expected[1:])


@pytest.mark.parametrize(("quantile", "best"), [(0.5, 3), (0.9, 5), (0.95, 6)])
def test_the_cap_is_the_quantile_where_noise_is_small(quantile, best):
    of_events = np.array([0, 2_000, 2_000, 2_000, 2_000, 1_200, 800, 0, 0, 0])
    assert choose_cap(CapChoice(epsilon=5.0, quantile=quantile), of_events, 1) == best


def test_with_much_noise_the_cap_is_one_of_those_allowed():
    of_events = np.array([0, 3, 0, 1])
    drawn = {choose_cap(CapChoice(epsilon=0.001), of_events, 1) for _ in range(200)}
    assert drawn == {1, 2, 3}  # fails by chance with probability below 1e-9


def test_the_choice_satisfies_its_guarantee():
    """At ε = ½, a user-day more changes no probability by more than e^ε (5,000 draws each)."""
    choice, n = CapChoice(epsilon=0.5, quantile=0.5), 5_000
    rates = [
        np.bincount([choose_cap(choice, np.array(days), 1) for _ in range(n)], minlength=3)[1:] / n
        for days in ([9, 3, 3], [9, 3, 4])
    ]
    slack = 5 * np.sqrt(0.25 / n)  # five standard deviations at most: chance below 1e-6
    assert (rates[0] <= np.exp(0.5) * rates[1] + slack).all()
    assert (rates[1] <= np.exp(0.5) * rates[0] + slack).all()


def test_a_release_states_the_sum_and_keeps_its_cap_when_it_is_resumed(cube, tmp_path, monkeypatch):
    made = plan(
        tmp_path, mechanism=CAPPED, budget=BUDGET, choose_cap={"epsilon": 0.5, "quantile": 0.5}
    )
    run = tmp_path / "run"

    def fail(*_):
        raise StoreError("full")

    with monkeypatch.context() as broken:
        broken.setattr("clusterscale.analyses.publish.release.draw", fail)
        with pytest.raises(StoreError):
            publish(cube, made, run)
    (kept,) = run.rglob(CAP)
    per_day = read_sealed(str(kept))["per_day"]
    assert 1 <= per_day <= 24
    publish(cube, made, run)
    release = read_table(f"{tmp_path}/releases/places/places-0001.zarr")
    cap, noise = release.metadata.mechanism.steps
    assert (cap.per_day, noise.epsilon) == (per_day, 1.0)
    assert release.metadata.ledger.epsilon == 1.5
    assert "1.5" in release.metadata.guarantee


@pytest.mark.parametrize(
    "mechanism",
    [NOISE | {"unit": "event"}, {"name": "chain", "steps": [NOISE | {"unit": "event"}]}],
    ids=["noise", "chain"],
)
def test_a_choice_without_a_cap_is_refused(mechanism, tmp_path):
    event = {"unit": "event", "epsilon": 4.0}
    with pytest.raises(ValidationError, match="choose_cap: needs cap_contributions as the first"):
        plan(tmp_path, mechanism=mechanism, budget=event, choose_cap={"epsilon": 0.5})
