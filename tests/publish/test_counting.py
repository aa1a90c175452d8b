"""Counts of everyone and of lists, against sums of dense arrays."""

import numpy as np
import pytest
from conftest import write_cube
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.analyses.publish import counting
from clusterscale.analyses.publish.analysis import read_population
from clusterscale.analyses.publish.counting import counts_in, divide, fold_part, write_members
from clusterscale.analyses.publish.source import OperatingSystemSource
from clusterscale.cube import blocks
from clusterscale.errors import DamagedError, FormatError, InputError
from clusterscale.mechanisms import create
from clusterscale.runtime import SerialExecutor

SPAN = (5, 41)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 4 users, and parts of 8."""
    monkeypatch.setattr(blocks, "_MOST_USERS", 4)
    monkeypatch.setattr(counting, "_BLOCKS", 2)


def count(cube, *, steps=(), members="", null_roi=False, weights=False):
    source = OperatingSystemSource.of(cube, null_roi=null_roi, seed=0, weights=weights)
    parts = divide(source, cube, (SPAN, steps), members)
    done = [*SerialExecutor().map_reductions(map(fold_part, parts))]
    assert [one.error for one in done] == [None] * len(parts)
    total, *others = (one.value for one in done)
    for other in others:
        total = total.plus(other)
    return total


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("null_roi", [False, True])
def test_everyone_is_counted_once(cube, dense, null_roi):
    found = count(cube, null_roi=null_roi)
    seen = dense[..., slice(*SPAN)]
    expected = seen.sum(axis=0)
    if null_roi:
        expected = np.concatenate([expected, (~seen.any(axis=1)).sum(axis=0)[None]])
    assert (found.counts == expected).all()
    assert found.n_users == len(dense)
    if not null_roi:
        assert found.bounds.user == seen.sum(axis=(1, 2)).max()


@pytest.mark.usefixtures("small_blocks")
@given(rows=st.sets(st.integers(0, 59), min_size=2))
def test_a_list_is_counted(rows, cube, dense, tmp_path_factory):
    rows = np.array(sorted(rows))
    uri = str(tmp_path_factory.mktemp("members") / "members.zarr")
    write_members(uri, rows)
    found = count(cube, members=uri)
    seen = dense[rows][..., slice(*SPAN)]
    assert (found.counts == seen.sum(axis=0)).all()
    assert found.n_users == len(rows)
    assert found.bounds.user == max(1, seen.sum(axis=(1, 2)).max())


@pytest.mark.usefixtures("small_blocks")
def test_weights_are_added_up(dense, tmp_path):
    weights = np.linspace(1, 3, len(dense))
    cube = write_cube(str(tmp_path / "weighed.zarr"), dense, weights)
    found = count(cube, weights=True)
    expected = np.einsum("u,ure->re", cube.weights, dense[..., slice(*SPAN)])
    np.testing.assert_array_equal(found.sums, expected)
    assert count(cube).sums is None


@pytest.mark.usefixtures("small_blocks")
def test_capped_days_count_no_more_than_the_cap(cube, dense):
    found = count(cube, steps=(create("cap_contributions", per_day=2),))
    days = cube.calendar.days()[slice(*SPAN)]
    seen = dense[..., slice(*SPAN)]
    n_of_day = [seen[..., days == day].sum(axis=(1, 2)) for day in np.unique(days)]
    assert found.counts.sum() == np.minimum(n_of_day, 2).sum()
    assert (found.counts <= seen.sum(axis=0)).all()
    assert found.bounds.user_day == 2


def test_which_events_a_cap_keeps_is_drawn_anew(cube):
    steps = (create("cap_contributions", per_day=1),)
    one, other = count(cube, steps=steps), count(cube, steps=steps)
    assert (one.counts != other.counts).any()


@pytest.mark.usefixtures("small_blocks")
def test_kept_parts_are_read_as_they_were_written(cube, tmp_path):
    records = counts_in(str(tmp_path / "counts"))
    source = OperatingSystemSource.of(cube, null_roi=False, seed=0)
    parts = divide(source, cube, (SPAN, ()), "")
    assert [part.users for part in parts][:2] == [(0, 8), (8, 16)]
    (done,) = SerialExecutor().map_reductions([fold_part(parts[1])])
    records.add((parts[1].users, done.value))
    ((users, found),) = records
    assert users == (8, 16)
    assert (found.counts == done.value.counts).all()
    assert (found.bounds, found.n_users, found.sums) == (done.value.bounds, 8, None)
    (path,) = (tmp_path / "counts").iterdir()
    path.write_bytes(path.read_bytes()[:-3] + b"xyz")
    with pytest.raises(DamagedError, match="it is not what was written"):
        list(records)


def test_a_task_carries_no_array(cube):
    import pickle

    source = OperatingSystemSource.of(cube, null_roi=False, seed=0)
    reduction = fold_part(divide(source, cube, (SPAN, ()), "")[0])
    assert len(pickle.dumps(reduction.parts[0])) < 1000


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_lists_of_users(form, cube, tmp_path):
    import pandas as pd

    path = tmp_path / f"panel.{form}"

    def write(users, column="user"):
        table = pd.DataFrame({column: users, "other": 1})
        table.to_csv(path, index=False) if form == "csv" else table.to_parquet(path)
        return read_population(str(path), cube)

    assert write(["u003", "u001"]).tolist() == [1, 3]
    for users, words in (
        (["u003", "u003"], "1 users are listed twice"),
        (["u003", "nobody"], "1 of 2 users are not in the cube"),
        (["u003"], "1 users are listed"),
    ):
        with pytest.raises(InputError, match=words) as raised:
            write(users)
        assert "u003" not in str(raised.value)
        assert "nobody" not in str(raised.value)
    with pytest.raises(FormatError, match="must have a column user"):
        write(["u003", "u001"], "secret")
