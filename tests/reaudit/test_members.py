"""Who is known to be inside is read as it was written; nobody is named where it is wrong."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

from clusterscale.errors import FormatError, InputError
from clusterscale.reauditing.scoring import NO_MEMBERS, Membership, read_members


def table(form, users, inside, columns=("user", "inside")):
    told = pd.DataFrame({columns[0]: users, columns[1]: inside})
    sink = io.BytesIO()
    (told.to_parquet if form == "parquet" else told.to_csv)(sink, index=False)
    return sink.getvalue()


@for_each("form", ["csv", "parquet"])
@for_each("flags", [(True, False), (1, 0), ("yes", "no"), ("True", "FALSE"), ("1", "0")])
def test_what_was_written_is_read(cube, form, flags):
    users, inside = ["u007", "u003", "u059", "u011"], [flags[0], flags[1], flags[0], flags[1]]
    found = read_members(table(form, users, inside), "members", cube, 5)
    np.testing.assert_array_equal(found.inside, [7, 59])
    np.testing.assert_array_equal(found.outside, [3, 11])


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    """A cube whose users have names like numbers, and like nothing."""
    from clusterscale.cube import Calendar, Grid, TraceCube, new_cube

    uri = str(tmp_path_factory.mktemp("numbered") / "cube.zarr")
    calendar = Calendar.parse("2024-07-01T00:00", "1h", 24, "UTC")
    with new_cube(uri, Grid.parse("50,0,51,1/1x2").regions, calendar, provenance={}) as writer:
        writer.append(["007", "1e3", "8", "NA"], np.ones(4, int), np.arange(4))
    return TraceCube(uri)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_names_that_look_like_numbers_stay_names(numbered, form):
    content = table(form, ["007", "1e3", "8", "NA"], [True, True, False, False])
    found = read_members(content, "members", numbered, 5)
    np.testing.assert_array_equal(found.inside, [0, 1])
    np.testing.assert_array_equal(found.outside, [2, 3])


def test_one_of_two_names(cube):
    """Results call a user by another name than the cube; that is still one user."""
    (other,) = cube.pseudonyms(np.array([4]))
    found = read_members(table("csv", [other, "u003"], [True, False]), "members", cube, 5)
    np.testing.assert_array_equal(found.inside, [4])
    with pytest.raises(InputError, match="members: 1 users are listed twice"):
        read_members(table("csv", [other, "u004"], [True, False]), "members", cube, 5)


def test_nobody(cube):
    for form in ("csv", "parquet"):
        found = read_members(table(form, [], []), "members", cube, 5)
        assert len(found.inside) == len(found.outside) == 0
    users, labels = NO_MEMBERS.draw(10, 0)
    assert users.shape == labels.shape == (0,)


@for_each("form", ["csv", "parquet"])
@for_each(
    ("users", "inside", "told"),
    [
        (["u001", "u001"], [True, False], "1 users are listed twice"),
        (["u001", "stranger"], [True, False], "1 of 2 users are not in the cube"),
        (["u001", "u002"], [True, "perhaps"], "1 values of inside are not true or false"),
        (["u001", "u002"], [True, None], "1 values of inside are not true or false"),
        (["u001", "u002", "u003"], [True] * 3, "3 users are inside a group of 2"),
    ],
)
def test_what_is_wrong_is_told_without_names(cube, form, users, inside, told):
    with pytest.raises(InputError) as caught:
        read_members(table(form, users, list(map(str, inside))), "s3://b/members", cube, 2)
    assert str(caught.value) == f"s3://b/members: {told}"


@for_each(
    "content",
    [
        b"",
        b"PAR1 and no more",
        b"\xff\xfe\x00",
        b"u001,true\nu002,false\n",
        b"user,inside,user\nu001,true,u002\n",
        table("parquet", ["u001"], [True], ("person", "inside")),
        table("csv", ["u001"], [True], ("user", "u002")),
    ],
)
def test_no_such_table(cube, content):
    with pytest.raises(FormatError) as caught:
        read_members(content, "members", cube, 5)
    assert str(caught.value).startswith("members ")
    assert "u00" not in str(caught.value)
    assert caught.value.__cause__ is None


ROWS = st.lists(st.integers(0, 99), unique=True, max_size=40)


@given(ROWS, st.integers(0, 40), st.integers(0, 30), st.integers(0, 5))
def test_as_many_are_drawn_from_either_side(rows, n_inside, most, seed):
    inside, outside = (
        np.sort(np.array(part, np.int64)) for part in (rows[:n_inside], rows[n_inside:])
    )
    users, labels = Membership(inside, outside).draw(2 * most, seed)
    each = min(most, len(inside), len(outside))
    assert labels.sum() == (~labels).sum() == each
    assert (np.diff(users) > 0).all()
    assert np.isin(users[labels], inside).all()
    assert np.isin(users[~labels], outside).all()
    again = Membership(inside, outside).draw(2 * most, seed)
    np.testing.assert_array_equal(again[0], users)


def test_another_seed_draws_others():
    known = Membership(np.arange(50), np.arange(50, 100))
    drawn = [tuple(known.draw(20, seed)[0]) for seed in range(5)]
    assert len(set(drawn)) == 5
