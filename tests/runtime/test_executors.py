"""Executors: every item comes back once, errors included; sums keep the order."""

import math
import sys
from itertools import chain
from operator import add, sub
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles import inproc, poison
from oracles.clock import Clock

from clusterscale.runtime import CLUSTERS, scheduling
from clusterscale.runtime.clusters.base import ENVIRONMENT
from clusterscale.runtime.scheduling import combine_pairwise
from clusterscale.study.execution import Reduction


@pytest.fixture(scope="module", params=["serial", pytest.param("local", marks=pytest.mark.dask)])
def executor(request):
    if request.param == "local":
        yield request.getfixturevalue("local_cluster")
        return
    with CLUSTERS.create(request.param).open() as executor:
        yield executor


def test_every_item_ends_once_with_its_value_or_its_error(executor):
    finished = list(chain(*executor.map_batches(math.isqrt, range(-5, 20))))
    assert sorted(each.item for each in finished) == list(range(-5, 20))
    for each in finished:
        if each.item < 0:
            assert isinstance(each.error, ValueError)
            assert str(each.error) == "isqrt() argument must be nonnegative"
        else:
            assert each.error is None
            assert each.value == math.isqrt(each.item)


def test_items_are_taken_as_they_are_needed(executor, monkeypatch):
    """A stream of items is never drawn far ahead of what is finished."""
    monkeypatch.setattr(scheduling, "_MAX_ITEMS", 1)
    drawn = n_finished = 0

    def items():
        nonlocal drawn
        for item in range(50):
            drawn += 1
            yield item

    for batch in executor.map_batches(math.isqrt, items()):
        n_finished += len(batch)
        assert drawn <= n_finished + 2 * executor.n_workers
    assert n_finished == 50


def test_a_batch_grows_to_a_second_of_work_by_four_at_most():
    size = scheduling.BatchSize()
    assert size.next(1) == 1
    for n_items, seconds, fitting in [
        (1, 0.0, 4),
        (4, 0.0, 16),
        (16, 0.5, 32),  # a second of work
        (32, 0.0, 128),
        (128, 0.0, 512),
        (512, 0.0, 1024),
        (1024, 0.0, 1024),  # the most
        (1024, 4.0, 256),
        (2, 8.0, 1),  # a batch that was cut short
        (1, 60.0, 1),
        (32, 0.0, 128),  # a batch that was sent before
    ]:
        size.update(n_items, seconds)
        assert size.next(1) == fitting


def test_batches_last_longer_on_many_threads_and_become_smaller_towards_the_end():
    """A thousand threads, 30 tasks of five seconds for each."""
    size, left, sizes = scheduling.BatchSize(30_000), 30_000, []
    while left:
        n = min(left, size.next(1000))
        size.drawn(n)
        size.update(n, 5.0 * n)
        left -= n
        sizes.append(n)
    assert sizes[0] == 15, "half of the items of a thread, before anything is known of them"
    assert max(sizes[1:]) == 4, "twenty seconds: 50 batches finish in a second"
    assert sizes[-1] == 1
    size.drawn(-12_000)
    assert size.next(1000) == 4, "items that were returned are left again"


CLOCK = Clock()


def work_for(seconds):
    """Work for so long, as the clock of the test says."""
    CLOCK.now += seconds
    return seconds


@pytest.mark.dask
def test_batches_are_cut_short_when_items_turn_slow(monkeypatch):
    """First thousands of items in no time, then some that each take three eighths of a second."""
    pytest.importorskip("distributed")
    for module in ("scheduling", "serial"):
        monkeypatch.setattr(f"clusterscale.runtime.{module}.perf_counter", CLOCK)
    items = [0.0] * 3000 + [0.375] * 40
    with inproc.open_executor() as executor:
        batches = list(executor.map_batches(work_for, items))
    values = [each.value for batch in batches for each in batch]
    assert sorted(values) == sorted(items), "nothing is lost or done twice"
    sizes = [len(batch) for batch in batches]
    assert sizes[:2] == [1, 1]
    assert all(after <= 4 * max(1, *sizes[:i]) for i, after in enumerate(sizes) if i > 1)
    assert max(sizes) == 1024
    seconds = [sum(each.item for each in batch) for batch in batches]
    assert max(seconds) == 2.25, "begun before two seconds were over"
    assert max(seconds[-5:]) <= 1, "the last batches are of a second"


