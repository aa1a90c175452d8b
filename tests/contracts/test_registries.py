"""Every entry of every registry does what the contract tests of the package ask of it."""

import numpy as np
import pytest
from loops import for_each

pytest.importorskip("dask")  # the readers and the clusters

from oracles.entries import build

from clusterscale.attacks import ATTACKS
from clusterscale.errors import PoolError
from clusterscale.ingestion import READERS
from clusterscale.mechanisms import MECHANISMS
from clusterscale.priors import PRIORS
from clusterscale.release import TABLE_FORMATS
from clusterscale.release.checks import CHECKS
from clusterscale.runtime import CLUSTERS
from clusterscale.testing import (
    checks_of_attack,
    checks_of_mechanism,
    checks_of_prior,
    checks_of_reader,
    checks_of_utility,
)
from clusterscale.testing.attacks import measure
from clusterscale.testing.checks import named
from clusterscale.testing.population import bounds, traces
from clusterscale.utility import UTILITIES

pytestmark = pytest.mark.dask

LEARN_LONG = ("cross_validated", "forest", "perceptron")
PLAYS_LONG = ("does_not_beat_its_control", "guarantee_is_not_refuted")

CONTRACTS = [
    (MECHANISMS, list(checks_of_mechanism())),
    (UTILITIES, list(checks_of_utility())),
    (ATTACKS, list(checks_of_attack())),
    (PRIORS, list(checks_of_prior())),
    (CLUSTERS, list(named(CLUSTERS.base))),
    (CHECKS, list(named(CHECKS.base))),
    (TABLE_FORMATS, list(named(TABLE_FORMATS.base))),
]
RECORDS = {
    "events": ("a.csv", "user,timestamp,lat,lon\nann,1000,1,2\nbob,2000,3,4\n"),
    "trips": (
        "a.csv",
        "user,start_station,start_time,end_station,end_time\n"
        "ann,Bank,1000,Angel,2000\nbob,Angel,3000,Bank,4000\n",
    ),
    "trip_pairs": (
        "a.csv",
        "user,start_station,start_time,end_station,end_time\n"
        "ann,Bank,1000,Angel,2000\nbob,Angel,3000,Bank,4000\n",
    ),
    "cabspotting": ("new_ann.txt", "1 2 0 1000\n3 4 1 2000\n5 6 1 3000\n"),
    "geojson": (
        "a.geojsonl",
        "".join(
            f'{{"type": "Feature", "properties": {{"user": "{user}", "timestamp": {time}}}, '
            '"geometry": {"type": "Point", "coordinates": [2, 1]}}\n'
            for user, time in (("ann", 1000), ("bob", 2000))
        ),
    ),
}


def slow_if_it_learns_long(names):
    return [
        pytest.param(name, marks=pytest.mark.slow if name in LEARN_LONG else ()) for name in names
    ]


def cases():
    for registry, checks in CONTRACTS:
        quick = [check for title, check in checks if title not in PLAYS_LONG]
        for name in registry:
            marks = pytest.mark.slow if name in LEARN_LONG else ()
            yield pytest.param(registry, name, quick, id=name, marks=marks)


@pytest.mark.parametrize(("registry", "name", "checks"), list(cases()))
def test_contract(registry, name, checks):
    """A check that fails names itself."""
    entry = build(registry, name)
    for check in checks:
        check(entry)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ATTACKS))
def test_attack_does_not_beat_its_control(name):
    dict(checks_of_attack())[PLAYS_LONG[0]](build(ATTACKS, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MECHANISMS))
def test_guarantees_are_not_refuted_except_the_false_one(name):
    check = dict(checks_of_mechanism())[PLAYS_LONG[1]]
    if name != "truncated_laplace":
        return check(build(MECHANISMS, name))
    with pytest.raises(AssertionError, match="show an ε of at least 1"):
        check(build(MECHANISMS, name))


@pytest.mark.parametrize("name", list(READERS))
def test_reader(name, tmp_path):
    file, text = RECORDS[name]
    (tmp_path / file).write_text(text)
    for _, check in checks_of_reader():
        check(READERS.create(name), str(tmp_path / file))


@for_each("name", list(MECHANISMS))
def test_without_a_guarantee_no_loss_of_a_user_is_known_and_with_one_it_is(name):
    mechanism = build(MECHANISMS, name).bind(bounds())
    known = mechanism.user_privacy_loss(bounds()) is not None
    assert known == (mechanism.guarantee.unit != "none")


@for_each("name", list(PRIORS))
def test_a_group_of_all_users_is_refused(name):
    with pytest.raises(PoolError):
        build(PRIORS, name).check(traces().n_users, traces().n_users)


@pytest.mark.parametrize("name", slow_if_it_learns_long(ATTACKS))
def test_attack_beats_chance(name):
    """Its control is that of the contract tests."""
    auc, _ = measure(build(ATTACKS, name))
    # Four standard errors of the mean: a sound control fails one seed in 16,000.
    assert auc.mean() - 0.5 > 4 * auc.std(ddof=1) / np.sqrt(len(auc))
