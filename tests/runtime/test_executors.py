"""Executors: every item comes back once, errors included; sums keep the order."""

import math
import sys
from functools import partial
from itertools import chain
from operator import add, sub
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles import poison

from clusterscale.contracts import Fold
from clusterscale.runtime import CLUSTERS
from clusterscale.runtime.tree import combine_pairwise


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


def test_items_are_taken_as_they_are_needed(executor):
    """A stream of items is never drawn far ahead of what is finished."""
    drawn = n_finished = 0

    def items():
        nonlocal drawn
        for item in range(12):
            drawn += 1
            yield item

    for batch in executor.map_batches(partial(poison.after, 0.6), items()):
        n_finished += len(batch)
        assert drawn <= n_finished + 2 * executor.n_workers
    assert n_finished == 12


@pytest.mark.dask
def test_batches_grow_to_a_second_and_are_cut_short_when_items_turn_slow():
    """First thousands of items in no time, then some that each take a third of a second."""
    pytest.importorskip("distributed")
    items = [0.0] * 3000 + [0.35] * 20
    with CLUSTERS.create("local", workers=1).open() as executor:
        sizes, values = [], []
        for batch in executor.map_batches(poison.wait, items):
            sizes.append(len(batch))
            values += [each.value for each in batch]
            if batch[-1].item:
                assert sum(each.item for each in batch) < 2 + 0.36 + 1, "no batch goes on for long"
    assert sorted(values) == sorted(items), "nothing is lost or done twice"
    assert sizes[:2] == [1, 1]
    assert all(after <= 4 * max(1, *sizes[:i]) for i, after in enumerate(sizes) if i > 1)
    assert max(sizes) == 1024


def test_nothing_to_do(executor):
    assert list(executor.map_batches(math.isqrt, [])) == []
    with pytest.raises(ValueError, match="nothing to combine"):
        executor.reduce(float, [], sub)


@given(n_items=st.integers(1, 23))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sums_keep_the_order_of_the_items(executor, n_items):
    """Joining words is associative but not commutative: any other order would show."""
    items = range(n_items)
    assert executor.reduce(str, items, add) == "".join(map(str, items))


@pytest.mark.dask
def test_a_worker_holds_few_results_of_parts_however_many_it_has():
    """Two folds are under way: two sums, a part, and the sum that is being made of it."""
    pytest.importorskip("distributed")
    folds = [
        Fold(i, tuple(range(20)), poison.track, poison.track_sum, poison.most_alive)
        for i in range(3)
    ]
    with CLUSTERS.create("local", workers=1).open() as executor:
        found = {each.item: each.value for each in executor.map_folds(folds)}
    assert sorted(found) == [0, 1, 2]
    assert max(found.values()) <= 5


@pytest.mark.dask
def test_workers_do_not_look_at_their_own_threads():
    """Before Python 3.12 that can stop all of them for good (CPython's gh-106883)."""
    pytest.importorskip("distributed")
    with CLUSTERS.create("local", workers=1).open() as executor:
        (callbacks,) = executor._client.run(poison.list_callbacks).values()
    assert "heartbeat" in callbacks
    assert "profile" not in callbacks


def test_tree_by_hand():
    assert combine_pairwise([10, 1, 2, 3, 4], sub) == ((10 - 1) - (2 - 3)) - 4


@pytest.mark.dask
def test_a_module_that_workers_lack_is_an_error_and_not_a_hang(monkeypatch):
    pytest.importorskip("distributed")
    module = ModuleType("only_here")
    exec("def double(item):\n    return 2 * item\n", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    with CLUSTERS.create("local", workers=1).open() as executor:
        finished = list(chain(*executor.map_batches(module.double, [1, 2])))
        assert [str(each.error) for each in finished] == ["No module named 'only_here'"] * 2
        assert next(executor.map_batches(math.isqrt, [9]))[0].value == 3
