"""What a writer takes, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from cube import crowd

from clusterscale.cube import TraceCube, new_cube
from clusterscale.errors import InputError

INCREASE = "cells must increase within a user, each at most once"
OUTSIDE = "a cell is outside 0 to 9"


def ints(*values):
    return np.array(values, np.int64)


def give(uri, *blocks):
    with new_cube(uri, crowd.regions(2), crowd.calendar(5), provenance={}) as writer:
        for block in blocks:
            writer.append(*block)
    return TraceCube(uri)


@pytest.mark.parametrize(
    ("users", "sizes", "cells", "message"),
    [
        (
            ["a"],
            ints(2),
            ints(1),
            "1 users, 1 sizes that add up to 2, 1 events: these must agree",
        ),
        (
            ["a", "b"],
            ints(1),
            ints(1),
            "2 users, 1 sizes that add up to 1, 1 events: these must agree",
        ),
        (
            ["a", "b"],
            ints(2, -1),
            ints(1),
            "2 users, 2 sizes that add up to 1, 1 events: these must agree",
        ),
        (["a"], ints(1), ints(10), OUTSIDE),
        (["a"], ints(1), ints(-1), OUTSIDE),
        (["a"], ints(1), ints(2**32), OUTSIDE),  # 0, were it cut to 32 bits
        (["a"], ints(2), ints(3, 3), INCREASE),
        (["a"], ints(2), ints(4, 3), INCREASE),
        (["a"], ints(2), np.array([4, 3], np.uint8), INCREASE),
        (["a", "b"], ints(1, 2), ints(5, 4, 2), INCREASE),
        (["a", "b", "c"], ints(2, 0, 2), ints(5, 6, 4, 4), INCREASE),
        (
            ["a"],
            ints(1),
            np.array([1.5]),
            "sizes are int64 and cells float64: both must be integers",
        ),
        (
            ["a"],
            np.array([True]),
            ints(1),
            "sizes are bool and cells int64: both must be integers",
        ),
        ([7], ints(1), ints(1), "7 is not a pseudonym: it must be text that UTF-8 can encode"),
        (
            ["\ud800"],
            ints(1),
            ints(1),
            "'\\ud800' is not a pseudonym: it must be text that UTF-8 can encode",
        ),
    ],
)
def test_refused(tmp_path, users, sizes, cells, message):
    with pytest.raises(InputError) as caught:
        give(tmp_path / "cube", (["first"], ints(1), ints(9)), (users, sizes, cells))
    assert str(caught.value) == message
    assert list(tmp_path.iterdir()) == []


def test_taken(tmp_path):
    """A lower cell of the next user, users without events at either end, any integer dtype."""
    cube = give(
        tmp_path / "cube",
        (["a", "b", "c"], ints(0, 2, 0), np.array([8, 9], np.uint16)),
        ([], ints(), ints()),
        (["d", "e"], np.array([0, 3], np.uint8), np.array([0, 1, 2], np.int8)),
    )
    assert cube.offsets.tolist() == [0, 0, 2, 2, 2, 5]
    assert cube.traces().cells.tolist() == [8, 9, 0, 1, 2]
    assert cube.user_ids().tolist() == ["a", "b", "c", "d", "e"]


def test_the_callers_buffer_may_be_used_again(tmp_path):
    where, when = crowd.regions(2), crowd.calendar(5)
    buffer, sizes = np.array([1, 2], np.int32), ints(2)
    with new_cube(tmp_path / "cube", where, when, provenance={}) as writer:
        writer.append(["a"], sizes, buffer)
        buffer[:] = [3, 4]
        writer.append(["b"], sizes, buffer)
        sizes[:] = buffer[:] = 0
    traces = TraceCube(tmp_path / "cube").traces()
    assert traces.cells.tolist() == [1, 2, 3, 4]
    assert traces.offsets.tolist() == [0, 2, 4]


def test_provenance_may_be_filled_during_the_block(tmp_path):
    provenance = {"source": "räder.csv"}
    with new_cube(
        tmp_path / "cube", crowd.regions(1), crowd.calendar(1), provenance=provenance
    ) as writer:
        writer.append(["a"], ints(1), ints(0))
        provenance["dropped"] = {"share": 0.1, "rows": [1, 2]}
    cube = TraceCube(tmp_path / "cube")
    assert cube.attributes["provenance"] == provenance
    assert (cube.n_users, cube.n_rois, cube.n_epochs, cube.n_events) == (1, 1, 1, 1)


def test_a_small_cube_is_small(tmp_path):
    """One chunk an array, of its own size: a last chunk of a million would be mostly padding."""
    crowd.write(tmp_path / "cube", crowd.draw(3, 2, 4))
    assert sum(path.stat().st_size for path in (tmp_path / "cube").rglob("c/*")) < 600


def test_many_chunks(tmp_path, small_chunks):
    dense = crowd.draw(30, 4, 5)
    cube = crowd.write(tmp_path / "cube", dense, cuts=[1, 2, 3, 17])
    n_chunks = len(list((tmp_path / "cube/event_cell/c").iterdir()))
    assert n_chunks == -(-dense.sum() // small_chunks)
    np.testing.assert_array_equal(crowd.densify(cube.traces()), dense)
