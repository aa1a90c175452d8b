"""At most so many events of a user and day, against sets of cells."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from cube import crowd
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from mechanisms.published import BOUNDS, WITH_NULL, fits, publish, refusal

from clusterscale import mechanisms
from clusterscale.contracts import NO_NOISE, CellCoordinates, Stability, Traces
from clusterscale.cube import measure_bounds


def cap(per_day):
    return mechanisms.create("cap_contributions", per_day=per_day)


def frame(n_rois, days):
    return CellCoordinates(np.asarray(days, np.int64), np.zeros(n_rois), np.zeros(n_rois))


def apply(step, traces, where, seed=0):
    return step.apply(traces, where, rng=np.random.default_rng(seed))


def by_day(traces, user, days):
    """A user's cells of each day."""
    found = {}
    for cell in traces.trace(user).tolist():
        found.setdefault(int(days[cell % traces.n_epochs]), set()).add(cell)
    return found


DAYS = st.lists(st.integers(0, 2), min_size=5, max_size=5).map(lambda steps: np.cumsum(steps) + 40)


@given(
    dense=crowd.cubes(),
    days=DAYS,
    per_day=st.integers(1, 6),
    seed=st.integers(0, 9),
    dtype=st.sampled_from([np.int32, np.int64]),
)
def test_never_more_a_day_and_nobody_else_is_touched(dense, days, per_day, seed, dtype):
    """Days may be skipped, as by a calendar of weekends, and any number comes first."""
    days = days[: dense.shape[2]]
    before, where = crowd.traces(dense, dtype), frame(dense.shape[1], days)
    after, same = apply(cap(per_day), before, where, seed)
    assert same is where
    assert after.cells.dtype == dtype
    assert after.n_cells == before.n_cells
    assert (after.offsets[0], after.offsets[-1]) == (0, len(after.cells))
    kept = crowd.densify(after)  # sorted, each once
    assert not (kept & ~dense).any()
    for user in range(len(dense)):
        had, has = by_day(before, user, days), by_day(after, user, days)
        assert had.keys() == has.keys()
        for day, cells in had.items():
            assert len(has[day]) == min(len(cells), per_day)
            assert len(cells) > per_day or has[day] == cells
    again, _ = apply(cap(per_day), before, where, seed)
    np.testing.assert_array_equal(again.cells, after.cells)
    np.testing.assert_array_equal(again.offsets, after.offsets)
    assert measure_bounds(after, days).user_day <= per_day
    np.testing.assert_array_equal(before.cells, crowd.events(dense)[1])


@pytest.mark.parametrize("per_day", [1, 2, 4])
def test_choice_is_uniform(per_day):
    """6000 users with the same two days: 5 events and 3; each choice of each day is as likely."""
    trace = np.zeros((2, 6), np.bool_)
    trace[0, [0, 1, 2, 4]] = trace[1, [0, 1, 3, 5]] = True
    days = np.array([3, 3, 3, 5, 5, 5])
    before = crowd.traces(np.tile(trace, (6000, 1, 1)))
    after, _ = apply(cap(per_day), before, frame(2, days))
    chosen = [by_day(after, user, days) for user in range(6000)]
    full = by_day(before, 0, days)
    assert {day: len(cells) for day, cells in full.items()} == {3: 5, 5: 3}
    for day, cells in full.items():
        choices = list(combinations(sorted(cells), min(per_day, len(cells))))
        seen = Counter(tuple(sorted(found[day])) for found in chosen)
        assert set(seen) <= set(choices)
        expected = np.full(len(choices), 6000 / len(choices))
        assert len(choices) == 1 or fits([seen[choice] for choice in choices], expected)
    if per_day == 1:  # days are capped independently
        pairs = Counter((min(found[3]), min(found[5])) for found in chosen)
        assert fits([pairs[a, b] for a in full[3] for b in full[5]], np.full(15, 400.0))


def test_other_seeds_choose_others():
    traces = crowd.traces(np.ones((50, 4, 5), np.bool_))
    where = frame(4, np.zeros(5))
    one, other = (apply(cap(3), traces, where, seed)[0].cells for seed in (0, 1))
    assert (one != other).any()


def test_nobody():
    nobody = Traces(np.zeros(1, np.int64), np.zeros(0, np.int32), 2, 3)
    after, _ = apply(cap(3), nobody, frame(2, np.zeros(3)))
    assert after.n_users == 0


def test_the_cap_is_a_day_s_sensitivity():
    """An event that is removed lets another one in; who loses four events may become idle."""
    stability = cap(4).stability(Stability(), frame(2, [7, 7, 8]))
    assert stability == Stability(event=2, user_day=4)
    assert stability.limit(BOUNDS) == replace(BOUNDS, event=2, user_day=4)
    assert stability.limit(WITH_NULL) == replace(WITH_NULL, event=4, user_day=8)


@for_each(
    ("days", "until", "n_days"),
    [
        ([0, 0, 1, 1], [0, 0, 1, 1], 1),
        ([0, 0, 1, 1], [0, 1, 1, 1], 3),  # day 1 also changes the last epoch that begins on day 0
        ([0, 0, 1, 1], [0, 1, 1, 2], 4),
        ([0, 1, 2, 3], [1, 2, 3, 4], 4),
        ([0, 1, 2, 3], [3, 1, 2, 3], 3),  # one merged epoch of all days
        ([0, 0, 1, 2], [3, 1, 3, 2], 5),
    ],
)
def test_days_whose_choice_changes_with_one_day(days, until, n_days):
    where = replace(frame(2, days), until=np.array(until))
    stability = cap(3).stability(Stability(), where)
    assert stability == Stability(2, 3 * n_days, confined=n_days == 1)
    again = cap(1).stability(stability, where)
    assert again.user_day == (1 if n_days == 1 else 6 * n_days)


def test_what_it_says_of_itself():
    step = cap(4)
    assert step.trace_steps == (step,)
    assert step.noise == NO_NOISE
    assert step.guarantee.epsilon == np.inf
    assert step.bind(BOUNDS) is step
    counts = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(publish(step, counts), counts)
    values = np.random.default_rng(0).random((2, 3))
    assert step.expand(values, frame(2, np.zeros(3))) is values


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"per_day": 0}, "per_day: is 0, but should be greater than or equal to 1"),
        ({"per_day": 1.5}, "per_day: is 1.5, but should be a whole number"),
        ({}, "per_day: is missing"),
    ],
)
def test_nonsense_is_refused(params, message):
    assert refusal("cap_contributions", **params) == message
