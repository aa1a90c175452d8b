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
    from clusterscale.runtime.scheduling import InFlight

    clock, looks = Clock(), []
    under_way = InFlight(60, lambda: looks.append(clock.now), clock=clock)
    for i in range(40):
        clock.now += 0.5
        under_way.submit(Done(i), f"batch {i}")
        completed = under_way.next_completed()
        assert (completed.batch, completed.value, completed.error) == (f"batch {i}", i, None)
    assert looks == [2.0 * n for n in range(1, 11)]
    assert len(under_way) == 0


def test_nothing_for_as_long_as_patience_lasts_is_a_stall(monkeypatch):
    from clusterscale.runtime import scheduling

    monkeypatch.setattr(scheduling, "_TICK", 0.001)
    clock = Clock()
    under_way = scheduling.InFlight(60, lambda: clock.sleep(20), clock=lambda: clock.sleep(1))
    with pytest.raises(StalledError, match="nothing was finished for 60 seconds"):
        under_way.next_completed()
    assert 60 < clock.now < 100


class Late(Done):
    """A finished future whose value is there only when it is asked for a third time."""

    def __init__(self, value, error=TimeoutError):
        super().__init__(value)
        self.waits, self._error = [], error

    def result(self, timeout):
        self.waits.append(timeout)
        if len(self.waits) < 3:
            raise self._error
        return super().result(timeout)


def test_a_value_that_takes_long_to_fetch_is_waited_for_longer_each_time():
    from clusterscale.runtime.scheduling import InFlight

    late, looks = Late(7), []
    clock = Clock()
    under_way = InFlight(60, lambda: looks.append(clock.now), clock=lambda: clock.sleep(1))
    under_way.submit(late, "batch", seconds=2.0)
    completed = under_way.next_completed()
    assert (completed.batch, completed.value, completed.error) == ("batch", 7, None)
    assert late.waits == [2.0, 4.0, 8.0]
    assert looks, "the cluster is looked after meanwhile"


def test_a_value_that_was_lost_with_its_worker_is_waited_for_no_longer_than_before():
    from clusterscale.runtime.scheduling import InFlight

    late = Late(7)
    late.status = "pending"  # it is being computed again
    clock = Clock()
    under_way = InFlight(60, lambda: None, clock=lambda: clock.sleep(1))
    under_way.submit(late, "batch", seconds=2.0)
    assert under_way.next_completed().value == 7
    assert late.waits == [2.0, 2.0, 2.0]


class Unsent(Done):
    """A finished future whose value cannot be sent, until its connection is known to be lost."""

    def __init__(self, value):
        super().__init__(value)
        self.n_asked = 0

    def result(self, timeout):
        self.n_asked += 1
        if self.n_asked == 3:
            self.status = "cancelled"
        raise OSError("the connection is closed")


def test_a_failed_connection_lengthens_no_wait():
    from clusterscale.runtime.scheduling import InFlight

    broken, under_way = Late(7, OSError("the connection is closed")), InFlight(60, lambda: None)
    under_way.submit(broken, "batch", seconds=2.0)
    assert under_way.next_completed().value == 7
    assert broken.waits == [2.0, 2.0, 2.0]


def test_an_error_of_the_task_is_its_outcome_whatever_its_type():
    from clusterscale.runtime.scheduling import InFlight

    failed, under_way = Late(7, OSError("the connection is closed")), InFlight(60, lambda: None)
    failed.status = "error"
    under_way.submit(failed, "batch")
    completed = under_way.next_completed()
    assert (str(completed.error), completed.lost) == ("the connection is closed", False)


def test_a_value_that_cannot_be_sent_is_lost_and_no_error_of_its_task():
    from clusterscale.runtime.scheduling import InFlight

    under_way = InFlight(60, lambda: None)
    under_way.submit(Unsent(7), "batch")
    completed = under_way.next_completed()
    assert (completed.batch, completed.error, completed.lost) == ("batch", None, True)
