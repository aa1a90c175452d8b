"""One body over every registry: what each entry must do to be called by an audit."""

import pickle

import numpy as np
import pytest
from oracles.entries import build

from clusterscale.attacks import ATTACKS
from clusterscale.contracts import (
    NO_NOISE,
    Attack,
    Bounds,
    Examples,
    GroupRequest,
    Mechanism,
    Prior,
    Release,
    publish,
)
from clusterscale.cube import measure_bounds, with_null_roi
from clusterscale.errors import InputError, PoolError
from clusterscale.game import play
from clusterscale.mechanisms import MECHANISMS, user_level
from clusterscale.priors import PRIORS
from clusterscale.runtime import CLUSTERS
from clusterscale.seeds import stream
from clusterscale.utility import UTILITIES, Utility

BOUNDS = Bounds(event=2, user_day=20, user=48, series=24, rois=5, null_roi=False)

REGISTRIES = {
    "mechanism": (MECHANISMS, Mechanism),
    "utility": (UTILITIES, Utility),
    "attack": (ATTACKS, Attack),
    "prior": (PRIORS, Prior),
    "cluster": (CLUSTERS, object),
}
ENTRIES = [(kind, name) for kind, (registry, _) in REGISTRIES.items() for name in registry]


LEARN_LONG = ("cross_validated", "forest", "perceptron")


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
    mechanism = build(MECHANISMS, name).bind(BOUNDS)
    assert mechanism.bind(BOUNDS) == mechanism
    mechanism.check(group_size=20, n_rois=5, n_epochs=12)
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
    assert guarantee.reason
    assert guarantee.epsilon >= 0
    assert (guarantee.unit == "none") == np.isinf(guarantee.epsilon)
    assert (mechanism.user_privacy_loss(BOUNDS) is None) == (guarantee.unit == "none")
    user = user_level(mechanism, BOUNDS)
    assert user.epsilon == np.inf or guarantee.unit != "none"
    assert all(epsilon >= 0 and 0 <= delta <= 1 for epsilon, delta in user.curve)


@pytest.mark.parametrize(
    "name", [name for name in MECHANISMS if build(MECHANISMS, name).trace_steps]
)
def test_trace_step_is_reproducible_and_expands_to_the_old_cells(name, cube):
    traces, frame = cube.traces(), cube.frame()
    for step in build(MECHANISMS, name).trace_steps:
        with pytest.raises(InputError, match="add the null ROI after the trace steps"):
            step.apply(with_null_roi(traces), frame, rng=stream(1, "step"))
        changed, after = step.apply(traces, frame, rng=stream(1, "step"))
        again, _ = step.apply(traces, frame, rng=stream(1, "step"))
        np.testing.assert_array_equal(changed.cells, again.cells)
        np.testing.assert_array_equal(changed.offsets, again.offsets)
        assert (len(after.lat), len(after.days)) == (changed.n_rois, changed.n_epochs)
        bounds = measure_bounds(changed, after.days)
        assert measure_bounds(changed, after.days).user_day <= step.limit(bounds).user_day
        shape = (2, changed.n_rois + 1, changed.n_epochs)
        expanded = step.expand(np.arange(np.prod(shape), dtype=float).reshape(shape), frame)
        assert expanded.shape == (2, cube.n_rois + 1, cube.n_epochs)
        assert np.isin(expanded[1], np.arange(shape[1] * shape[2], 2 * shape[1] * shape[2])).all()


@pytest.fixture(scope="module")
def games(cube):
    """Thirty targets, set up once for every attack."""
    prior, traces = build(PRIORS, "known_subset"), cube.traces()
    return [
        prior.set_up(GroupRequest(traces, target, group_size=8, rng=stream(0, "groups", target)))
        for target in range(0, 60, 2)
    ]


