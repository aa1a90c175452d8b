"""Milan's tweets in place of their preset: read, checked, and with targets of their own."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from ingest.oracle import content

from clusterscale.config import find_studies, load_study
from clusterscale.cube.synthetic import synthesise
from clusterscale.errors import ConfigError, InputError
from clusterscale.papers import REAL, Cubes, PaperStudy, reproduce
from clusterscale.runtime import SerialExecutor

N_USERS, HOUR = 40, 3600
FIRST = 1383256800  # 2013-10-31 23:00 in Milan
SOUTH, WEST, NORTH, EAST = 45.394252, 9.079541, 45.541507, 9.278994

STUDY = {
    "paper": "POPETS24",
    "title": "Tweets",
    "cube": "milan",
    "audit": {
        "seed": 1,
        "control": False,
        "null_roi": False,
        "targets": {"listed": ["u0000276", "u0000432", "u0000968"]},
        "priors": [{"name": "known_subset", "alpha": 0.5, "training": 40, "challenges": 20}],
        "group_sizes": [5],
        "mechanisms": [{"name": "exact"}],
        "attacks": [{"name": "projection"}],
    },
    "published": [{"item": "Figure 7", "source": "section 5", "at": {}, "values": 0.99}],
}


def tweet(user, time, lat, lon):
    """Return a feature as Social Pulse has it."""
    return {
        "entities": [],
        "created": "2013-11-01T00:00:00",
        "timestamp": time,
        "user": user,
        "municipality.name": "Milano",
        "language": "it",
        "geomPoint.geom": {"type": "Point", "coordinates": [lon, lat]},
    }


@pytest.fixture(scope="module")
def tweets():
    """Draw tweets; a quarter is in another week or out of town, and one user is never in town."""
    rng, drawn = np.random.default_rng(4), [("late", FIRST + 168 * HOUR, 45.45, 9.15)]
    for user in range(N_USERS):
        n = 4 if user % 3 else 20
        drawn += [(f"id{user}", FIRST + int(rng.integers(HOUR)), 45.4647, 9.1895)]
        where = rng.uniform((SOUTH, WEST), (NORTH + 0.03, EAST + 0.03), (n, 2))
        when = FIRST + rng.integers(-20 * HOUR, 170 * HOUR, n)
        drawn += [
            (f"id{user}", int(t), *place) for t, place in zip(when, where.tolist(), strict=True)
        ]
    return drawn


@pytest.fixture(scope="module")
def source(tweets, tmp_path_factory):
    path = tmp_path_factory.mktemp("pulse") / "social-pulse-milano.geojson"
    path.write_text(json.dumps({"features": [tweet(*one) for one in tweets]}))
    return str(path)


@pytest.fixture
def small(monkeypatch):
    """The tests' tweets have fewer users."""
    monkeypatch.setitem(REAL, "milan", replace(REAL["milan"], n_users=N_USERS))


@pytest.fixture
def study():
    return PaperStudy.model_validate(STUDY)


def visits(tweets):
    """Return the user, cell and hour of every tweet that counts, by hand."""
    found = set()
    for user, time, lat, lon in tweets:
        hour = (time - FIRST) // HOUR
        row, column = (lat - SOUTH) / (NORTH - SOUTH) * 10, (lon - WEST) / (EAST - WEST) * 10
        if 0 <= hour < 168 and 0 <= row < 10 and 0 <= column < 10:
            found.add((user, int(row) * 10 + int(column), int(hour)))
    return found


def test_tweets_are_visits_in_squares_and_hours(small, source, tweets, study, tmp_path):
    cube = Cubes(str(tmp_path), {"milan": source, "cabs": None}).open(study)
    found = {(user, *divmod(cell, 168)) for user, own in content(cube.uri).items() for cell in own}
    assert found == visits(tweets)
    assert cube.n_users == N_USERS


def test_other_cubes_are_refused_with_what_is_expected(source, study, tmp_path):
    cubes = Cubes(str(tmp_path), {"milan": source})
    with pytest.raises(InputError) as caught:
        cubes.open(study)
    assert str(caught.value) == (
        f"{source}: the papers have about 4,840 users of Social Pulse in Milan, 100 ROIs and 168 "
        "hours, but this cube has 40, 100 and 168"
    )


