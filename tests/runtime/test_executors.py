"""Executors: every item comes back once, errors included; sums always in the same tree."""

import numpy as np
import pytest

from clusterscale.runtime import CLUSTERS
from clusterscale.runtime.tree import combine_pairwise


def halve(item):
    """Fail on odd numbers."""
    if item % 2:
        raise ValueError(f"{item} is odd")
    return item // 2


def identity(item):
    return item


def subtract(left, right):
    return left - right


@pytest.fixture(scope="module", params=["serial", pytest.param("local", marks=pytest.mark.dask)])
def executor(request):
    if request.param == "local":
        pytest.importorskip("distributed")
    fields = {"workers": 2} if request.param == "local" else {}
    with CLUSTERS.create(request.param, **fields).open() as executor:
        yield executor


def test_every_item_ends_once_with_its_value_or_its_error(executor):
    finished = list(executor.map_unordered(halve, range(23)))
    assert sorted(each.item for each in finished) == list(range(23))
    for each in finished:
        if each.item % 2:
            assert isinstance(each.error, ValueError)
            assert str(each.error) == f"{each.item} is odd"
        else:
            assert each.error is None
            assert each.value == each.item // 2


def test_items_are_taken_as_they_are_needed(executor):
    """A stream of items is never drawn far ahead of what is finished."""
    drawn = 0

    def items():
        nonlocal drawn
        for item in range(0, 400, 2):
            drawn += 1
            yield item

    for n_finished, _ in enumerate(executor.map_unordered(halve, items()), start=1):
        assert drawn <= n_finished + 2 * executor.n_workers


def test_nothing_to_do(executor):
    assert list(executor.map_unordered(halve, [])) == []
    with pytest.raises(ValueError, match="nothing to combine"):
        executor.reduce(identity, [], subtract)


def test_reduction_is_the_same_tree_everywhere(executor):
    """Subtraction is neither associative nor commutative, so any other tree would show."""
    items = list(np.random.default_rng(0).normal(size=21))
    assert executor.reduce(identity, items, subtract) == combine_pairwise(items, subtract)


def test_tree_by_hand():
    assert combine_pairwise([10, 1, 2, 3, 4], subtract) == ((10 - 1) - (2 - 3)) - 4
