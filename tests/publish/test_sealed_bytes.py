"""Every bit of a release, of its description, and of its series is sealed."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
import zarr
from loops import for_each, mostly_slow
from oracles.publications import BUDGET, LAPLACE, plan, publish
from publish.test_run import FORMATS, HIDING, uri_of
from typer.testing import CliRunner

from clusterscale.cli import app
from clusterscale.errors import ClusterscaleError, DamagedError
from clusterscale.release import read_table
from clusterscale.storage.manifest import to_sealed

NOISY = {"name": "chain", "steps": [{**LAPLACE, "epsilon": 20.0}, HIDING]}


@pytest.fixture(scope="module")
def published(cube, tmp_path_factory):
    """Return the folder of a series with one noisy release, by format."""
    found = {}
    for form in FORMATS:
        folder = tmp_path_factory.mktemp(form)
        budget = BUDGET | {"epsilon": 20.0}
        publish(cube, plan(folder, mechanism=NOISY, format=form, budget=budget), folder / "run")
        found[form] = Path(uri_of(folder, form)).parent
    return found


def files_in(folder):
    """Return the files of a series, without the lease of the process that published."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in found if "lease" not in path.parts]


def is_noticed(uri):
    try:
        read_table(str(uri))
    except ClusterscaleError:
        return True
    return False


@mostly_slow("n", [10, 125])
@pytest.mark.parametrize("form", FORMATS)
def test_every_bit_that_flips_and_every_byte_that_is_added_is_noticed(form, n, published):
    """Anywhere in the series; and in the files that are handed out, without their series."""
    rng, folder = np.random.default_rng(n), published[form]
    uri, where = folder / f"places-0001{FORMATS[form]}", files_in(folder)
    assert not is_noticed(uri)
    for i in range(n):
        path = where[i % len(where)]
        before = path.read_bytes()
        at, bit = int(rng.integers(len(before))), 1 << int(rng.integers(8))
        path.write_bytes(
            before + bytes([int(rng.integers(256))])
            if i % 5 == 4
            else bytes([*before[:at], before[at] ^ bit, *before[at + 1 :]])
        )
        assert is_noticed(uri), (path.name, i, at, bit)
        path.write_bytes(before)
    assert not is_noticed(uri)


def scale(uri):
    """State in the metadata of one array that its values are thousands."""
    zarr.open_group(uri, use_consolidated=False)["counts"].attrs["scale_factor"] = 1000


def add_array(uri):
    zarr.open_group(uri, use_consolidated=False).create_array("other", data=np.arange(3))


def add_file(uri):
    (Path(uri) / "notes.partial").write_text("anything")


def add_column(uri):
    pd.read_csv(uri).assign(other=1).to_csv(uri, index=False)


def reorder(uri):
    pd.read_csv(uri)[::-1].to_csv(uri, index=False)


def scale_variable(uri):
    with xr.open_dataset(uri, decode_cf=False) as opened:
        release = opened.load()
    release.counts.attrs["valid_max"] = 1.0
    release.to_netcdf(uri, engine="h5netcdf")


def add_parquet_column(uri):
    table, about = pq.read_table(uri), pq.read_metadata(uri).metadata
    table = table.append_column("other", pa.array(np.arange(len(table))))
    pq.write_table(table.replace_schema_metadata({b"clusterscale": about[b"clusterscale"]}), uri)


CHANGES = {
    "zarr": (scale, add_array, add_file),
    "csv": (add_column, reorder),
    "netcdf": (scale_variable,),
    "parquet": (add_parquet_column,),
}


@for_each("form, change", [(form, one) for form, some in CHANGES.items() for one in some])
def test_what_only_other_readers_read_is_sealed_also_without_the_series(
    form, change, published, tmp_path
):
    home = tmp_path / f"{form}-{change.__name__}"
    shutil.copytree(published[form], home, ignore=shutil.ignore_patterns("series.json", "ledger"))
    uri = str(home / f"places-0001{FORMATS[form]}")
    read_table(uri)
    change(uri)
    with pytest.raises(DamagedError, match="is not what was published"):
        read_table(uri)


def test_a_release_may_be_renamed_and_its_page_left_out(published, tmp_path):
    for form, ending in FORMATS.items():
        old, new = published[form] / f"places-0001{ending}", tmp_path / f"mine{ending}"
        (shutil.copytree if old.is_dir() else shutil.copy)(old, new)
        if form == "csv":
            shutil.copy(f"{old}-metadata.json", f"{new}-metadata.json")
        assert read_table(str(new)).metadata.ledger.stored, form


def test_the_rules_of_a_series_are_sealed(published, tmp_path):
    """Also if they are written anew with a digest of their own."""
    home = shutil.copytree(published["csv"], tmp_path / "series")
    (home / "series.json").write_bytes(to_sealed({"series": "places", "budget": None}))
    found = CliRunner().invoke(app, ["check", str(home / "places-0001.csv")])
    assert "series.json is not what was written" in str(found.exception)


@pytest.mark.parametrize("form", FORMATS)
def test_an_entry_under_another_name_is_missing(form, published, tmp_path):
    """Also in the files that are handed out, without their series."""
    source = published[form] / f"places-0001{FORMATS[form]}"
    for path in files_in(published[form]):
        if path.is_relative_to(source) or path.name.startswith(source.name):
            own = tmp_path / path.relative_to(published[form])
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_bytes(path.read_bytes().replace(b"ledger", b"ledges"))
    with pytest.raises(ClusterscaleError):
        read_table(str(tmp_path / source.name))
