"""Synthetic cubes: the papers' statistics, determinism, independence of blocks and sizes."""

import tracemalloc

import numpy as np
import pytest
from loops import for_each
from oracles.crowd import Crowd, dense
from scipy.spatial import Delaunay

from clusterscale.analyses import recovery
from clusterscale.cube.synthetic import PRESETS, presets, synthesise
from clusterscale.cube.synthetic.commuters import Commuters
from clusterscale.cube.transforms import with_null_roi
from clusterscale.errors import ExistsError, InputError, UnknownNameError

USERS = {"tfl": 2_000, "sfc": 534, "cdr": 4_000, "milan": 4_840}


@pytest.fixture(scope="module")
def cubes(tmp_path_factory):
    root = tmp_path_factory.mktemp("synthetic")
    return {name: synthesise(name, str(root / name), users=n) for name, n in USERS.items()}


def assert_like(values, mean, sd, what):
    assert values.mean() == pytest.approx(mean, rel=0.05), f"mean of {what}"
    assert values.std() == pytest.approx(sd, rel=0.20), f"standard deviation of {what}"


STATISTICS = {  # mean and standard deviation over users, without the null ROI, in the papers
    ("tfl", "events"): (171.0, 26.0),  # PETS17 §4.1; NDSS18 §V-A with the null ROI: 728 ± 16
    ("tfl", "unique_rois"): (19.0, 9.0),  # 20 ± 9 with the null ROI
    ("tfl", "active_epochs"): (115.0, 21.0),
    ("sfc", "events"): (3770.0, 1193.0),  # public traces; PETS17, NDSS18 round or differ by 3 %
    ("sfc", "unique_rois"): (78.1, 6.2),
    ("sfc", "active_epochs"): (340.7, 94.1),
    ("cdr", "events"): (130.0, 125.0),  # inferred from POPETS24 §5.1, §6.1
    ("milan", "events"): (6.3, 10.0),
}


@pytest.mark.slow
@for_each(("name", "what"), list(STATISTICS))
def test_preset_has_its_own_statistics(cubes, name, what):
    values = getattr(Crowd(cubes[name].traces()), what)
    assert_like(values, *STATISTICS[name, what], f"{what} of {name}")


def test_presets_state_the_mean_of_their_events():
    means = {name: STATISTICS[name, "events"][0] for name in PRESETS}
    assert means == {name: preset.events for name, preset in PRESETS.items()}


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_preset_has_the_size_of_the_original(cubes, name):
    preset, cube = PRESETS[name], cubes[name]
    assert (cube.n_rois, cube.n_epochs) == (preset.rois, preset.epochs)
    assert cube.calendar.timezone == preset.timezone
    assert cube.calendar.step == 3600
    assert cube.n_users == USERS[name]


def test_sizes_of_the_originals():
    """NDSS18 §V-A, POPETS24 §5.1."""
    sizes = {name: (p.users, p.rois, p.epochs) for name, p in PRESETS.items()}
    assert sizes == {
        "tfl": (10_000, 582, 672),
        "sfc": (534, 100, 504),
        "cdr": (11_000, 500, 720),
        "milan": (4_840, 100, 168),
    }


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("tfl", "Mon 2010-03-01 00:00"),
        ("sfc", "Mon 2008-05-19 00:00"),
        ("cdr", "Tue 2021-06-01 00:00"),
        ("milan", "Mon 2013-11-04 00:00"),
    ],
)
def test_calendar_begins_at_local_midnight(cubes, name, start):
    assert cubes[name].calendar.describe().startswith(start)


def test_commuters_with_null_roi(cubes):
    """NDSS18 §V-A: 728 ± 16 with null, median 727; 20 ± 9 unique."""
    crowd = Crowd(cubes["tfl"].traces())
    assert_like(crowd.total_with_null, 728, 16, "events with the null ROI")
    assert_like(crowd.unique_rois + 1, 20, 9, "unique ROIs with the null ROI")
    assert np.median(crowd.total_with_null) == pytest.approx(727, rel=0.01)
    assert crowd.total_with_null.min() == pytest.approx(673, rel=0.05)


def test_null_roi_of_transforms_counts_the_same(cubes):
    traces = cubes["tfl"].traces(np.arange(200))
    with_null = with_null_roi(traces)
    found = [len(with_null.trace(user)) for user in range(200)]
    np.testing.assert_array_equal(found, Crowd(traces).total_with_null)


def prior_errors(traces):
    """Return the mean errors of priors alone, three weeks known, the fourth inferred."""
    there, n_epochs = recovery.with_null(traces), 168
    seen, truth, errors = there[:, :, :-n_epochs], there[:, :, -n_epochs:], {}
    for name in ("freq_roi", "roi_day_week"):
        shares = recovery.learn(name, seen, n_epochs)
        errors[name] = recovery.profiling_error(truth, shares, base=np.e).mean()
    for name in ("last_week", "last_day", "last_hour"):
        told = recovery.remember(name, there, n_epochs)
        errors[name] = recovery.localization_error(truth, told).mean()
    return errors


