"""Which of several is best: ties are named as ties. Numbers that are written without loss."""

import re
from fractions import Fraction
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from pydantic import BaseModel, ValidationError

from clusterscale.validation_messages import (
    exact_number,
    exact_percent,
    explain,
    find_ties,
    name_best,
    plural,
)

NUMBERS = st.lists(st.sampled_from([0.1, 0.1004, 0.1006, 0.5, 0.9, np.nan, np.inf]), max_size=6)


@given(NUMBERS)
def test_ties_are_what_is_within_half_a_thousandth_of_the_best(values):
    known = [value for value in values if np.isfinite(value)]
    expected = [i for i, v in enumerate(values) if np.isfinite(v) and max(known) - v < 5e-4]
    assert find_ties(values) == expected
    assert find_ties([-value for value in values], lowest=True) == expected


def test_a_tie_is_named_and_none_is_named_twice():
    assert name_best(["a", "b", "c"], [0.5, 0.9, 0.7]) == "b"
    assert name_best(["a", "b", "c"], [0.5, 0.9, 0.7], lowest=True) == "a"
    assert name_best(["a", "b", "c"], [0.9, 0.5, 0.9]) == "a or c"
    assert name_best(["a", "b", "a"], [0.9, 0.9, 0.9]) == "a or b"
    assert name_best("abcdef", [1] * 6) == "a or b or c or 3 more"
    assert name_best(["a", "b"], [np.nan, 0.1]) == "b"
    assert name_best(["a"], [np.nan]) == ""


@for_each(
    ("value", "text"),
    [(1.0, "1"), (0.1, "0.1"), (12.5, "12.5"), (1e-5, "1e-05"), (1 / 3, "0.3333333333333333")],
)
def test_numbers_are_written_in_as_few_digits_as_tell_them(value, text):
    assert exact_number(value) == text


@given(st.floats(0, 1, exclude_min=True))
def test_a_written_number_or_share_is_that_number(value):
    assert float(exact_number(value)) == value
    digits = exact_percent(value).removesuffix(" %")
    assert Fraction(digits) == 100 * Fraction(repr(value))
    assert not re.search(r"\.\d*0$|\.$", digits)


@pytest.mark.parametrize(
    ("share", "text"), [(0.29, "29 %"), (1.0, "100 %"), (0.1, "10 %"), (0.125, "12.5 %")]
)
def test_shares_are_written_in_per_cent(share, text):
    assert exact_percent(share) == text


def test_nouns_agree_with_their_numbers():
    assert [plural(n, "cell") for n in (0, 1, 2, 1234)] == [
        "0 cells",
        "1 cell",
        "2 cells",
        "1,234 cells",
    ]


def test_a_whole_number_of_too_many_digits():
    class Model(BaseModel):
        base: Literal[2, "e"]

    with pytest.raises(ValidationError) as caught:
        Model(base=10**20)
    assert explain(caught.value, Model).endswith("but should be a whole number of fewer digits")
