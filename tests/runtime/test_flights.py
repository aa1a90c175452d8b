"""A cluster is looked after while results come, not only when none do."""

import pytest

pytestmark = pytest.mark.dask


def test_results_that_keep_coming_do_not_put_off_the_look(monkeypatch):
    distributed = pytest.importorskip("distributed")
    from clusterscale.runtime import flights

    monkeypatch.setattr(flights, "_TICK", 0.05)
    looks = []
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        under_way = flights.Flights(60, lambda: looks.append(None))
        for i in range(30):
            under_way.launch(client.submit(_doze, i), i)
            landing = under_way.land()
            assert (landing.cargo, landing.value) == (i, i)
    assert len(looks) >= 5


def _doze(number):
    import time

    time.sleep(0.02)
    return number