@pytest.mark.slow
def test_commuters_are_as_predictable_as_in_pets17(cubes):
    """PETS17 §4.2 and §4.3: errors of the priors alone, three weeks known, the fourth inferred."""
    traces = list(dense(cubes["tfl"].traces(), 400))
    errors = [prior_errors(np.stack(traces[i : i + 50])) for i in range(0, 400, 50)]
    published = {
        "freq_roi": 0.37,
        "roi_day_week": 0.19,
        "last_week": 0.24,
        "last_day": 0.27,
        "last_hour": 0.31,
    }
    for name, error in published.items():
        assert np.mean([each[name] for each in errors]) == pytest.approx(error, abs=0.05), name


def test_commuters_travel_to_work(cubes):
    """Weekdays have two peaks, weekends have none in the morning."""
    crowd = Crowd(cubes["tfl"].traces())
    by_hour = np.bincount(crowd.epoch % 168, minlength=168).reshape(7, 24)
    weekday, weekend = by_hour[:5].mean(axis=0), by_hour[5:].mean(axis=0)
    assert weekday[8] > 2 * weekday[12] < weekday[18], "no peaks on weekdays"
    assert weekend[8] < 0.2 * weekday[8], "a morning peak at weekends"


def test_cabs_drive_as_in_the_papers(cubes):
    """NDSS18 §V-A: median 4,111 with null, maximum 8,136, minimum 504; PETS17 §4.1: ROIs."""
    crowd = Crowd(cubes["sfc"].traces())
    total = crowd.total_with_null
    assert np.median(total) == pytest.approx(4_111, rel=0.05)
    assert total.max() == pytest.approx(8_136, rel=0.15)
    assert crowd.events.min() >= 1
    visits = np.bincount(crowd.roi[crowd.epoch >= 336], minlength=100)
    assert_like(visits, 6_714, 7_624, "visits of a ROI in the last week")
    assert crowd.events.sum() / crowd.active_epochs.sum() == pytest.approx(11.06, rel=0.05)


@pytest.mark.parametrize("name", ["cdr", "milan"])
def test_counts_of_a_thousand_users_are_small(cubes, name):
    """POPETS24 §6.1, Fig. 15: 99 % of the nonzero counts are at most 5."""
    cube, shares = cubes[name], []
    for first in range(0, 4_000, 1_000):
        cells = cube.traces(np.arange(first, first + 1_000)).cells
        counts = np.bincount(cells, minlength=cube.n_rois * cube.n_epochs)
        shares.append((counts[counts > 0] <= 5).mean())
    assert np.mean(shares) == pytest.approx(0.99, abs=0.007), f"shares in four groups: {shares}"


def test_targets_of_milan_have_a_sixth_of_the_visits_of_the_cdr(cubes):
    """POPETS24 §6.1: targets of milan are users with 10 visits at least."""
    milan, cdr = (np.diff(cubes[name].traces().offsets) for name in ("milan", "cdr"))
    assert cdr.mean() / milan[milan >= 10].mean() == pytest.approx(6.0, rel=0.10)


