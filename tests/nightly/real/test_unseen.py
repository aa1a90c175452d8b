"""Riders of bicycles, most of whom are absent in any one week."""

import numpy as np
import pytest

from clusterscale.analyses.audit import Period, Targets
from clusterscale.analyses.audit.targets import Presence
from clusterscale.cube import Calendar, Grid, TraceCube

pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.dask]

N_RIDERS, N_SEEN = 2645, [968, 868, 914, 722]


def test_riders_are_chosen_among_those_of_the_week(real_data, tmp_path):
    """Counted in the events themselves; all four weeks together are the whole cube."""
    from clusterscale.ingestion import READERS, IngestOptions, ingest  # needs dask

    uri = str(tmp_path / "cube")
    ingest(
        str(real_data / "valleybike_1min.parquet"),
        uri,
        IngestOptions(
            reader=READERS.create("events"),
            locator=Grid.parse("42.05,-72.72,42.45,-72.48/20x12"),
            calendar=Calendar.parse("2018-08-20T00:00", "1h", 28 * 24, "America/New_York"),
        ),
    )
    cube = TraceCube(uri)
    weeks = [Period(name=f"week {i + 1}", first=168 * i) for i in range(4)]
    traces = cube.traces()
    user = np.repeat(np.arange(N_RIDERS), np.diff(traces.offsets))
    week = traces.cells % traces.n_epochs // 168
    for i, period in enumerate(weeks):
        there = np.unique(user[week == i])
        presence = Presence.of(cube, [period])
        assert str(presence) == f"{len(there)} of 2,645 users have an event in week {i + 1}"
        chosen = Targets(tertiles=50).choose(cube, 1, periods=[period])
        assert set(chosen.users) <= set(there)
        assert len(chosen.users) == 150
        everyone = Targets(tertiles=50, unseen="include").choose(cube, 1, periods=[period])
        assert not set(everyone.users) <= set(there), "most of them have nothing to expose"
    month = Presence.of(cube, weeks)
    assert month.n_seen.tolist() == N_SEEN
    np.testing.assert_array_equal(month.total, np.diff(cube.offsets))
