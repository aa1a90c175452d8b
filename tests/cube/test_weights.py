"""Weights of users are stored, read by block and part of the fingerprint; their sums are exact."""

import numpy as np
import pytest
import xarray as xr
from cube import crowd
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.api import inspect
from clusterscale.contracts import Traces
from clusterscale.cube import TraceCube, new_cube, pick, with_null_roi
from clusterscale.cube.attributes import describe_sizes
from clusterscale.cube.blocks import Source, read_users
from clusterscale.cube.dense import pack
from clusterscale.cube.transforms import cut
from clusterscale.errors import FormatError, InputError

DENSE = crowd.draw(20, 3, 5)
WEIGHTS = np.random.default_rng(3).lognormal(1.5, 1.0, 20)


def write(uri, weights=WEIGHTS, dense=DENSE):
    n_users, n_rois, n_epochs = dense.shape
    where, when = crowd.regions(n_rois), crowd.calendar(n_epochs)
    with new_cube(uri, where, when, provenance={}) as writer:
        writer.append(crowd.names(n_users), *crowd.events(dense))
        if weights is not None:
            writer.weigh(weights)
    return TraceCube(uri)


@pytest.mark.usefixtures("small_chunks")
def test_weights_come_back_for_all_for_a_block_and_for_some(tmp_path):
    cube = write(tmp_path / "cube")
    assert cube.weights == pytest.approx(WEIGHTS, rel=1e-13)
    assert cube.mean_weight == pytest.approx(WEIGHTS.mean(), rel=1e-7)
    np.testing.assert_array_equal(cube.traces().weights, cube.weights)
    np.testing.assert_array_equal(cube.block(3, 17, (1, 4)).weights, cube.weights[3:17])
    some = np.array([19, 0, 7, 7])
    np.testing.assert_array_equal(cube.traces(some).weights, cube.weights[some])
    inspect(cube)  # the fingerprint is that of the content


def test_weights_are_part_of_the_fingerprint_if_there_are_any(tmp_path):
    plain, one, other = (
        write(tmp_path / f"{i}", weights)
        for i, weights in enumerate((None, WEIGHTS, WEIGHTS[::-1]))
    )
    assert plain.weights is None
    assert plain.mean_weight == 1.0
    assert plain.fingerprint == crowd.write(tmp_path / "same", DENSE).fingerprint
    assert len({cube.fingerprint for cube in (plain, one, other)}) == 3


def test_a_source_reads_weights_only_if_it_asks_for_them(tmp_path):
    cube = write(tmp_path / "cube")
    for weights in (False, True):
        source = Source.of(cube, null_roi=True, seed=0, weights=weights)
        (block,) = read_users(source, [((0, 5), ())], (0, 20))
        found = block.traces.weights
        assert (found is not None) == weights
        assert not weights or (found == cube.weights).all()


def test_transforms_keep_the_weights_of_their_users():
    traces = pick(with_null_roi(_traces(WEIGHTS)), np.array([4, 2]))
    assert cut(traces, 1, 3).weights.tolist() == WEIGHTS[[4, 2]].tolist()
    assert traces.weight(1) == WEIGHTS[2]
    assert traces.weight(2) == 0
    assert _traces(None).weight(3) == 1


@given(st.integers(0, 2**32), st.floats(0.1, 4))
def test_sums_of_stored_weights_do_not_depend_on_their_order(tmp_path_factory, seed, spread):
    rng = np.random.default_rng(seed)
    n_users = int(rng.integers(2, 300))
    weights = rng.lognormal(1.6, spread, n_users)
    dense = np.zeros((n_users, 1, 1), np.bool_)
    stored = write(tmp_path_factory.mktemp("w") / "cube", weights, dense).weights
    order, some = rng.permutation(n_users), rng.random(n_users) < 0.5
    assert stored.sum() == sum(stored[order].tolist()) == stored[some].sum() + stored[~some].sum()
    assert np.abs(stored - weights).max() <= 2.0**-52 * weights.sum()


def test_a_dense_cube_may_have_a_weight_for_each_user(tmp_path):
    cube = write(tmp_path / "cube")
    dataset = xr.open_dataset(cube.uri, engine="clusterscale")
    np.testing.assert_array_equal(dataset.weight, cube.weights)
    again = pack(dataset, tmp_path / "again", timezone="America/Los_Angeles")
    np.testing.assert_array_equal(again.weights, cube.weights)
    assert again.fingerprint == cube.fingerprint
    assert pack(dataset.drop_vars("weight"), tmp_path / "plain").weights is None
    with pytest.raises(FormatError, match="weight must be one number per user"):
        pack(dataset.assign_coords(weight=("roi", np.ones(3))), tmp_path / "wrong")
    with pytest.raises(InputError, match="20 of 20 weights are not positive numbers"):
        pack(dataset.assign_coords(weight=("user", np.zeros(20))), tmp_path / "wrong")


@pytest.mark.parametrize(
    ("weights", "fault"),
    [
        (np.ones(19), r"weights are float64 of shape \(19,\), not float64 of shape \(20,\)"),
        (np.ones(20, np.int64), "weights are int64"),
        (np.where(np.arange(20) < 3, 0.0, 1.0), "3 of 20 weights are not positive numbers"),
        (np.full(20, np.inf), "20 of 20 weights are not positive numbers"),
    ],
)
def test_wrong_weights_are_refused(tmp_path, weights, fault):
    with pytest.raises(InputError, match=fault):
        write(tmp_path / "cube", weights)
    with pytest.raises(InputError, match=fault):
        _traces(weights)


def test_a_cube_says_that_it_has_weights(tmp_path):
    cube = write(tmp_path / "cube", np.linspace(1, 3, 20))
    assert describe_sizes(cube.attributes)["users"] == "20  (weights 1 to 3, mean 2)"


def _traces(weights):
    plain = crowd.traces(DENSE)
    return Traces(plain.offsets, plain.cells, *DENSE.shape[1:], weights=weights)
