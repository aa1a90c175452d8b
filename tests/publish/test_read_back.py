"""What a published file says of itself is read back, and a change of any of it is noticed."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xarray as xr
import zarr
from conftest import write_cube
from oracles.publications import BUDGET, LAPLACE, plan, publish
from publish.test_run import FORMATS, HIDING, uri_of
from scipy.stats import binom

from clusterscale.errors import DamagedError
from clusterscale.release import read_table
from clusterscale.release.explanation import explain_columns, explain_release
from clusterscale.release.metadata import Accuracy

STEPS = [{**LAPLACE, "epsilon": 20.0}, HIDING, {"name": "expand", "factor": 2.5}]
NOISY = {"name": "chain", "steps": STEPS}
PEOPLE = {"group_size": 60, "among": 120}


@pytest.fixture(scope="module")
def empty_cube(tmp_path_factory):
    """A cube of two users with one visit each, in the first of 16 places."""
    dense = np.zeros((2, 16, 48), bool)
    dense[:, 0, 0] = True
    return write_cube(str(tmp_path_factory.mktemp("empty") / "cube.zarr"), dense)


@pytest.fixture(scope="module")
def published(cube, tmp_path_factory):
    """Return, by format, the release that was made and the address where it was published."""
    from clusterscale.analyses.publish import release

    found = {}
    with pytest.MonkeyPatch.context() as patch:
        original = release.make_release
        patch.setattr(
            release, "make_release", lambda *given: made.append(original(*given)) or made[-1]
        )
        for form in FORMATS:
            folder, made = tmp_path_factory.mktemp(form), []
            budget = BUDGET | {"epsilon": 20.0}
            settings = plan(folder, mechanism=NOISY, format=form, budget=budget, **PEOPLE)
            publish(cube, settings, folder / "run")
            found[form] = made[0], uri_of(folder, form)
    return found


@pytest.mark.parametrize("form", FORMATS)
def test_all_that_is_written_is_read_back_without_a_setting(form, published, cube):
    made, uri = published[form]
    read = read_table(uri)
    about, entry = read.metadata, made.metadata.ledger
    entry = entry.model_copy(update={"stored": about.ledger.stored}).sealed()
    assert about == made.metadata.model_copy(update={"ledger": entry})
    assert (about.group_size, about.population, about.time_zone) == (
        60,
        120,
        cube.calendar.timezone,
    )
    assert about.mechanism.steps[-1].factor == 2.5
    assert about.accuracy.is_uncertain(read.values).any()
    np.testing.assert_array_equal(read.values, made.values)
    np.testing.assert_array_equal(read.epochs, made.epochs)
    assert read.flags_fit
    assert (read.rois, read.timezone, read.not_covered) == (made.rois, made.timezone, None)
    name, made = uri.rpartition("/")[2], replace(made, centres=None)
    assert explain_release(name, read) == explain_release(name, made)
    assert read.texts  # in Parquet, only the list of centres
    if form in ("csv", "parquet"):
        table = pd.read_csv(uri) if form == "csv" else pd.read_parquet(uri)
        table = table.groupby("place").first()
        at = table.lat.to_numpy(), table.lon.to_numpy()
    else:
        opened = xr.open_dataset(uri) if form == "netcdf" else xr.open_zarr(uri)
        with opened as table:
            assert table.lat.attrs["units"] == "degrees_north"
            at = table.counts.lat.values, table.counts.lon.values
    np.testing.assert_array_equal(at, (cube.regions.lat, cube.regions.lon))


def change_text(uri, form):
    """Change a description of a column, or of a variable."""
    if form == "csv":
        path = Path(f"{uri}-metadata.json")
        about = json.loads(path.read_text())
        about["tableSchema"]["columns"][2]["dc:description"] += "; nobody can be recognised"
        path.write_text(json.dumps(about))
    else:
        path = Path(uri) / "zarr.json"
        path.write_text(path.read_text().replace("stated as 60", "stated as 6,000"))


def change_centre(uri, form):
    """Move a place."""
    if form == "csv":
        lines = Path(uri).read_text().splitlines(keepends=True)
        Path(uri).write_text("".join([lines[0], lines[1].replace("50.5", "50.6"), *lines[2:]]))
    else:
        zarr.open_group(uri)["lat"][0] = 50.6


def change_page(uri, form):
    """Change the page beside the file."""
    path = Path(f"{uri}-README.md")
    path.write_text(path.read_text().replace("stated as 60", "stated as 6,000"))


def change_flags(uri, form):
    """State of all values that they are certain."""
    if form == "csv":
        Path(uri).write_text(Path(uri).read_text().replace(",u,", ",,"))
    elif form == "parquet":
        table = pq.read_table(uri)
        flag = table.schema.get_field_index("flag")
        table = table.set_column(flag, "flag", [[""] * len(table)])
        about = {b"clusterscale": pq.read_metadata(uri).metadata[b"clusterscale"]}
        pq.write_table(table.replace_schema_metadata(about), uri)
    else:
        zarr.open_group(uri)["flag"][:] = 0


CHANGES = {
    "texts": (change_text, ("csv", "zarr")),
    "centres": (change_centre, ("csv", "zarr")),
    "page": (change_page, ("csv", "parquet", "netcdf")),
    "flags": (change_flags, ("csv", "parquet", "zarr")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_what_explains_a_release_is_noticed(name, published, tmp_path):
    change, forms = CHANGES[name]
    for form in forms:
        folder = Path(published[form][1]).parent
        uri = f"{shutil.copytree(folder, tmp_path / form)}/places-0001{FORMATS[form]}"
        read_table(uri)
        change(uri, form)
        with pytest.raises(DamagedError, match="texts that explain"):
            read_table(uri)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_release_of_one_epoch_is_read_without_its_length(form, cube, tmp_path):
    steps = [{"name": "coarsen_time", "factor": 48}, HIDING]
    mechanism = {"name": "chain", "steps": steps}
    settings = plan(tmp_path, mechanism=mechanism, budget=None, format=form, null_roi=True)
    release = publish(cube, settings, tmp_path / "run")
    assert read_table(uri_of(tmp_path, form)).values.shape == release.counts.shape == (9, 1)


@pytest.mark.parametrize("positions", [True, False])
def test_centres_are_those_of_the_public_list(positions, cube, tmp_path):
    listed = pd.DataFrame({"name": [*cube.regions.names, "nobody came"]})
    if positions:
        listed = listed.assign(lat=np.arange(9) - 4.0, lon=7.5)
    listed.to_csv(tmp_path / "places.csv", index=False)
    settings = plan(
        tmp_path, mechanism=LAPLACE, format="csv", places=str(tmp_path / "places.csv"), **PEOPLE
    )
    publish(cube, settings, tmp_path / "run")
    table = pd.read_csv(uri_of(tmp_path, "csv"))
    assert ("lat" in table) == positions
    if positions:
        assert (
            table.groupby("place").lat.first().tolist() == listed.sort_values("name").lat.tolist()
        )


@pytest.mark.parametrize("form", FORMATS)
def test_values_far_below_zero_are_not_above_their_margin_either(form, empty_cube, tmp_path):
    """Where nobody was, as many values have no flag as the page says, with an error rate of 1e-4.

    That is half of what is farther from 0 than the margin.
    """
    noise = {"name": "laplace", "epsilon": 0.5, "unit": "event", "discrete": True}
    made = plan(tmp_path, mechanism=noise, budget={"unit": "event", "epsilon": 1.0}, format=form)
    publish(empty_cube, made, tmp_path / "run")
    read = read_table(uri_of(tmp_path, form))
    accuracy = read.metadata.accuracy
    assert (read.values < -accuracy.margin).any()
    if form in ("csv", "parquet"):
        table = (pd.read_csv if form == "csv" else pd.read_parquet)(uri_of(tmp_path, form))
        flags, values = (table.flag == "u").to_numpy(), table["count"].to_numpy()
    else:
        open_it = xr.open_zarr if form == "zarr" else xr.open_dataset
        with open_it(uri_of(tmp_path, form)) as table:
            flags, values = table.flag.values.ravel() == 1, table.counts.values.ravel()
    assert (flags == (values <= accuracy.margin)).all()
    chance = (1 - accuracy.share) / 2
    low, high = binom.interval(1 - 1e-4, values.size, chance)  # but one cell, with two people
    assert low <= (~flags).sum() <= high
    said = f"by chance in about {100 * chance:.2g} of 100 cells"
    assert said in explain_columns(read)["flag"]


def test_flags_of_earlier_releases_are_read_as_they_were():
    earlier = Accuracy(noise=2.0, margin=5.0, share=0.95)
    values = np.array([-6.0, -5.0, 5.0, 6.0, np.nan])
    assert earlier.is_uncertain(values).tolist() == [False, True, True, False, False]
    later = earlier.model_copy(update={"one_sided": True})
    assert later.is_uncertain(values).tolist() == [True, True, True, False, False]
    assert "one_sided" not in earlier.canonical, "their digest is the same"
