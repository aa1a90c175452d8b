"""The rows of a release do not depend on any record where a guarantee is stated."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from oracles.publications import plan, publish

from clusterscale.analyses.publish import PublishAnalysis
from clusterscale.analyses.publish.counting import Counted
from clusterscale.analyses.publish.plan import PublishPlan
from clusterscale.analyses.publish.release import (
    arrange,
    describe_entry,
    make_release,
    require_public,
)
from clusterscale.analyses.publish.series import Series
from clusterscale.cube import Calendar, Regions, TraceCube
from clusterscale.cube.dense import pack
from clusterscale.cube.writer import new_cube
from clusterscale.errors import ConfigError, InputError
from clusterscale.release import read_table

EVENT = {
    "mechanism": {"name": "laplace", "epsilon": 0.1, "unit": "event", "discrete": True},
    "budget": {"unit": "event", "epsilon": 1.0},
}
EXACT = {"mechanism": {"name": "exact"}, "budget": None}
PLACES = ("Bank", "King", "Water", "Zoo")


def write(uri, events, *, public=("calendar",), backwards=False, **provenance):
    """Write (user, place, hour) events as a cube whose places are those of the events."""
    names = tuple(sorted({place for _, place, _ in events}, reverse=backwards))
    calendar = Calendar.parse("2026-03-02T00:00", "1h", 24, "UTC")
    unknown = np.full(len(names), np.nan)
    regions = Regions(names, unknown, unknown)
    with new_cube(uri, regions, calendar, provenance=provenance, public=public) as writer:
        for user in sorted({user for user, _, _ in events}):
            cells = {names.index(place) * 24 + hour for who, place, hour in events if who == user}
            writer.append([user], np.array([len(cells)]), np.array(sorted(cells)))
    return TraceCube(uri)


EVENTS = [("u1", "Bank", 8), ("u1", "King", 9), ("u2", "King", 8), ("u2", "Water", 9)]


@pytest.fixture
def named(tmp_path):
    """A cube whose three places are those of its records."""
    return write(str(tmp_path / "named.zarr"), EVENTS)


@pytest.fixture
def places(tmp_path):
    """A public list: one place without a visit, and not all places of the cube."""
    path = tmp_path / "places.csv"
    path.write_text("name,lat,lon\nZoo,1,2\nKing,1,3\nBank,1,4\n")
    return str(path)


def day(folder, **fields):
    return plan(folder, period={"name": "day", "first": 0, "epochs": 24}, **fields)


def test_a_guarantee_needs_public_places(named, places, tmp_path):
    with pytest.raises(ConfigError, match=r"publish.places: missing; .* one event more can add"):
        publish(named, day(tmp_path, **EVENT), tmp_path / "run")
    release = publish(named, day(tmp_path, places=places, **EVENT), tmp_path / "listed")
    assert release.roi.values.tolist() == ["Bank", "King", "Zoo"]
    assert read_table(release.attrs["release"]).metadata.rows == "public"
    without = publish(named, day(tmp_path, series="exact", **EXACT), tmp_path / "exact")
    assert read_table(without.attrs["release"]).metadata.rows == "records"


@pytest.mark.parametrize(
    ("public", "provenance", "words"),
    [
        ((), {}, "publish.period: the epochs"),
        (("places", "calendar"), {"min_events": 3}, "--min-events 3, so one event"),
        (("places", "calendar"), {"top_users": 2}, "--top-users 2, so one event"),
        (("places", "calendar"), {"top_users": None, "min_events": 1}, None),
    ],
)
def test_a_guarantee_needs_a_public_calendar_and_all_users(public, provenance, words, tmp_path):
    cube = write(str(tmp_path / "cube.zarr"), EVENTS, public=public, **provenance)
    require_public(day(tmp_path, **EXACT), cube)
    if words is None:
        require_public(day(tmp_path, **EVENT), cube)
    else:
        with pytest.raises(ConfigError, match=words):
            require_public(day(tmp_path, **EVENT), cube)


def test_visits_to_other_places_are_dropped_or_put_together(named, places, tmp_path):
    dropped = publish(named, day(tmp_path, places=places, **EXACT), tmp_path / "dropped")
    assert dropped.counts.values[:, 8:10].tolist() == [[1, 0], [1, 1], [0, 0]]
    assert dropped.counts.sum() == 3
    assert dropped.attrs["elsewhere"] == 1
    together = {"places": places, "other_places": "one_row", "null_roi": True, "series": "together"}
    release = publish(named, day(tmp_path, **together, **EXACT), tmp_path / "together")
    assert release.roi.values.tolist() == ["Bank", "King", "Zoo", "other places", "null"]
    assert release.counts.values[:, 8:10].tolist() == [[1, 0], [1, 1], [0, 0], [0, 1], [0, 0]]


def test_the_number_of_people_is_published_only_if_it_is_stated(cube, tmp_path):
    made = publish(cube, plan(tmp_path, series="silent"), tmp_path / "silent")
    metadata = read_table(made.attrs["release"]).metadata
    assert (metadata.group_size, metadata.population) == (None, None)
    made = publish(cube, plan(tmp_path, group_size=64), tmp_path / "stated")
    assert read_table(made.attrs["release"]).metadata.group_size == 64
    with pytest.raises(ConfigError, match=r"publish\.group_size: 70 people, but 60 users"):
        publish(cube, plan(tmp_path, group_size=70), tmp_path / "wrong")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name\nKing\nKing\n", "lists 1 places twice"),
        ("name\nother places\nKing\n", "has a place named 'other places'"),
        ("name\nZoo\n", "names no place of the cube, such as 'Bank'"),
    ],
)
def test_lists_that_are_no_list_of_places_are_refused(text, words, named, tmp_path):
    (tmp_path / "places.csv").write_text(text)
    made = day(tmp_path, places=str(tmp_path / "places.csv"), **EVENT)
    with pytest.raises(ConfigError, match=words):
        publish(named, made, tmp_path / "run")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"other_places": "one_row"}, "other_places: is for a list of places"),
        ({"group_size": 30, "among": 20}, "among: 20 people, but group_size is 30"),
        (
            EXACT | {"mechanism": {"name": "coarsen_space", "factor": 2}, "places": "places.csv"},
            "places: coarsen_space merges places",
        ),
    ],
)
def test_settings_of_places_and_people_that_do_not_fit(fields, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        plan(tmp_path, **fields)


def test_a_plan_without_the_new_settings_has_its_former_digest(tmp_path):
    described = plan("folder").describe()
    assert not described.keys() & {"places", "other_places", "group_size"}
    assert PublishPlan.model_validate(described) == plan("folder")


def test_earlier_cubes_tell_by_their_provenance(tmp_path):
    def public(number, **provenance):
        cube = write(str(tmp_path / f"{number}.zarr"), EVENTS, **provenance)
        del cube.attributes["public"]
        return cube.public

    reader = {"name": "events"}
    assert public(0, preset="tfl", seed=0) == {"places", "calendar"}
    assert public(1, reader=reader, regions={"kind": "grid"}) == {"places", "calendar"}
    assert public(2, reader=reader, regions={"kind": "names", "n_names": 3}) == {"calendar"}
    assert public(3, source="dense") == set()


def test_a_dense_cube_is_public_only_if_that_is_stated(named, tmp_path):
    import xarray as xr

    dense = xr.DataArray(np.ones((2, 3, 4), bool), dims=("user", "roi", "epoch"), name="trace")
    assert pack(dense, tmp_path / "silent.zarr").public == set()
    stated = pack(dense, tmp_path / "stated.zarr", public=("places", "calendar"))
    assert stated.public == {"places", "calendar"}
    with pytest.raises(InputError, match="public: hours is neither places nor calendar"):
        pack(dense, tmp_path / "wrong.zarr", public=("hours",))


EVENT_LISTS = st.lists(
    st.tuples(
        st.sampled_from(("u1", "u2", "u3", "u4")), st.sampled_from(PLACES), st.integers(0, 23)
    ),
    min_size=3,
    max_size=8,
    unique=True,
)


def release_without_noise(made, cube):
    """Return all that is published but noise, and what follows from noise or chance."""
    n_cells = cube.n_rois, 24
    counts, _ = arrange(made, cube, Counted(np.zeros(n_cells, np.int32), None, None, cube.n_users))
    entry = describe_entry(made, cube, Series(made, "UTC"), run="run")
    release = make_release(made, cube, counts, counts.counts.astype(float), entry, "a.zarr")
    return release.rois, release.epochs.tolist(), release.values.shape, release.metadata


@given(
    events=EVENT_LISTS,
    removed=st.data(),
    whole_user=st.booleans(),
    fields=st.fixed_dictionaries(
        {
            "other_places": st.sampled_from(("drop", "one_row")),
            "group_size": st.sampled_from((None, 4)),
        }
    ),
)
def test_neighbouring_cubes_have_the_same_rows_and_metadata(
    events, removed, whole_user, fields, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("pair")
    places = folder / "places.csv"
    places.write_text("name\n" + "\n".join((*PLACES, "Clinic")))
    gone = removed.draw(st.sampled_from(events))
    left = [one for one in events if (one[0] != gone[0] if whole_user else one != gone)]
    if not left:
        return
    made = day(folder, places=str(places), **fields, **EVENT)
    pair = [write(str(folder / f"{i}.zarr"), some) for i, some in enumerate((events, left))]
    first, second = (release_without_noise(made, cube) for cube in pair)
    assert first == second


@pytest.mark.parametrize("form", ["csv", "parquet", "zarr"])
@pytest.mark.parametrize("null_roi", [True, False])
def test_places_of_a_cube_may_be_in_any_order(form, null_roi, tmp_path):
    cube = write(str(tmp_path / "cube.zarr"), EVENTS, public=("calendar", "places"), backwards=True)
    settings = plan(
        tmp_path, **EXACT, format=form, null_roi=null_roi,
        period={"name": "day", "first": 0, "epochs": 24},
    )  # fmt: skip
    release = publish(cube, settings, tmp_path / "run")
    shown = {
        (place, hour): release.counts.sel(roi=place).values[hour]
        for place in cube.regions.names
        for hour in (8, 9)
    }
    counted = {(place, hour): 0 for place in cube.regions.names for hour in (8, 9)}
    for _, place, hour in EVENTS:
        counted[place, hour] += 1
    assert shown == counted


@pytest.mark.parametrize("form", ["csv", "parquet", "netcdf", "zarr"])
def test_times_that_a_table_cannot_have_are_refused_before_anybody_is_counted(
    form, dense, tmp_path
):
    """A dense cube without epochs is packed as if it began in 1970."""
    packed = tmp_path / "dense.zarr"
    xr.Dataset({"trace": (("user", "roi", "epoch"), dense)}).to_zarr(packed, consolidated=False)
    cube = pack(str(packed), str(tmp_path / "cube.zarr"), public=("places", "calendar"))
    made = plan(tmp_path, format=form)
    if form in ("netcdf", "zarr"):
        release = publish(cube, made, tmp_path / "run")
        assert str(release.epoch.values[0])[:4] == "1970"
        return
    with pytest.raises(ConfigError, match=f"{form}: the period begins on 1970-01-01.*1980 to 2100"):
        PublishAnalysis(made).check(cube, 1 << 40)
    with pytest.raises(ConfigError, match="1980 to 2100"):
        publish(cube, made, tmp_path / "run")
    assert not list((tmp_path / "run").rglob("counts*"))