@pytest.mark.parametrize("name", list(PRIORS))
def test_prior_is_reproducible_and_fair(name, cube):
    prior, traces = build(PRIORS, name), with_null_roi(cube.traces(epochs=(24, 48)))
    past = [with_null_roi(cube.traces(epochs=(0, 24)))] if prior.needs_past else []
    mechanism = build(MECHANISMS, "exact")

    def set_up():
        rng, frame = stream(2, "groups"), cube.frame((24, 48))
        return prior.set_up(
            GroupRequest(traces, 4, frame=frame, past=past, group_size=6, validate=True, rng=rng)
        )

    def study(game):
        first = publish(game.challenge.counts[:1], mechanism, group_size=6, rng=stream(2, "x"))
        return game.adversary.study(first, mechanism, rng=stream(2, "noise"))

    game, same = set_up(), set_up()
    assert pickle.dumps(game) == pickle.dumps(same)
    knowledge = study(game)
    assert pickle.dumps(knowledge) == pickle.dumps(study(same))
    challenge = game.challenge
    asked = Release(challenge.counts, 6, mechanism.label, NO_NOISE)
    samples = [Examples(asked, challenge.labels, challenge.blocks), knowledge.training]
    samples += [knowledge.validation] if knowledge.validation else []
    for sample in samples:
        counts, n_groups = sample.release.values, len(sample.labels)
        assert counts.shape == (n_groups, cube.n_rois + 1, 24)
        assert counts.dtype == np.int32
        assert sample.labels.mean() == 0.5
        assert len(sample.blocks) == n_groups
        # In every hour each member is in a place or in none.
        assert (counts.sum(axis=1) >= 6).all()
    different = {id(sample.release.values): len(sample.labels) for sample in samples}
    n_studies, n_own = prior.studies(validate=True, control=False)
    assert (n_studies > 0) == (n_own > 0)
    assert n_studies == (
        len(challenge.labels) if game.adversary.retrains_per_release else n_studies > 0
    )
    n_rows = prior.n_rows(len(past), validate=True, control=False)
    assert sum(different.values()) == n_rows + n_own
    assert (knowledge.whereabouts is not None) == prior.gives_whereabouts
    prior.check(cube.n_users, 6)
    with pytest.raises(PoolError):
        prior.check(cube.n_users, 60)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_attack_is_reproducible_keeps_shape_and_does_not_write(name, games):
    attack, game, mechanism = build(ATTACKS, name), games[0], build(MECHANISMS, "exact")
    challenge = publish(game.challenge.counts, mechanism, group_size=8, rng=stream(0, "noise"))
    knowledge = game.adversary.study(challenge, mechanism, rng=stream(0, "noise"))
    before = challenge.values.copy(), knowledge.training.release.values.copy()
    first, second = (
        attack.fit(knowledge, rng=stream(0, "attack")).score(challenge) for _ in range(2)
    )
    assert first.shape == game.challenge.labels.shape
    assert first.dtype == np.float64
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(before[0], challenge.values)
    np.testing.assert_array_equal(before[1], knowledge.training.release.values)
    assert np.isfinite(attack.fit(knowledge, rng=stream(0, "attack")).threshold)
    distinguisher = pickle.loads(pickle.dumps(attack.fit(knowledge, rng=stream(0, "attack"))))
    alone = challenge.take([0])
    # A perceptron works in single precision, and rows together are summed in another order.
    np.testing.assert_allclose(distinguisher.score(alone), first[:1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in LEARN_LONG else ()) for name in ATTACKS],
)
def test_attack_beats_chance_and_its_control_does_not(name, games):
    attack, mechanism = build(ATTACKS, name), build(MECHANISMS, "exact")
    outcomes = [
        next(play(game, [mechanism], [attack], seed=1, path=(i,))) for i, game in enumerate(games)
    ]
    found, controls = (
        np.array([getattr(outcome, field) for outcome in outcomes])
        for field in ("auc", "control_auc")
    )
    # Four standard errors of the mean: a sound control fails one seed in 16,000.
    assert found.mean() - 0.5 > 4 * found.std(ddof=1) / np.sqrt(len(found))
    assert abs(controls.mean() - 0.5) < 4 * controls.std(ddof=1) / np.sqrt(len(controls))
