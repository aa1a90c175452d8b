"""Loops name the case that fails; of a test that is mostly slow a few cases are quick."""

import pytest
from loops import for_each, mostly_slow


def test_a_loop_calls_each_case_and_keeps_its_fixtures(tmp_path):
    seen = []

    @for_each("a, b", [(1, 2), (3, 4)])
    @for_each("c", "xy")
    def test(folder, a, b, c):
        seen.append((folder, a, b, c))

    test(folder=tmp_path)
    assert seen == [(tmp_path, a, b, c) for a, b in ((1, 2), (3, 4)) for c in "xy"]


@pytest.mark.parametrize("error", [AssertionError("wrong"), KeyError("absent")])
def test_a_loop_names_the_case_that_fails(error):
    @for_each("value", range(3))
    def test(value):
        if value == 1:
            raise error

    with pytest.raises(type(error)) as caught:
        test()
    assert caught.value.__notes__ == ["with value=1"]


def test_a_loop_refuses_marks():
    with pytest.raises(TypeError, match="no marks"):
        for_each("value", [1, pytest.param(2, marks=pytest.mark.slow)])


def test_only_the_first_cases_are_quick():
    cases = [1, pytest.param(2, id="two"), (3, 3)]
    _, params = mostly_slow("value", cases, n_quick=1).args
    assert [param.values for param in params] == [(1,), (2,), ((3, 3),)]
    assert [[mark.name for mark in param.marks] for param in params] == [[], ["slow"], ["slow"]]
    assert params[1].id == "two"
