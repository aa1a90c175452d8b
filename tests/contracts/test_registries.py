"""One body over every registry: what each entry must do to be called by an audit."""

import pickle

import numpy as np
import pytest

from clusterscale.attacks import ATTACKS
from clusterscale.contracts import Attack, Mechanism, Prior, Release
from clusterscale.game import play
from clusterscale.mechanisms import MECHANISMS
from clusterscale.priors import PRIORS
from clusterscale.runtime import CLUSTERS
from clusterscale.seeds import stream

# Fields that an entry cannot do without; an entry that needs none is not listed.
NEEDED = {
    "laplace": {"epsilon": 1.0, "unit": "event"},
    "known_subset": {"alpha": 0.5, "training": 60, "challenges": 40},
}

REGISTRIES = {
    "mechanism": (MECHANISMS, Mechanism),
    "attack": (ATTACKS, Attack),
    "prior": (PRIORS, Prior),
    "cluster": (CLUSTERS, object),
}
ENTRIES = [(kind, name) for kind, (registry, _) in REGISTRIES.items() for name in registry]


def build(registry, name):
    return registry.create(name, **NEEDED.get(name, {}))


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_entry_is_a_frozen_picklable_value_that_config_can_name(kind, name):
    registry, protocol = REGISTRIES[kind]
    entry = build(registry, name)
    assert isinstance(entry, protocol)
    assert entry.name == name
    copy = pickle.loads(pickle.dumps(entry))
    assert copy == entry
    assert hash(copy) == hash(entry)
    assert copy.label == entry.label
    assert build(registry, name).label.startswith(name)
    again = type(entry).model_validate(entry.model_dump(mode="json"))
    assert again == entry
    with pytest.raises(ValueError, match="frozen"):
        entry.name = "other"
    assert type(entry).__doc__, "an entry says what it does and where that comes from"


@pytest.mark.parametrize("name", list(MECHANISMS))
@pytest.mark.parametrize("shape", [(5, 12), (3, 5, 12)])
def test_mechanism_keeps_shape_and_follows_its_stream(name, shape):
    mechanism = build(MECHANISMS, name)
    counts = np.random.default_rng(1).integers(0, 20, shape, dtype=np.int32)
    before = counts.copy()
    values = mechanism.release(counts, group_size=20, rng=stream(1, "noise"))
    again = mechanism.release(counts, group_size=20, rng=stream(1, "noise"))
    assert values.shape == shape
    assert values.dtype == np.float64
    assert not np.shares_memory(values, counts)
    np.testing.assert_array_equal(values, again)
    np.testing.assert_array_equal(counts, before)
    guarantee = mechanism.guarantee
    assert guarantee.epsilon > 0
    assert guarantee.reason


@pytest.fixture(scope="module")
def games(cube):
    """Thirty targets, set up once for every attack."""
    prior, traces = build(PRIORS, "known_subset"), cube.traces()
    return [
        prior.set_up(traces, target, group_size=8, rng=stream(0, "groups", target))
        for target in range(0, 60, 2)
    ]


@pytest.mark.parametrize("name", list(PRIORS))
def test_prior_is_reproducible_and_fair(name, cube):
    prior, traces = build(PRIORS, name), cube.traces()
    game, same = (prior.set_up(traces, 4, group_size=6, rng=stream(2, "groups")) for _ in range(2))
    for field in ("training_counts", "challenge_counts", "trace", "mean_trace"):
        np.testing.assert_array_equal(getattr(game, field), getattr(same, field))
    for labels in (game.training_labels, game.challenge_labels):
        assert labels.mean() == 0.5
    assert len(game.training_counts) + len(game.challenge_counts) == prior.n_groups
    assert game.training_counts.shape[1:] == (cube.n_rois, cube.n_epochs)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_attack_is_reproducible_keeps_shape_and_does_not_write(name, games):
    attack, game, mechanism = build(ATTACKS, name), games[0], build(MECHANISMS, "exact")
    knowledge = game.knowledge(mechanism, rng=stream(0, "noise"))
    challenge = game.publish(game.challenge_counts, mechanism, rng=stream(0, "noise"))
    before = challenge.values.copy(), knowledge.training.values.copy()
    first, second = (
        attack.fit(knowledge, rng=stream(0, "attack")).score(challenge) for _ in range(2)
    )
    assert first.shape == game.challenge_labels.shape
    assert first.dtype == np.float64
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(before[0], challenge.values)
    np.testing.assert_array_equal(before[1], knowledge.training.values)
    assert np.isfinite(attack.fit(knowledge, rng=stream(0, "attack")).threshold)
    distinguisher = pickle.loads(pickle.dumps(attack.fit(knowledge, rng=stream(0, "attack"))))
    alone = Release(challenge.values[:1], challenge.group_size, challenge.mechanism)
    np.testing.assert_allclose(distinguisher.score(alone), first[:1], rtol=1e-9)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_attack_beats_chance_and_its_control_does_not(name, games):
    attack, mechanism = build(ATTACKS, name), build(MECHANISMS, "exact")
    outcomes = [
        next(play(game, [mechanism], [attack], seed=1, path=(i,))) for i, game in enumerate(games)
    ]
    assert np.mean([outcome.auc for outcome in outcomes]) > 0.65
    controls = np.array([outcome.control_auc for outcome in outcomes])
    # Four standard errors of the mean: a sound control fails one seed in 16,000.
    assert abs(controls.mean() - 0.5) < 4 * controls.std(ddof=1) / np.sqrt(len(controls))