@pytest.mark.slow
@pytest.mark.dask
def test_what_is_left_of_batches_that_are_cut_short_is_done_once(local_cluster, monkeypatch):
    monkeypatch.setattr(
        "clusterscale.runtime.dask.batch_seconds", lambda n: 0
    )  # each ends after one item
    batches = list(local_cluster.map_batches(abs, range(-200, 0)))
    assert [len(batch) for batch in batches] == [1] * 200
    assert sorted(batch[0].value for batch in batches) == list(range(1, 201))


def total(executor, function, items, combine):
    (finished,) = executor.map_reductions([Reduction(None, tuple(items), function, combine)])
    if finished.error is not None:
        raise finished.error
    return finished.value


def test_nothing_to_do(executor):
    assert list(executor.map_batches(math.isqrt, [])) == []
    with pytest.raises(ValueError, match="nothing to combine"):
        total(executor, float, [], sub)


@given(n_items=st.integers(1, 23))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sums_keep_the_order_of_the_items(executor, n_items):
    """Joining words is associative but not commutative: any other order would show."""
    items = range(n_items)
    assert total(executor, str, items, add) == "".join(map(str, items))


@pytest.mark.slow
@pytest.mark.dask
def test_a_worker_holds_few_results_of_parts_however_many_it_has():
    """Five: two folds are under way, with two sums, a part, and the sum that is being made of it.

    More while messages of the scheduler that release results are late; never all the parts.
    """
    pytest.importorskip("distributed")
    folds = [
        Reduction(i, tuple(range(100)), poison.track, poison.track_sum, poison.most_alive)
        for i in range(3)
    ]
    with inproc.open_executor() as executor:
        found = {each.item: each.value for each in executor.map_reductions(folds)}
    assert sorted(found) == [0, 1, 2]
    assert max(found.values()) <= 33


@pytest.mark.dask
def test_workers_do_not_look_at_their_own_threads(local_cluster):
    """Before Python 3.12 that can stop all of them for good (CPython's gh-106883)."""
    for callbacks in local_cluster._client.run(poison.list_callbacks).values():
        assert "heartbeat" in callbacks
        assert "profile" not in callbacks


@pytest.mark.slow
@pytest.mark.dask
def test_a_local_cluster_is_set_up_as_work_needs_it(monkeypatch):
    pytest.importorskip("distributed")
    for name in ENVIRONMENT:  # a user's own value would be kept
        monkeypatch.delenv(name, raising=False)
    with CLUSTERS.create("local", workers=1).open() as executor:
        executor.preflight(lambda: None)
        (callbacks,) = executor._client.run(poison.list_callbacks).values()
        (variables,) = executor._client.run(poison.list_variables).values()
    assert "profile" not in callbacks
    assert variables | ENVIRONMENT == variables


def test_tree_by_hand():
    assert combine_pairwise([10, 1, 2, 3, 4], sub) == ((10 - 1) - (2 - 3)) - 4


@pytest.mark.dask
def test_a_module_that_workers_lack_is_an_error_and_not_a_hang(local_cluster, monkeypatch):
    module = ModuleType("only_here")
    exec("def double(item):\n    return 2 * item\n", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    finished = list(chain(*local_cluster.map_batches(module.double, [1, 2])))
    assert [str(each.error) for each in finished] == ["No module named 'only_here'"] * 2
    assert next(local_cluster.map_batches(math.isqrt, [9]))[0].value == 3