def test_phones_report_every_week(cubes):
    """POPETS24 §5.1: users were selected so."""
    crowd = Crowd(cubes["cdr"].traces())
    weeks = np.zeros((crowd.n_users, 5), bool)
    weeks[crowd.user, crowd.epoch // 168] = True
    assert weeks[:, :4].all(), "a user skips a week"


def test_activity_of_phones_is_lognormal(cubes):
    """POPETS24 Fig. 6: the logarithm is symmetric."""
    logs = np.log(np.diff(cubes["cdr"].traces().offsets))
    skew = ((logs - logs.mean()) ** 3).mean() / logs.std() ** 3
    assert abs(skew) < 0.25


@pytest.mark.parametrize("name", ["cdr", "milan"])
def test_phones_stay_around_home_and_work(cubes, name):
    traces = cubes[name].traces()
    crowd = Crowd(traces)
    visits = np.zeros((crowd.n_users, crowd.n_rois))
    np.add.at(visits, (crowd.user, crowd.roi), 1)
    visits = np.sort(visits[crowd.events >= 20], axis=1)
    top = visits[:, -2:].sum(axis=1) / visits.sum(axis=1)
    assert top.mean() > 0.5, "two ROIs should hold most of a user's visits"


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_same_seed_same_cube(tmp_path, name):
    a = synthesise(name, str(tmp_path / "a"), users=20, seed=3)
    b = synthesise(name, str(tmp_path / "b"), users=20, seed=3)
    c = synthesise(name, str(tmp_path / "c"), users=20, seed=4)
    assert a.fingerprint == b.fingerprint
    assert a.fingerprint != c.fingerprint
    assert a.regions.names == c.regions.names, "the city does not change with the seed"


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_first_users_do_not_depend_on_how_many(cubes, tmp_path, name):
    few = synthesise(name, str(tmp_path / "few"), users=150)
    users = np.arange(150)
    np.testing.assert_array_equal(few.traces().offsets, cubes[name].traces(users).offsets)
    np.testing.assert_array_equal(few.traces().cells, cubes[name].traces(users).cells)


def test_blocks_meet_without_a_seam(tmp_path):
    """Users on both sides of a block's end: none lost, none twice, each block its own stream."""
    block = Commuters.block
    cube = synthesise("tfl", str(tmp_path / "tfl"), users=block + 2)
    traces = cube.traces(np.arange(block - 1, block + 2))
    ids = cube.user_ids(block - 1, block + 2)
    assert list(ids) == [f"u{i:07d}" for i in (block - 1, block, block + 1)]
    assert (np.diff(traces.offsets) > 50).all()
    first = cube.traces(np.array([0])).cells
    assert not np.array_equal(first, traces.trace(1)), "the second block repeats the first"


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_users_differ_and_have_events(cubes, name):
    traces = cubes[name].traces()
    assert (np.diff(traces.offsets) > 0).all(), "a user without an event"
    some = {traces.trace(user).tobytes() for user in range(traces.n_users)}
    assert len(some) > 0.75 * traces.n_users, "users repeat each other"


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_regions_can_be_triangulated(cubes, name):
    regions = cubes[name].regions
    points = np.column_stack([regions.lon, regions.lat])
    triangles = Delaunay(points)
    assert len(np.unique(triangles.simplices)) == len(regions), "a region is in no triangle"
    assert len(np.unique(points, axis=0)) == len(set(regions.names)) == len(regions)


def test_provenance_names_preset_and_seed(tmp_path):
    cube = synthesise("milan", str(tmp_path / "milan"), users=1, seed=9)
    provenance = cube.attributes["provenance"]
    assert provenance == {"source": "synthetic", "preset": "milan", "seed": 9}
    assert cube.attributes["ids_are_pseudonyms"] is True
    np.testing.assert_array_equal(cube.pseudonyms(np.arange(cube.n_users)), cube.user_ids())


def test_users_default_to_the_original(tmp_path):
    assert synthesise("milan", str(tmp_path / "milan")).n_users == 4_840


def test_unknown_preset_names_the_known_ones(tmp_path):
    with pytest.raises(UnknownNameError, match=r"cdr, milan, sfc, tfl.*did you mean 'tfl'"):
        synthesise("tfll", str(tmp_path / "x"))


@pytest.mark.parametrize("users", [0, -5])
def test_at_least_one_user(tmp_path, users):
    with pytest.raises(InputError, match=f"users is {users}"):
        synthesise("tfl", str(tmp_path / "x"), users=users)


def test_overwrites_only_with_force(tmp_path):
    uri = str(tmp_path / "milan")
    synthesise("milan", uri, users=5)
    with pytest.raises(ExistsError):
        synthesise("milan", uri, users=6)
    assert synthesise("milan", uri, users=6, force=True).n_users == 6


def test_every_preset_has_a_population():
    assert set(presets._POPULATIONS) == set(PRESETS)


@pytest.mark.slow
def test_ten_thousand_commuters_have_the_published_extremes(tmp_path):
    """NDSS18 §V-A and §VII: maximum 881, sensitivity of a week 207; PETS17 §4.1: stations."""
    crowd = Crowd(synthesise("tfl", str(tmp_path / "tfl")).traces())
    assert_like(crowd.total_with_null, 728, 16, "events with the null ROI")
    assert crowd.total_with_null.max() == pytest.approx(881, rel=0.08)
    assert crowd.total_with_null.min() == pytest.approx(673, rel=0.05)
    assert crowd.week_with_null(0).max() == pytest.approx(207, rel=0.08)
    inside = crowd.epoch >= 504
    visits = np.bincount(crowd.roi[inside], minlength=582)
    hours = np.bincount(np.unique(crowd.roi[inside] * 672 + crowd.epoch[inside]) // 672)
    assert_like(visits[visits > 0], 818, 1_361, "visits of a station")
    assert_like(hours, 71, 54, "active hours of a station")


@pytest.mark.nightly(group="real")
def test_memory_does_not_grow_with_users(tmp_path):
    """Blocks are written as they are drawn; only names and offsets wait for a whole chunk."""
    peaks = []
    synthesise("tfl", str(tmp_path / "warm"), users=1)
    for n_blocks in (4, 40):
        uri = str(tmp_path / str(n_blocks))
        tracemalloc.start()
        synthesise("tfl", uri, users=n_blocks * Commuters.block)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 36 * Commuters.block * 40, f"peaks of {peaks} bytes"
