"""Units of data against brute force: the dense traces with and without each."""

import numpy as np
import pytest
from cube import crowd
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

from clusterscale.analyses.dp_audit import privacy_units
from clusterscale.analyses.dp_audit.privacy_units import (
    draw_unit,
    kind_of,
    largest_unit,
    survey_units,
)
from clusterscale.contracts import CellCoordinates
from clusterscale.cube import measure_bounds, with_null_roi
from clusterscale.mechanisms import create

KINDS = ("event", "user_day", "user", "roi_series", "answer")
nulls = pytest.mark.parametrize("null_roi", [False, True])
kinds = pytest.mark.parametrize("kind", KINDS)


def counted(dense, null_roi):
    """Cells of one user, dense (roi, epoch), with the null ROI's last."""
    return np.vstack([dense, ~dense.any(axis=0)]) if null_roi else dense


def left_out(kind, dense, first, last, null_roi):
    """Yield what one user counts in without each unit, dense (roi, epoch)."""
    with_nowhere = counted(dense, null_roi)
    if kind == "user" and with_nowhere.any():
        yield np.zeros_like(with_nowhere)
    if kind == "roi_series":
        for roi in np.flatnonzero(with_nowhere.any(axis=1)):
            other = with_nowhere.copy()
            other[roi] = False
            yield other
    if kind == "answer":
        for cell in np.argwhere(with_nowhere):
            other = with_nowhere.copy()
            other[tuple(cell)] = False
            yield other
    if kind == "event":
        for cell in np.argwhere(dense):
            other = dense.copy()
            other[tuple(cell)] = False
            yield counted(other, null_roi)
    if kind == "user_day":
        for day in np.unique(np.concatenate([first, last])):
            other = dense.copy()
            other[:, (first <= day) & (day <= last)] = False
            if (other != dense).any():
                yield counted(other, null_roi)


@st.composite
def crowds(draw):
    """Users, and epochs that lie on one day or on two."""
    dense = draw(crowd.cubes(min_users=1))
    n_epochs = dense.shape[2]
    steps = st.lists(st.integers(0, 1), min_size=n_epochs, max_size=n_epochs)
    first = 7 + np.cumsum(draw(steps))
    last = np.minimum(first + np.array(draw(steps)), np.append(first[1:], first[-1] + 1))
    return dense, CellCoordinates(first, np.zeros(dense.shape[1]), np.zeros(dense.shape[1]), last)


def made(dense, null_roi):
    return with_null_roi(crowd.traces(dense)) if null_roi else crowd.traces(dense)


def units_of(kind, traces, user, frame):
    for part in privacy_units._parts(kind, traces, user, frame):
        yield privacy_units._unit(kind, traces, user, frame, part)


def largest_of_all(kind, traces, frame):
    survey = survey_units(traces, frame, block=2)
    user = survey.largest["user" if kind == "answer" else kind].user
    return largest_unit(kind, traces, user, frame)


def draw_from_all(kind, traces, frame, *, rng):
    survey = survey_units(traces, frame, block=2)
    return draw_unit(kind, survey, lambda user: traces, frame, rng=rng)


def cells(dense):
    return tuple(np.flatnonzero(dense).tolist())


@nulls
@kinds
@given(found=crowds())
def test_units_are_those_of_brute_force(kind, null_roi, found):
    dense, frame = found
    traces = made(dense, null_roi)
    most = 0
    for user, trace in enumerate(dense):
        whole = counted(trace, null_roi)
        expected = list(left_out(kind, trace, frame.days, frame.last_days, null_roi))
        units = list(units_of(kind, traces, user, frame))
        assert {tuple(unit.outside.tolist()) for unit in units} == set(map(cells, expected))
        assert all(tuple(unit.inside.tolist()) == cells(whole) for unit in units)
        assert all((np.diff(unit.outside) > 0).all() for unit in units)
        most = max([most, *((whole != other).sum() for other in expected)])
    largest = largest_of_all(kind, traces, frame)
    size = 0 if largest is None else len(np.setxor1d(largest.inside, largest.outside))
    assert size == most
    drawn = draw_from_all(kind, traces, frame, rng=np.random.default_rng(0))
    assert (drawn is None) == (most == 0)
    if drawn is not None:
        same = [each.outside.tolist() for each in units_of(kind, traces, drawn.user, frame)]
        assert drawn.outside.tolist() in same


@nulls
@given(found=crowds())
def test_the_largest_is_as_large_as_measured(null_roi, found):
    """What noise is scaled to is what is left out."""
    dense, frame = found
    traces = made(dense, null_roi)
    bounds = measure_bounds(traces, frame.days, frame.last_days)
    for kind, most in (
        ("user_day", bounds.user_day),
        ("user", bounds.user),
        ("roi_series", bounds.series),
    ):
        unit = largest_of_all(kind, traces, frame)
        if unit is not None:
            assert len(np.setxor1d(unit.inside, unit.outside)) == most
    unit = largest_of_all("event", traces, frame)
    if unit is not None:
        assert len(np.setxor1d(unit.inside, unit.outside)) <= bounds.event


def test_every_unit_can_be_drawn():
    dense = crowd.draw(4, 2, 3, seed=5)
    traces, frame = (
        made(dense, True),
        CellCoordinates(np.array([0, 0, 1]), np.zeros(2), np.zeros(2)),
    )
    for kind in KINDS:
        every = {
            (user, tuple(unit.outside.tolist()))
            for user in range(4)
            for unit in units_of(kind, traces, user, frame)
        }
        rng = np.random.default_rng(6)
        drawn = (draw_from_all(kind, traces, frame, rng=rng) for _ in range(60 * len(every)))
        assert {(unit.user, tuple(unit.outside.tolist())) for unit in drawn} == every


@for_each(
    ("mechanism", "kind"),
    [
        (create("laplace", epsilon=1.0, unit="user_day"), "user_day"),
        (create("gaussian", epsilon=1.0, delta=0.1), "user"),
        (create("fourier", epsilon=1.0, coefficients=1), "roi_series"),
        (create("randomized_response", p=0.5), "answer"),
        (create("suppress_small", below=3), None),
        (create("exact"), None),
    ],
)
def test_kind_of_a_guarantee(mechanism, kind):
    assert kind_of(mechanism) == kind
