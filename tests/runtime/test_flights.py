"""A cluster is looked after while results come, and given up when none do."""

import pytest
from oracles.clock import Clock

from clusterscale.errors import StalledError

pytestmark = pytest.mark.dask
pytest.importorskip("distributed")


class Done:
    """A future that is finished as soon as somebody waits for it."""

    status = "finished"

    def __init__(self, value):
        self.key, self._value = f"key-{value}", value

    def add_done_callback(self, function):
        function(self)

    def result(self, timeout):
        return self._value

    def release(self):
        self._value = None


def test_results_that_keep_coming_do_not_put_off_the_look():
    from clusterscale.runtime.flights import Flights

    clock, looks = Clock(), []
    under_way = Flights(60, lambda: looks.append(clock.now), clock=clock)
    for i in range(40):
        clock.now += 0.5
        under_way.launch(Done(i), f"cargo {i}")
        landing = under_way.land()
        assert (landing.cargo, landing.value, landing.error) == (f"cargo {i}", i, None)
    assert looks == [2.0 * n for n in range(1, 11)]
    assert len(under_way) == 0


def test_nothing_for_as_long_as_patience_lasts_is_a_stall(monkeypatch):
    from clusterscale.runtime import flights

    monkeypatch.setattr(flights, "_TICK", 0.001)
    clock = Clock()
    under_way = flights.Flights(60, lambda: clock.sleep(20), clock=lambda: clock.sleep(1))
    with pytest.raises(StalledError, match="nothing was finished for 60 seconds"):
        under_way.land()
    assert 60 < clock.now < 100
