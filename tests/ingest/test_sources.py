"""Files cut into pieces: each line is in exactly one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("dask")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.ingestion.merge import UserCells, combine, from_frame
from clusterscale.reading import sources
from clusterscale.reading.sources import File, Piece

pytestmark = pytest.mark.dask


@given(
    lines=st.lists(st.text("ab", max_size=12), max_size=12),
    last=st.booleans(),
    size=st.integers(1, 40),
)
def test_every_line_is_in_one_piece(lines: list[str], last: bool, size: int) -> None:
    body = "\n".join(lines).encode() + b"\n" * last
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.csv")
        path.write_bytes(body)
        (file,) = sources.find(str(path), ("*.csv",), kind="CSV file")
        pieces = list(sources.slices(file, size))
        blocks = [b"".join(sources.text_blocks(piece, 1 << 20)) for piece in pieces]
    assert b"".join(blocks) == body
    filled = [block for block in blocks if block]
    assert all(block.endswith(b"\n") for block in filled[:-1])


@given(sizes=st.lists(st.integers(0, 30), max_size=20), most=st.integers(1, 40))
def test_packs_keep_the_order_and_overflow_only_by_one_piece(sizes: list[int], most: int) -> None:
    pieces = [Piece(File(str(i), "", size), 0, size, size) for i, size in enumerate(sizes)]
    packs = sources.pack(pieces, most)
    assert [piece for each in packs for piece in each] == pieces
    for each in packs:
        assert len(each) == 1 or sum(piece.size for piece in each) <= most


_PARTS = st.lists(
    st.dictionaries(
        st.sampled_from(["b", "a", "Ω", "\U0001f6b2", "\uffff"]),
        st.sets(st.integers(0, 99), min_size=1),
    ),
    max_size=5,
)


@given(_PARTS)
def test_visits_are_joined_by_user_and_counted_when_twice(
    parts: list[dict[str, set[int]]],
) -> None:
    union: dict[str, set[int]] = {}
    for part in parts:
        for user, cells in part.items():
            union.setdefault(user, set()).update(cells)
    visits, n_twice = combine([_visits(part) for part in parts], 100, in_order=True)
    assert visits.users.to_pylist() == sorted(union)
    ends = np.cumsum(visits.sizes)[:-1]
    assert [part.tolist() for part in np.split(visits.cells, ends)][: len(union)] == [
        sorted(union[user]) for user in sorted(union)
    ]
    n_all = sum(len(cells) for part in parts for cells in part.values())
    assert n_twice == n_all - sum(map(len, union.values()))


@given(_PARTS, st.randoms(use_true_random=False))
def test_visits_survive_a_frame_whatever_the_order_of_its_rows(
    parts: list[dict[str, set[int]]], rng: object
) -> None:
    whole = combine([_visits(part) for part in parts], 100, in_order=True)[0]
    frame = whole.frame()
    shuffled = frame.iloc[np.argsort([hash(user) for user in frame["user"]], kind="stable")]
    again = combine([from_frame(shuffled)], 100, in_order=True)[0]
    assert again.users.equals(whole.users)
    np.testing.assert_array_equal(again.sizes, whole.sizes)
    np.testing.assert_array_equal(again.cells, whole.cells)


def _visits(part: dict[str, set[int]]) -> UserCells:
    cells = [sorted(each) for each in part.values()]
    flat = np.array([cell for each in cells for cell in each], np.int64)
    sizes = np.array([len(each) for each in cells], np.int64)
    return UserCells(pa.array(list(part), pa.string()), sizes, flat)
