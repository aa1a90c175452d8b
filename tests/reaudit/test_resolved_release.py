"""What a catalogue, a store and a cube say is brought together, and what does not fit is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles.releases import FORMS, dataset, describe, write

from clusterscale.analyses.audit import AuditTemplate
from clusterscale.cube import Calendar, Grid, TraceCube, new_cube
from clusterscale.errors import ConfigError
from clusterscale.mechanisms import create
from clusterscale.reading.places import match_codes
from clusterscale.reauditing import ReleaseEntry, ReleaseMetadata
from clusterscale.reauditing.population import write_without_people
from clusterscale.reauditing.resolved_release import ResolvedRelease, resolve_release
from clusterscale.release import TABLE_FORMATS, PublishedTotals, RawRelease, read_table

N_ROIS, N_EPOCHS = 4, 48
LAPLACE = {"name": "laplace", "epsilon": 1.0}
SAID = {"group_size": 5, "mechanism": LAPLACE, "first": 0}
VALUES = np.arange(12.0).reshape(4, 3)


@pytest.fixture(scope="module")
def paris(tmp_path_factory):
    """A cube whose clocks are two hours ahead of UTC."""
    uri = str(tmp_path_factory.mktemp("paris") / "cube.zarr")
    calendar = Calendar.parse("2024-07-01T00:00", "1h", N_EPOCHS, "Europe/Paris")
    regions = Grid.parse(f"50,0,51,1/1x{N_ROIS}").regions
    with new_cube(uri, regions, calendar, provenance={"source": "test"}) as writer:
        writer.append(["a", "b"], np.array([1, 2]), np.array([0, 3, 70]))
    return TraceCube(uri)


def written(values=VALUES, rois=None, epochs=None, totals=None, **described):
    return RawRelease(
        np.asarray(values, np.float64),
        rois,
        epochs,
        totals or PublishedTotals(),
        ReleaseMetadata(**described),
    )


def resolved(cube, release=None, members=b"", **said):
    entry = ReleaseEntry(counts="week-1.zarr", **said)
    return resolve_release(entry, release or written(), cube, members)


def refused(cube, release, **said):
    with pytest.raises(ConfigError) as caught:
        resolved(cube, release, **said)
    assert str(caught.value).startswith("week-1 (week-1.zarr): ")
    return str(caught.value)


def test_all_that_is_said(paris):
    listed, content = resolved(paris, **SAID, series="daily", name="monday", observed=(1, 9))
    assert listed.name == "monday"
    assert (listed.first, listed.epochs, listed.span, listed.null_roi) == (0, 3, (0, 3), False)
    assert (listed.group_size, listed.mechanism) == (5, create(**LAPLACE))
    assert (listed.series, listed.observed) == ("daily", (1, 9))
    np.testing.assert_array_equal(content.values, VALUES)
    again = ResolvedRelease.model_validate(listed.model_dump(mode="json"), strict=False)
    assert again == listed


@given(st.permutations(range(N_ROIS + 1)), st.booleans())
def test_rows_go_where_the_cube_has_them(paris, order, null):
    names = np.array([*paris.regions.names, "null"])
    order = np.array(order) if null else np.array([i for i in order if i < N_ROIS])
    values = np.arange(3.0 * len(names)).reshape(-1, 3)
    totals = PublishedTotals(values.sum(axis=1)[order], values[order].sum(axis=0))
    release = written(values[order], tuple(names[order]), totals=totals)
    listed, content = resolved(paris, release, **SAID)
    expected = values if null else values[:N_ROIS]
    np.testing.assert_array_equal(content.values, expected)
    np.testing.assert_array_equal(content.totals.roi, expected.sum(axis=1))
    np.testing.assert_array_equal(content.totals.epoch, expected.sum(axis=0))
    assert listed.null_roi is null


def test_local_days_are_the_epochs_of_a_cube_of_days(tmp_path):
    calendar = Calendar.parse("2026-03-20T00:00", "1d", 14, "Europe/Paris")
    uri = str(tmp_path / "cube.zarr")
    regions = Grid.parse(f"50,0,51,1/1x{N_ROIS}").regions
    with new_cube(uri, regions, calendar, provenance={"source": "test"}) as writer:
        writer.append(["a"], np.array([1]), np.array([0]))
    cube = TraceCube(uri)
    days = calendar.begins(8, 3).astype("datetime64[s]")  # clocks change on the second
    listed, _ = resolved(cube, written(epochs=days), group_size=5, mechanism=LAPLACE)
    assert listed.span == (8, 11)
    wrong = written(epochs=days[0] + 86400 * np.arange(3))
    told = refused(cube, wrong, group_size=5, mechanism=LAPLACE)
    assert told.endswith("its epochs are not 1 day apart, as the cube's")


def test_only_rows_without_names_or_with_their_own_numbers_go_by_position(paris):
    for rois in (None, ("0", "1", "2", "3")):
        _, content = resolved(paris, written(rois=rois), **SAID)
        np.testing.assert_array_equal(content.values, VALUES)
    for rois in (("w", "x", "y", "z"), ("43", "812", "9", "10"), ("1", "0", "2", "3")):
        told = refused(paris, written(rois=rois), **SAID)
        assert f"{min(rois)}, " in told
        assert f"the cube, which has {min(paris.regions.names)}" in told
        assert "only rows without names go by their position" in told


def test_bands_of_another_threshold_are_told(paris):
    said = {**SAID, "mechanism": {"name": "threshold", "k": 10, "shown": "hidden"}}
    listed, _ = resolved(paris, replace(written(), bands=((None, 10),)), **said)
    assert listed.changes == ()
    (told,) = resolved(paris, replace(written(), bands=((None, 5),)), **said)[0].changes
    assert told.startswith("values are shown as below 5, and threshold(k=10")
    assert told.endswith("hides 0 to 9")


@pytest.mark.parametrize("zone", [None, "Europe/Madrid"])
def test_local_days_in_utc_are_read_without_a_cube_if_their_zone_is_set(zone, tmp_path):
    """Over a change of clocks; the oracle of the local midnights is pandas."""
    days = pd.date_range("2026-03-26", periods=7, tz="Europe/Madrid").tz_convert("UTC")
    lines = ["place,time,count", *(f"{name},{day.isoformat()},7" for name in "ab" for day in days)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    form = {"name": "long"} | ({"timezone": zone} if zone else {})
    release = read_table(str(tmp_path / "t.csv"), TABLE_FORMATS.create(**form))
    said = {key: each for key, each in SAID.items() if key != "first"}
    cube = TraceCube(write_without_people(str(tmp_path), release, ReleaseMetadata(**said)))
    if zone is None:
        told = refused(cube, release, **said)
        assert told.endswith("if they are local days, set `timezone` of the format")
        return
    listed, _ = resolved(cube, release, **said)
    assert (listed.first, listed.epochs) == (0, 7)
    assert str(cube.calendar.length) == "1 day"


@pytest.mark.parametrize("times", [[3, 2, 1], [1, 1, 2]])
def test_times_that_do_not_increase_are_refused_without_a_cube_too(times, tmp_path):
    epochs = np.array(times).astype("datetime64[h]").astype("datetime64[s]")
    stated = ReleaseMetadata(**SAID)
    release = written(rois=("w", "x", "y", "z"), epochs=epochs)
    cube = TraceCube(write_without_people(str(tmp_path), release, stated))
    said = {key: each for key, each in SAID.items() if key != "first"}
    assert "its epochs are not 3600 s apart" in refused(cube, release, **said)


@pytest.mark.parametrize(
    ("absent", "value"), [("zero", 0.0), ("hidden", np.nan), ("not_covered", np.nan)]
)
def test_places_that_a_table_leaves_out_are_as_declared(paris, absent, value):
    *most, last = paris.regions.names
    totals = PublishedTotals(VALUES[:-1].sum(axis=1))
    release = written(VALUES[:-1], tuple(most), totals=totals)
    told = refused(paris, release, **SAID)
    assert f"no row, such as {last}" in told
    assert "set `absent_places` of the release to zero, hidden or not_covered" in told
    listed, content = resolved(paris, release, **SAID, absent_places=absent)
    audited = ("values that are not covered are audited as hidden",)
    assert listed.changes == audited * (absent == "not_covered")
    np.testing.assert_array_equal(content.values, [*VALUES[:-1], [value] * 3])
    np.testing.assert_array_equal(content.totals.roi, [*VALUES[:-1].sum(axis=1), 3 * value])
    told = refused(paris, written(VALUES, (*most, "elsewhere")), **SAID, absent_places=absent)
    assert "elsewhere is not named in the cube" in told


KNOWN = ("00043", "00812", "A → 01", "8928308280fffff", "7")
OTHERS = ("43.0", "0812", "A → 1", "617700169958293503", "7")


@given(st.permutations(range(5)), st.lists(st.booleans(), min_size=5, max_size=5))
def test_another_form_of_a_code_is_read_as_the_known_one(order, as_known):
    names = [KNOWN[i] if as_known[i] else OTHERS[i] for i in order]
    found, note = match_codes(names, KNOWN)
    assert found == tuple(KNOWN[i] for i in order)
    changed = sorted(name for name in names if name not in KNOWN)
    assert bool(note) == bool(changed)
    assert note.startswith(f"places {', '.join(changed[:3])}" if changed else "")


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (("43", "043"), ("00043", "1")),  # two names of one code
        (("43", "00043"), ("00043", "1")),  # both are places of their own
        (("43",), ("00043", "0043")),  # one name of two codes
        (("43",), ("430", "4.3", "43.00", "x43")),
        (("1e5", "NA", ""), ("100000", "0", "00")),
        (("617700169958293503",), ("8928308280ffff",)),
    ],
)
def test_codes_that_are_not_certainly_the_same_stay(names, known):
    assert match_codes(names, known) == (names, "")


def test_a_table_with_other_forms_of_codes_is_audited_and_that_is_said(paris):
    places = tuple(f"00{name}" for name in paris.regions.names)
    listed, content = resolved(paris, written(rois=places[::-1]), **SAID)
    assert content.rois == paris.regions.names
    np.testing.assert_array_equal(content.values, VALUES[::-1])
    (note,) = listed.notes
    assert note.startswith(f"places {min(places)}, ")
    assert listed.changes == ()


def test_some_names_that_the_cube_does_not_know(paris):
    *most, _ = paris.regions.names
    told = refused(paris, written(rois=(*most, "elsewhere")), **SAID)
    assert "elsewhere" in told
    told = refused(paris, written(np.zeros((5, 3)), rois=(*paris.regions.names, "nul")), **SAID)
    assert "nul" in told


def test_a_row_that_is_there_twice(paris):
    names = paris.regions.names
    told = refused(paris, written(np.zeros((5, 3)), rois=(*names, names[0])), **SAID)
    assert told.endswith("a ROI is listed twice")


def test_rows_too_many_or_too_few(paris):
    for n_rows in (2, 3, 6):
        told = refused(paris, written(np.zeros((n_rows, 3))), **SAID)
        assert f"{n_rows} ROIs, but the cube has 4" in told
        listed, _ = resolved(paris, written(np.zeros((n_rows, 3))), **SAID, null_roi=False)
        assert listed.null_roi is False  # the mechanism merges some


def test_epochs_by_number(paris):
    said = {key: each for key, each in SAID.items() if key != "first"}
    for kind in (np.int64, np.uint8, np.int16):
        listed, _ = resolved(paris, written(epochs=np.arange(7, 10, dtype=kind)), **said)
        assert listed.span == (7, 10)
    for wrong in ([7, 9, 10], [9, 8, 7], [-1, 0, 1], [7, 7, 8]):
        told = refused(paris, written(epochs=np.array(wrong)), **said)
        assert told.endswith("its epochs are not consecutive numbers")


def times(start, n=3, hours=1.0):
    return np.datetime64(start, "ns") + np.arange(n) * np.timedelta64(int(hours * 3600), "s")


def test_epochs_by_time_are_in_utc(paris):
    said = {key: each for key, each in SAID.items() if key != "first"}
    for start, first in (("2024-06-30T22:00", 0), ("2024-07-01T00:00", 2)):
        for unit in ("ns", "us", "s"):
            release = written(epochs=times(start).astype(f"datetime64[{unit}]"))
            assert resolved(paris, release, **said)[0].first == first
    for start in ("2024-06-30T21:00", "2024-07-01T00:30", "2024-07-02T22:00"):
        told = refused(paris, written(epochs=times(start)), **said)
        assert told.endswith("no epoch of the cube begins at its start")
    for hours in (0.5, 2, -1):
        told = refused(paris, written(epochs=times("2024-07-01", hours=hours)), **said)
        assert told.endswith("its epochs are not 3600 s apart, as the cube's")


def test_a_start_is_in_the_zone_of_the_cube(paris):
    said = {key: each for key, each in SAID.items() if key != "first"}
    for start, first in (
        ("2024-07-01", 0),
        ("2024-07-01T02:00", 2),
        ("2024-07-01T02:00+02:00", 2),
        ("2024-07-01T02:00Z", 4),
    ):
        assert resolved(paris, start=start, **said)[0].first == first
        assert resolved(paris, written(start=start), **said)[0].first == first
    for start, word in (("monday", "'monday' is not an ISO date"), ("2024-08-01", "no epoch")):
        assert word in refused(paris, written(), start=start, **said)


def test_what_reading_changed_is_kept_and_is_no_part_of_the_identity(paris):
    added = replace(written(), changes=("2 rows were added to others of one place and time",))
    listed, _ = resolved(paris, added, **SAID)
    plain, _ = resolved(paris, **SAID)
    assert listed.changes == added.changes
    assert listed.identity() == plain.identity()
    assert ResolvedRelease.model_validate(listed.model_dump(mode="json")) == listed


def test_what_is_said_first_wins(paris):
    """The catalogue, then attributes, then the coordinate of the epochs."""
    epochs, said = np.arange(7, 10), {"group_size": 5, "mechanism": create(**LAPLACE)}
    release = written(epochs=epochs, first=3, series="a", **said)
    assert resolved(paris, release)[0].first == 3
    listed, _ = resolved(paris, release, start="2024-07-01T05:00", series="b", group_size=6)
    assert (listed.first, listed.series, listed.group_size) == (5, "b", 6)
    assert listed.sizes == {"the catalogue": 6, "the release": 5}
    listed, _ = resolved(paris, written(start="2024-07-01T05:00", **said), first=1)
    assert listed.first == 1
    assert resolved(paris, written(epochs=epochs, **said))[0].first == 7


def test_what_is_not_said(paris):
    for key in ("group_size", "mechanism"):
        said = {name: each for name, each in SAID.items() if name != key}
        assert f"{key} is missing; set it in the catalogue" in refused(paris, written(), **said)
        assert f"{key} is missing" in refused(paris, written(), **said, **{key: None})
    said = {name: each for name, each in SAID.items() if name != "first"}
    assert "its epochs are not known" in refused(paris, written(), **said)
    assert "its epochs are not known" in refused(paris, written(epochs=np.ones(3)), **said)


def test_both_beginnings():
    with pytest.raises(ValueError, match="give first or start, not both"):
        ReleaseEntry(counts="week.zarr", first=1, start="2024-07-01")


def test_what_cannot_be_a_release(paris):
    said = {name: each for name, each in SAID.items() if name != "first"}
    nothing = written(np.zeros((4, 0)), epochs=np.zeros(0, "datetime64[s]"))
    assert refused(paris, nothing, **said).endswith("shape (4, 0) has no ROIs or no epochs")
    assert "no ROIs" in refused(paris, written(np.zeros((0, 3))), **SAID)
    with pytest.raises(ConfigError, match=r"\.name: "):
        resolve_release(ReleaseEntry(counts=f"{'x' * 250}.zarr", **SAID), written(), paris, b"")


@given(
    arrays(np.float64, (3, 4), elements=st.sampled_from([0.0, -0.0, 1.0, 2.5, np.nan, 1e9])),
    st.data(),
)
def test_the_hash_is_that_of_the_values(paris, values, data):
    values = np.vstack([values, values[:1]])
    hashed = resolved(paris, written(values), **SAID)[0].content
    assert resolved(paris, written(values + 0.0, group_size=7), **SAID)[0].content == hashed
    place = data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    other = values.copy()
    other[place] = -3.0
    assert resolved(paris, written(other), **SAID)[0].content != hashed
    assert resolved(paris, written(values), b"user,inside", **SAID)[0].content != hashed
    totals = PublishedTotals(roi=np.zeros(4))
    assert resolved(paris, written(values, totals=totals), **SAID)[0].content != hashed
    turned = written(values.T.copy())  # the same bytes in another shape are other values
    if values.shape[0] == paris.n_rois and not np.array_equal(values, values.T, equal_nan=True):
        assert resolved(paris, turned, **SAID)[0].content != hashed


def test_the_hash_is_the_same_in_any_form(paris, tmp_path):
    values = np.array([[0.0, 1, np.nan], [2, 3, 0], [4, -5, 6], [7, 8, 9]])
    plain = dataset(values, list(paris.regions.names), [0, 1, 2])
    turned = plain.isel(roi=[2, 0, 3, 1]).transpose("epoch", "roi")
    found = set()
    for form in FORMS:
        for i, told in enumerate((plain, turned)):
            told.attrs = describe(form, group_size=5, mechanism=LAPLACE)
            for packed in ({}, {"counts": {"dtype": "int16", "_FillValue": -999}}):
                uri = write(told, tmp_path, form, name=f"{form}-{i}-{len(packed)}", encoding=packed)
                listed, _ = resolve_release(ReleaseEntry(counts=uri), read_table(uri), paris, b"")
                found.add((listed.content, str(sorted(listed.identity().items()))))
    assert len(found) == 1


def test_a_release_in_any_format_of_tables_is_the_same(paris, tmp_path):
    """Zones in another order, times in UTC; hidden cells are empty, and there are totals."""
    values = np.array([[0.0, 1, np.nan], [2, 3, 0], [4, -5, 6.5], [7, 8, 9]])
    names = tuple(sorted(paris.regions.names))
    times = np.datetime64("2024-06-30T22:00:00", "s") + 3600 * np.arange(1, 4)
    metadata = ReleaseMetadata(group_size=5, mechanism=LAPLACE)
    totals = PublishedTotals(np.arange(4.0), np.array([1, np.nan, 3]))
    release = RawRelease(values, names, times, totals, metadata)
    formats = {
        "a.zarr": None,
        "a.nc": None,
        "a.csv": {"name": "long", "total": "Total", "place": "zone"},
        "a.parquet": {"name": "long", "total": "Total"},
        "wide.csv": {"name": "wide", "total": "Total"},
    }
    found = set()
    for name, form in formats.items():
        entry = ReleaseEntry(counts=f"{tmp_path}/{name}", format=form)
        entry.table_format.write(entry.counts, release)
        listed, _ = resolve_release(entry, read_table(entry.counts, entry.table_format), paris, b"")
        assert listed.first == 1
        found.add((listed.content, str(sorted(listed.identity().items()))))
    assert len(found) == 1


def test_what_is_audited_has_no_name(paris):
    one, _ = resolved(paris, **SAID)
    other = one.model_copy(update={"name": "x", "series": "y", "counts": "z", "members": "m"})
    assert one.identity() == other.identity()
    for changed in ({"group_size": 6}, {"first": 1}, {"content": "0"}, {"null_roi": True}):
        assert one.model_copy(update=changed).identity() != one.identity()


TEMPLATE = AuditTemplate(
    targets={"random": 4},
    priors=[{"name": "known_subset", "alpha": 0.5}],
    attacks=[{"name": "logistic"}],
)


@pytest.mark.parametrize(("mechanism", "n"), [(LAPLACE, 2), ({"name": "exact"}, 1)])
def test_the_plan_of_a_release(paris, mechanism, n):
    listed, _ = resolved(paris, **SAID | {"mechanism": mechanism, "first": 2})
    plan = listed.plan(TEMPLATE)
    assert plan.group_sizes == (5,)
    assert len(plan.mechanisms) == n
    assert plan.mechanisms[0] == create("exact")
    assert plan.mechanisms[-1] == listed.mechanism
    (period,) = plan.periods
    assert (period.first, period.epochs) == (2, 3)
