"""The numbers that describe a cube, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from cube import crowd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterscale.cube.describe import activity, count_events, summarise
from clusterscale.errors import DamagedError


@given(dense=crowd.cubes(), dtype=st.sampled_from([np.int32, np.int64]))
def test_activity(dense, dtype):
    rois, epochs = activity(crowd.traces(dense, dtype))
    np.testing.assert_array_equal(rois, dense.any(axis=2).sum(axis=1))
    np.testing.assert_array_equal(epochs, dense.any(axis=1).sum(axis=1))


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_summary(tmp_path, monkeypatch, block):
    monkeypatch.setattr("clusterscale.cube.describe._BLOCK", block)
    dense = crowd.draw(10, 4, 24, share=0.1)
    cube = crowd.write(tmp_path / "cube", dense)
    found = summarise(cube)
    assert (found.n_users, found.n_rois, found.n_epochs) == dense.shape
    assert found.n_events == dense.sum()
    for have, want in (
        (found.events, dense.sum(axis=(1, 2))),
        (found.unique_rois, dense.any(axis=2).sum(axis=1)),
        (found.active_epochs, dense.any(axis=1).sum(axis=1)),
    ):
        assert have == pytest.approx((want.mean(), want.std()))
    assert found.when == "Mon 2008-05-19 00:00 to Tue 2008-05-20 00:00 America/Los_Angeles"
    files = [path for path in (tmp_path / "cube").rglob("*") if path.is_file()]
    assert found.stored_bytes >= sum(path.stat().st_size for path in files)
    assert found.raw_bytes == dense.sum() * 4 + 11 * 8
    assert found.compression == found.raw_bytes / found.stored_bytes


def test_nobody(tmp_path):
    found = summarise(crowd.write(tmp_path / "cube", crowd.draw(0, 2, 3)))
    assert found.events == found.unique_rois == found.active_epochs == (0.0, 0.0)
    assert found.n_users == found.n_events == 0


def test_chunks_that_changed_places_are_found(tmp_path, small_chunks):
    """Each is sound by its own checksum; only the fingerprint tells."""
    cube = crowd.write(tmp_path / "cube", np.ones((8, 1, small_chunks), np.bool_))
    summarise(cube)  # all users alike: every chunk of events is the same
    dense = np.concatenate([crowd.draw(8, 1, 16, share=0.5), np.ones((8, 1, 16), np.bool_)])
    cube = crowd.write(tmp_path / "other", dense)
    first, last = (tmp_path / f"other/event_cell/c/{i}" for i in (0, 9))
    a, b = first.read_bytes(), last.read_bytes()
    first.write_bytes(b)
    last.write_bytes(a)
    with pytest.raises(DamagedError) as caught:
        summarise(cube)
    assert "of event_cell is damaged: it is not the one that was written" in str(caught.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), size=st.sampled_from([1, 4, 64]))
def test_events_of_each_user_in_each_span(tmp_path_factory, monkeypatch, data, size):
    """Spans may overlap: an event in two of them counts once in all together."""
    dense = crowd.draw(10, 3, 12, share=0.1)
    cube = crowd.write(tmp_path_factory.mktemp("spans") / "cube", dense)
    monkeypatch.setattr("clusterscale.cube.describe.block_size", lambda cube: size)
    ends = st.tuples(st.integers(0, 11), st.integers(1, 12)).filter(lambda pair: pair[0] < pair[1])
    spans = tuple(data.draw(st.lists(ends, min_size=1, max_size=3)))
    within = np.array([[first <= epoch < last for epoch in range(12)] for first, last in spans])
    found = count_events(cube, spans)
    for row, inside in zip(found, [*within, within.any(axis=0)], strict=True):
        np.testing.assert_array_equal(row, dense[:, :, inside].sum(axis=(1, 2)))
    assert not found.flags.writeable


def test_events_of_the_whole_cube_are_told_without_reading_any(tmp_path, monkeypatch):
    dense = crowd.draw(10, 3, 12, share=0.1)
    cube = crowd.write(tmp_path / "cube", dense)
    monkeypatch.setattr(type(cube), "blocks", lambda *_: pytest.fail("events were read"))
    np.testing.assert_array_equal(count_events(cube, ((0, 12),)), [dense.sum(axis=(1, 2))] * 2)
