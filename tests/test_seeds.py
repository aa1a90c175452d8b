"""Streams: named by their path and by nothing else, frozen, and random."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

from clusterscale.seeds import stream

PARTS = st.one_of(st.text(max_size=4), st.integers(-3, 3), st.integers())
PATHS = st.lists(PARTS, max_size=4).map(tuple)


def bits(seed, *path, n=2):
    return stream(seed, *path).integers(0, 2**64, n, dtype=np.uint64).tolist()


@pytest.mark.parametrize(
    ("call", "first"),
    [
        ((0,), [11928340836705944408, 281587038727703043]),
        ((1, "groups", 17, 100), [8944136315349594867, 17034993496213804365]),
        ((-(2**70), "é", ""), [8273680661921882670, 16051618195551700919]),
    ],
)
def test_frozen(call, first):
    """Whoever changes how streams are keyed changes every published number."""
    assert bits(*call) == first


@given(one=st.tuples(st.integers(), PATHS), other=st.tuples(st.integers(), PATHS))
def test_a_stream_is_its_path(one, other):
    same = one[0] == other[0] and [(type(p), p) for p in one[1]] == [(type(p), p) for p in other[1]]
    assert (bits(one[0], *one[1]) == bits(other[0], *other[1])) == same
    assert bits(one[0], *one[1]) == bits(one[0], *one[1])


def test_paths_that_look_alike():
    paths = [
        (),
        ("",),
        ("", ""),
        ("ab", "c"),
        ("a", "bc"),
        ("abc",),
        (1,),
        ("1",),
        (1, 1),
        (11,),
        (-1,),
        ("i1:1",),
        ("a", "s1:b"),
        ("a", "b"),
        ("as1:b",),
        (1, 0),
        (10,),
    ]
    drawn = [tuple(bits(1, *path)) for path in paths]
    assert len(set(drawn)) == len(paths)
    assert bits(1) != bits(0, 1)
    assert bits(7, "a", 3) == bits(np.int64(7), "a", np.uint8(3))


@for_each("part", [True, 1.0, None, b"a", ("a",), np.True_, np.float64(1)])
def test_other_parts_are_refused(part):
    with pytest.raises(TypeError) as caught:
        stream(0, "groups", part)
    assert str(caught.value) == f"a seed path holds text and integers, not {part!r}"
    with pytest.raises(TypeError):
        stream(part)


def test_streams_are_uniform_and_unrelated():
    """First draws of 20,000 streams with consecutive names, and draws within one."""
    across = np.array([stream(1, "target", i).random() for i in range(20_000)])
    within = stream(1, "target").random(20_000)
    for sample in (across, within):
        ordered = np.sort(sample)
        distance = np.abs(ordered - (np.arange(20_000) + 0.5) / 20_000).max()
        assert distance < 1.95 / np.sqrt(20_000)  # Kolmogorov: p = .001
        assert abs(np.corrcoef(sample[:-1], sample[1:])[0, 1]) < 4 / np.sqrt(20_000)
    neighbours = [stream(1, "user", i).random(1000) for i in range(5)]
    for one, other in itertools.combinations(neighbours, 2):
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(1000)
