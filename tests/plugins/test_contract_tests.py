"""The example passes every contract test, and each broken twin fails the one that is meant."""

import pytest
from acme_privacy.attack import MatchingCells
from acme_privacy.measure import LargestError
from acme_privacy.mechanism import UniformNoise
from loops import for_each

pytest.importorskip("dask")
from acme_privacy.reader import Pings
from plugins import broken

from clusterscale import testing

pytestmark = pytest.mark.dask

SETTINGS = {"alpha": 0.5, "training": 60, "challenges": 40, "validation": 20}
KINDS = {
    "mechanism": (testing.checks_of_mechanism, broken.MECHANISMS),
    "attack": (testing.checks_of_attack, broken.ATTACKS),
    "utility": (testing.checks_of_utility, broken.MEASURES),
    "reader": (testing.checks_of_reader, broken.READERS),
    "prior": (testing.checks_of_prior, broken.PRIORS_),
}
TWINS = [(kind, name) for kind, (_, twins) in KINDS.items() for name in twins]
FOR_ALL = set(list(broken.MECHANISMS)[:5])
BY_TRACES = {"trace_steps_repeat", "trace_steps_keep_their_stability", "trace_steps_expand"}


@pytest.fixture(scope="module")
def pings(tmp_path_factory):
    file = tmp_path_factory.mktemp("pings") / "a.ping"
    file.write_text("".join(f"u{i % 7} {50 + i / 100} {i / 100} {1000 + i}\n" for i in range(20)))
    return str(file)


@pytest.mark.parametrize("cls", [UniformNoise, MatchingCells, LargestError])
def test_the_example_passes(cls):
    kind = {UniformNoise: "mechanism", MatchingCells: "attack", LargestError: "utility"}[cls]
    getattr(testing, f"check_{kind}")(cls)


def test_the_reader_of_the_example_passes(pings):
    testing.check_reader(Pings, pings)


@for_each(("kind", "name"), TWINS)
def test_a_broken_twin_fails_by_name(kind, name, pings):
    checks_of, twins = KINDS[kind]
    cls = twins[name](name)
    entry = cls(**SETTINGS) if kind == "prior" else cls
    data = (pings,) if kind == "reader" else ()
    with pytest.raises(AssertionError, match=rf"^{cls.__name__}: {name}: .*\. [A-Z`]"):
        dict(checks_of())[name](entry, *data)


@for_each("kind", list(KINDS))
def test_every_check_has_a_twin(kind):
    checks_of, twins = KINDS[kind]
    assert {name for name, _ in checks_of()} - BY_TRACES == set(twins) | FOR_ALL


def test_something_else_is_refused():
    with pytest.raises(AssertionError, match=r"must derive from \S+\.Mechanism$"):
        testing.check_mechanism(LargestError)
    with pytest.raises(AssertionError, match="give an object instead of the class"):
        testing.check_prior(broken.KnownSubset)