def test_a_study_may_count_on_another_grid(small, source, tweets, tmp_path):
    """Twice as wide a box: each cell is two columns; a cube has its own grid and is refused."""
    cubes = Cubes(str(tmp_path), {"milan": source})
    plain = cubes.open(PaperStudy.model_validate(STUDY))
    grid = f"{SOUTH},{WEST},{NORTH},{2 * EAST - WEST}/10x10"
    study = PaperStudy.model_validate({**STUDY, "grid": grid})
    found = {
        (user, cell // 168 // 10, cell // 168 % 10, cell % 168)
        for user, own in content(cubes.open(study).uri).items()
        for cell in own
    }
    narrow = {(user, cell // 10, cell % 10 // 2, hour) for user, cell, hour in visits(tweets)}
    assert narrow == {visit for visit in found if visit[2] < 5}
    assert cubes.open(PaperStudy.model_validate(STUDY)).uri == plain.uri
    with pytest.raises(ConfigError, match=r"on another grid, .*: pass the records"):
        Cubes(str(tmp_path), {"milan": plain.uri}).open(study)


@pytest.mark.slow  # compiles what draws a preset
def test_a_preset_is_not_taken_for_real_data(small, study, tmp_path):
    synthesise("milan", f"{tmp_path}/preset", users=N_USERS)
    with pytest.raises(InputError, match="this cube is synthetic; give one of real users of So"):
        Cubes(str(tmp_path), {"milan": f"{tmp_path}/preset"}).open(study)


def test_targets_are_drawn_from_active_users_and_are_the_same_everywhere(
    small, source, tweets, study, tmp_path
):
    cubes = Cubes(str(tmp_path), {"milan": source})
    cube = cubes.open(study)
    n_events = {str(user): 0 for user in cube.user_ids()}
    for user, _, _ in visits(tweets):
        n_events[user] += 1
    named = [f"u{i}" for i in range(9)]
    chosen = []
    for n_targets in (3, 6, 9):
        fields = {**STUDY["audit"], "targets": {"listed": named[:n_targets]}}
        other = PaperStudy.model_validate({**STUDY, "audit": fields})
        found = cubes.with_targets(other, cube).audit.targets
        rows = {int(name.removeprefix("row ")) for name in found.listed}
        assert len(rows) == n_targets
        assert min(n_events[str(cube.user_ids()[row])] for row in rows) >= 10
        chosen.append(rows)
    assert chosen[0] < chosen[1] < chosen[2]
    fields = {**STUDY["audit"], "targets": {"listed": [f"u{i}" for i in range(30)]}}
    with pytest.raises(InputError, match="30 targets with 10 events or more, but 1"):
        cubes.with_targets(PaperStudy.model_validate({**STUDY, "audit": fields}), cube)


def test_what_is_not_given_is_synthetic_and_keeps_its_targets(study, tmp_path):
    none, given = (Cubes(str(tmp_path), {"milan": where}) for where in (None, "x.zarr"))
    assert (none.describe(study), given.describe(study)) == ("milan (synthetic)", "milan (real)")
    assert none.with_targets(study, None) is study
    fewer = study.model_copy(update={"users": 60})
    assert given.describe(fewer) == "milan (synthetic)"
    cabs = study.model_copy(update={"cube": "cabs"})
    assert (none.describe(cabs), none.has(cabs)) == ("cabs (not given)", False)


@pytest.mark.slow  # runs an audit
def test_a_study_on_real_data_is_compared_in_a_folder_of_its_own(small, source, study, tmp_path):
    cubes = Cubes(f"{tmp_path}/cubes", {"milan": source})
    told = reproduce("popets24/a", study, cubes, f"{tmp_path}/a", SerialExecutor())
    assert told.data == "40 users of Social Pulse in Milan"
    assert {number.verdict for number in told.compared} <= {"agrees", "not reproduced"}
    assert (tmp_path / "a/real/run/results.zarr").exists()
    assert not (tmp_path / "a/run").exists()


@pytest.mark.slow  # reading the studies takes seconds
def test_all_studies_of_milan_take_real_data():
    given = Cubes("x", {"milan": "x.zarr"})
    studies = [load_study(path) for path in find_studies(["milan"]).values()]
    assert len(studies) >= 8
    for one in studies:
        assert given.is_real(one)
        assert one.marginals or one.audit.targets.listed
