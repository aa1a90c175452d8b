"""Dense cubes of others become event cubes, whatever their layout."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import xarray as xr
import zarr
from cube import crowd
from hypothesis import given
from hypothesis import strategies as st
from loops import mostly_slow
from typer.testing import CliRunner

from clusterscale.cli import app
from clusterscale.cube import dense as module
from clusterscale.cube.dense import pack
from clusterscale.errors import DamagedError, ExistsError, FormatError, InputError, MissingError

DIMS = ("user", "roi", "epoch")
DENSE = crowd.draw(9, 4, 6)
HOURS = np.datetime64("2008-05-19T07:00") + np.arange(6) * np.timedelta64(1, "h")


def array(values=DENSE, dims=DIMS, name="trace", **coords):
    return xr.DataArray(values, dims=dims, name=name, coords=coords)


def full():
    return array(
        user=np.array(crowd.names(9), object),
        roi=np.array(crowd.regions(4).names, object),
        roi_lat=("roi", 50.0 + np.arange(4)),
        roi_lon=("roi", -1.0 - np.arange(4)),
        epoch=HOURS.astype("datetime64[ns]"),
    )


def save(trace, uri, **options):
    options = {"zarr_format": 3, "consolidated": False, **options}
    trace.to_zarr(uri, **options)
    return str(uri)


@given(
    dense=crowd.cubes(),
    order=st.permutations(DIMS),
    dtype=st.sampled_from([np.bool_, np.uint8, np.int8, np.int64, np.float32]),
    many=st.integers(1, 100),
    tile=st.integers(1, 200),
)
def test_any_order_dtype_and_tile(fresh, dense, order, dtype, many, tile):
    values = (dense * many).astype(dtype)
    trace = array(values).transpose(*order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_TILE", tile)
        cube = pack(trace, fresh())
    np.testing.assert_array_equal(crowd.densify(cube.traces()), dense)
    assert cube.user_ids().tolist() == [str(i) for i in range(len(dense))]


@mostly_slow(
    ("tile", "chunks"),
    product((50, 1, 1 << 22), [(2, 3, 4), (9, 4, 6), (2, 4, 6), (9, 1, 1), (1, 4, 5)]),
    n_quick=5,
)
def test_reads_whole_chunks_each_once(tmp_path, monkeypatch, chunks, tile):
    monkeypatch.setattr(module, "_TILE", tile)
    source = save(full(), tmp_path / "dense", encoding={"trace": {"chunks": chunks}})
    read = []
    seen = module._observed

    def look(piece):
        read.append(piece.sizes)
        return seen(piece)

    monkeypatch.setattr(module, "_observed", look)
    cube = pack(source, tmp_path / "cube")
    np.testing.assert_array_equal(crowd.densify(cube.traces()), DENSE)
    assert sum(sizes["user"] * sizes["roi"] * sizes["epoch"] for sizes in read) == DENSE.size
    one_chunk = np.prod(chunks)
    for sizes in read:
        assert np.prod([sizes[dim] for dim in DIMS]) <= max(tile, one_chunk)
    steps = [-(-size // chunk) for size, chunk in zip(DENSE.shape, chunks, strict=True)]
    assert len(read) <= np.prod(steps)  # no chunk is cut in two


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")  # by Zarr
def test_with_all_coordinates(tmp_path, zarr_format, consolidated):
    source = tmp_path / "dense.zarr"
    save(full(), source, zarr_format=zarr_format, consolidated=consolidated)
    cube = pack(source, tmp_path / "cube", timezone="America/Los_Angeles")
    same = crowd.write(tmp_path / "same", DENSE)
    assert cube.fingerprint == same.fingerprint
    assert cube.attributes["provenance"] == {
        "source": "dense",
        "store": "dense.zarr",
        "variable": "trace",
    }


def test_there_and_back(tmp_path):
    cube = crowd.write(tmp_path / "cube", DENSE)
    shown = xr.open_dataset(cube.uri, engine="clusterscale")
    again = pack(shown, tmp_path / "again", timezone="America/Los_Angeles")
    assert again.fingerprint == cube.fingerprint
    source = save(shown, tmp_path / "dense")
    stored = pack(source, tmp_path / "stored", timezone="America/Los_Angeles")
    assert stored.fingerprint == cube.fingerprint


def test_without_coordinates(tmp_path):
    for i, trace in enumerate((array(), array(epoch=np.arange(6)))):
        cube = pack(trace, tmp_path / f"cube-{i}")
        assert cube.user_ids().tolist() == list("012345678")
        assert cube.regions.names == ("0", "1", "2", "3")
        assert np.isnan([cube.regions.lat, cube.regions.lon]).all()
        assert cube.calendar.attributes() == {
            "start": 0,
            "step": 3600,
            "n_epochs": 6,
            "timezone": "UTC",
        }


def test_a_plain_zarr_group(tmp_path):
    """Not written by xarray; an unwritten chunk is unseen, and 0 is no missing value."""
    for zarr_format in (2, 3):
        uri = tmp_path / f"dense-{zarr_format}"
        group = zarr.create_group(uri, zarr_format=zarr_format)
        named = {"dimension_names": ["epoch", "user", "roi"]} if zarr_format == 3 else {}
        seen = group.create_array(
            "seen", shape=(6, 9, 4), chunks=(6, 2, 4), dtype="int16", fill_value=0, **named
        )
        if zarr_format == 2:
            seen.attrs["_ARRAY_DIMENSIONS"] = ["epoch", "user", "roi"]
        seen[:, :4] = 3 * DENSE.transpose(2, 0, 1)[:, :4]
        expected = DENSE.copy()
        expected[4:] = False
        cube = pack(uri, tmp_path / f"cube-{zarr_format}")
        np.testing.assert_array_equal(crowd.densify(cube.traces()), expected)


@pytest.mark.parametrize(
    ("epoch", "start", "step"),
    [
        (HOURS, 1_211_180_400, 3600),
        (HOURS[:1], 1_211_180_400, 3600),
        (np.arange(3) * np.timedelta64(15, "m") + HOURS[0], 1_211_180_400, 900),
        (np.array(["1969-12-31T23:59:58", "1969-12-31T23:59:59"], "datetime64[s]"), -2, 1),
    ],
)
def test_times(tmp_path, epoch, start, step):
    trace = array(np.ones((1, 1, len(epoch)), bool), epoch=epoch.astype("datetime64[ns]"))
    calendar = pack(trace, tmp_path / "cube").calendar
    assert (calendar.start, calendar.step, calendar.n_epochs) == (start, step, len(epoch))


def test_the_step_of_a_single_epoch_may_be_told(tmp_path):
    trace = array(np.ones((1, 1, 1), bool), epoch=HOURS[:1].astype("datetime64[ns]"))
    trace.attrs["epoch_seconds"] = 900
    assert pack(trace, tmp_path / "cube").calendar.step == 900


UNEVEN = "the coordinate epoch is not evenly spaced, or it does not increase"
COUNTS = "it must be booleans or counts, 0 = not observed"
ONE = "a dense cube has one variable with the dimensions user, roi and epoch, or one called trace"


def put(value, dtype=np.float64):
    values = DENSE.astype(dtype)
    values[8, 3, 5] = value
    return array(values)


def times(values):
    return array(epoch=np.array(values, "datetime64[ns]"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (put(np.nan), f"trace contains nan: {COUNTS}"),
        (put(np.inf), f"trace contains inf: {COUNTS}"),
        (put(-1.0), f"trace contains -1.0: {COUNTS}"),
        (put(0.5), f"trace contains 0.5: {COUNTS}"),
        (put(-1, np.int8), f"trace contains -1: {COUNTS}"),
        (array(DENSE.astype("U1")), "trace is <U1: it must be booleans or counts"),
        (array(DENSE.astype(complex)), "trace is complex128: it must be booleans or counts"),
        (
            array(DENSE.astype(np.int8)).assign_attrs(scale_factor=0.1),
            "trace is stored scaled: it must be booleans or counts",
        ),
        (
            array(dims=("user", "roi", "time")),
            f"{ONE} among several; this has trace ('user', 'roi', 'time')",
        ),
        (xr.Dataset(), f"{ONE} among several; this has no variable"),
        (
            xr.Dataset({"a": array(), "b": array()}),
            f"{ONE} among several; this has a ('user', 'roi', 'epoch'), b ('user', 'roi', 'epoch')",
        ),
        (array(user=["a"] * 9), "two entries of the coordinate user are the same"),
        (array(roi=[1, 2, 3, 1]), "two entries of the coordinate roi are the same"),
        (
            array(roi_lat=("roi", np.zeros(4))),
            "roi_lat and roi_lon go together: one of them is absent",
        ),
        (
            array(roi_lat=("user", np.zeros(9)), roi_lon=("roi", np.zeros(4))),
            "roi_lat must be one number per roi",
        ),
        (times([*HOURS[:5], HOURS[5] + np.timedelta64(1, "s")]), UNEVEN),
        (times(HOURS[::-1]), UNEVEN),
        (times([HOURS[0]] * 6), UNEVEN),
        (times([*HOURS[:5], "NaT"]), "the coordinate epoch contains an invalid time (NaT)"),
        (
            times(np.arange(6) * np.timedelta64(500, "ms") + HOURS[0]),
            "the coordinate epoch is not in whole seconds",
        ),
        (
            array(epoch=np.arange(6.0) / 2),
            "the coordinate epoch is float64, not datetime64",
        ),
    ],
)
def test_what_is_no_dense_cube(tmp_path, source, message):
    with pytest.raises(FormatError) as caught:
        pack(source, tmp_path / "cube")
    assert str(caught.value) == message
    assert list(tmp_path.iterdir()) == []


def test_trace_among_several(tmp_path):
    source = xr.Dataset({"other": array(~DENSE), "trace": array(), "weather": ("epoch", HOURS)})
    np.testing.assert_array_equal(crowd.densify(pack(source, tmp_path / "cube").traces()), DENSE)


def test_wrong_places(tmp_path):
    source = save(full(), tmp_path / "dense")
    with pytest.raises(InputError) as caught:
        pack(source, tmp_path / "x/../dense", force=True)
    assert str(caught.value).endswith("which is read: name another output")
    with pytest.raises(MissingError):
        pack(tmp_path / "none", tmp_path / "cube")
    with pytest.raises(InputError, match="timezone 'Mars' is not an IANA name"):
        pack(source, tmp_path / "cube", timezone="Mars")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FormatError, match="is not a readable Zarr group"):
        pack(tmp_path / "folder", tmp_path / "cube")
    pack(source, tmp_path / "cube")
    with pytest.raises(ExistsError):
        pack(source, tmp_path / "cube")
    assert pack(source, tmp_path / "cube", force=True).n_events == DENSE.sum()


def test_a_damaged_source_costs_nothing(tmp_path):
    source = save(full(), tmp_path / "dense", encoding={"trace": {"chunks": (3, 4, 6)}})
    old = pack(source, tmp_path / "cube")
    (tmp_path / "dense/trace/c/2/0/0").write_bytes(b"no chunk")
    with pytest.raises(DamagedError, match="trace cannot be read"):
        pack(source, tmp_path / "cube", force=True)
    assert old.traces().n_users == 9
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cube", "dense"]


@pytest.mark.dask
def test_dask_arrays_are_read_by_their_chunks(tmp_path):
    pytest.importorskip("dask")
    cube = pack(full().chunk(user=4, roi=1), tmp_path / "cube", timezone="America/Los_Angeles")
    np.testing.assert_array_equal(crowd.densify(cube.traces()), DENSE)


def test_the_verb(tmp_path):
    source = save(full(), tmp_path / "dense")
    arguments = ["pack", source, str(tmp_path / "cube"), "--timezone", "America/Los_Angeles"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "Mon 2008-05-19 00:00 to Mon 2008-05-19 06:00" in done.output
    assert isinstance(CliRunner().invoke(app, arguments).exception, ExistsError)
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0
