"""The law of what is published of a count is that of very many releases, and SciPy's."""

import pickle

import numpy as np
import pytest
from loops import for_each, mostly_slow
from mechanisms.published import BOUNDS, fits, publish
from oracles.entries import build
from scipy import integrate, stats

from clusterscale.contracts import NO_NOISE
from clusterscale.contracts import publish as publish_release
from clusterscale.mechanisms import MECHANISMS, create
from clusterscale.mechanisms.law import OutputDistribution
from clusterscale.mechanisms.noise import LaplaceNoise

SIZE, N = 10, 40_000
COUNTS = np.array([0, 1, 2, 5, 9, 10])
LABEL = {"ids": lambda mechanism: mechanism.label}

LAPLACE = {"name": "laplace", "epsilon": 0.5, "sensitivity": 1.0}
DISCRETE = LAPLACE | {"discrete": True}
GAUSSIAN = {"name": "gaussian", "epsilon": 2.0, "delta": 0.1, "l2_sensitivity": 1.5}
UP_TO, BELOW = ({"name": "suppress_small", edge: 3} for edge in ("up_to", "below"))
RANGES = {"name": "fixed_ranges", "size": 4}
CAP = {"name": "cap_contributions", "per_day": 2}
SAMPLE = {"name": "sample_events", "remove": 0.3}
POPULAR = {"name": "suppress_unpopular", "fraction": 0.5}
NEAREST = {"name": "round_to_base", "base": 3, "rule": "nearest"}
CELL_KEY = {"name": "cell_key", "deviation": 3, "variance": 2.0, "blocked": 1}
PTABLE = {"name": "cell_key", "table": "i,j,p\n0,0,1\n1,0,.6\n1,2,.4\n2,1,.2\n2,2,.5\n2,3,.3"}
EXPAND = {"name": "expand", "factor": 2.5}
CLIP, ROUND, FLOOR = {"clip": True}, {"integers": "round"}, {"integers": "floor"}


def chain(*steps):
    return create("chain", steps=list(steps))


def alone(step):
    return create(**step)


# Each is published as one of a few whole or half numbers.
IN_STEPS = [
    *(alone(noise | clip | whole) for noise in (LAPLACE, GAUSSIAN)
      for clip in ({}, CLIP) for whole in (ROUND, FLOOR)),
    *(alone(DISCRETE | clip) for clip in ({}, CLIP, FLOOR, CLIP | ROUND)),
    alone(UP_TO), alone(BELOW), alone(RANGES), alone(CAP), alone({"name": "exact"}),
    alone({"name": "sample_traces", "remove": 0.2}),
    build(MECHANISMS, "coarsen_space"), build(MECHANISMS, "coarsen_time"),
    chain(DISCRETE, UP_TO), chain(DISCRETE | CLIP, BELOW), chain(CAP, DISCRETE, RANGES),
    chain(LAPLACE | ROUND, UP_TO), chain(LAPLACE | CLIP | FLOOR, BELOW, RANGES),
    chain(LAPLACE, RANGES), chain(GAUSSIAN, RANGES, UP_TO), chain(GAUSSIAN | CLIP | ROUND, BELOW),
    chain(UP_TO, RANGES), chain(RANGES, BELOW), chain(CAP, UP_TO),
    *(alone({"name": "threshold", "k": 3, "shown": how}) for how in ("zero", "hidden", "label")),
    alone({"name": "round_to_base", "base": 3}), alone(NEAREST), alone(CELL_KEY), alone(EXPAND),
    alone(PTABLE),
    alone({"name": "dominance", "n": 2, "share": 0.8}), alone({"name": "top_code", "at": 4}),
    alone({"name": "bottom_code", "at": 4, "least": 2}),
    chain(CELL_KEY, UP_TO), chain(CELL_KEY, EXPAND), chain(UP_TO, NEAREST), chain(EXPAND, UP_TO),
]  # fmt: skip
# Each is published by a density, and where it is clipped or hidden also as single values.
SMOOTH = [
    *(alone(noise | clip) for noise in (LAPLACE, GAUSSIAN) for clip in ({}, CLIP)),
    chain(LAPLACE, UP_TO), chain(LAPLACE | CLIP, BELOW), chain(CAP, GAUSSIAN | CLIP, UP_TO),
    chain(GAUSSIAN, BELOW), chain(CAP, LAPLACE),
]  # fmt: skip
NO_LAW = {
    "adaptive_ranges": "looks at whole series",
    "enhanced_fourier": "noise is on coefficients of a series",
    "fourier": "noise is on coefficients of a series",
    "perturb_small": "the noise hangs on the count",
    "randomized_response": "the noise hangs on the count",
    "unscaled_fourier": "noise is on coefficients of a series",
    "sample_events": "what is dropped hangs on the count",
    "share_of_total": "looks at the whole release",
    "suppress_unpopular": "looks at the whole release",
    "tables": "each table has a law of its own",
    "truncated_laplace": "not of a law that is named",
}


def published(mechanism, count, n=N, seed=5):
    return publish(mechanism, np.full((1, n), count, np.int32), group_size=SIZE, seed=seed)[0]


def likelihood(mechanism, values, count):
    values = np.asarray(values, float)
    return mechanism.law(SIZE).likelihood(values[None], np.full((len(values), 1), count))[0, :, 0]


def all_values(mechanism):
    """All that can be published with a chance of more than 1e-12."""
    reach = np.arange(-140, 150) / 2
    return reach if mechanism.law(SIZE).revised else reach[::2]


@pytest.mark.parametrize("mechanism", IN_STEPS, **LABEL)
def test_frequencies_are_those_of_many_releases(mechanism):
    """Each of the six counts of a sound law fails one seed in a thousand."""
    values = all_values(mechanism)
    for count in COUNTS:
        drawn, seen = np.unique(published(mechanism, count), return_counts=True)
        assert np.isin(drawn, values).all()
        chance = likelihood(mechanism, values, count)
        observed = np.zeros(len(values))
        observed[np.searchsorted(values, drawn)] = seen
        assert chance.min() >= 0
        if len(drawn) == 1:
            assert chance[observed > 0] == pytest.approx(1, abs=1e-9)
        else:
            assert fits(observed, chance * N), f"of {count}"


@pytest.mark.parametrize("mechanism", IN_STEPS, **LABEL)
def test_chances_sum_to_one(mechanism):
    """Over half numbers too, of which those that are never published have none."""
    values = all_values(mechanism)
    for count in COUNTS:
        assert likelihood(mechanism, values, count).sum() == pytest.approx(1, abs=1e-9)


def scipy_law(mechanism):
    """The noise of a mechanism, which is that of its only step with a scale."""
    step = next(step for step in getattr(mechanism, "steps", [mechanism]) if step.stage == "noise")
    kind = stats.laplace if isinstance(step.noise, LaplaceNoise) else stats.norm
    return kind(scale=step.noise.scale), step.clip


def atoms(mechanism, count):
    """What is published with a chance of its own, and what it is, by what the steps say."""
    noise, clip = scipy_law(mechanism)
    hidden = any(step.name == "suppress_small" for step in getattr(mechanism, "steps", ()))
    found = {0.0: noise.cdf((3 if hidden else 0) - count)} if hidden or clip else {}
    return found | ({float(SIZE): noise.sf(SIZE - count)} if clip else {})


@pytest.mark.parametrize("mechanism", SMOOTH, **LABEL)
@pytest.mark.parametrize("count", COUNTS)
def test_densities_and_single_values_are_those_of_scipy(mechanism, count):
    noise, clip = scipy_law(mechanism)
    single = atoms(mechanism, count)
    for value, chance in single.items():
        assert likelihood(mechanism, [value], count)[0] == pytest.approx(chance, rel=1e-12)
    low = 3 if 0.0 in single and single[0.0] == noise.cdf(3 - count) else 0 if clip else -40
    high = SIZE if clip else 40
    between = np.linspace(low, high, 803)[1:-1] + 1e-4
    expected = np.where(between < high, noise.pdf(between - count), 0)
    np.testing.assert_allclose(likelihood(mechanism, between, count), expected, rtol=1e-12)
    if single:
        never = [value for value in np.linspace(-5, 15, 81) if not low <= value <= high]
        never = [value for value in never if value not in single]
        np.testing.assert_array_equal(likelihood(mechanism, never, count), 0.0)


@pytest.mark.parametrize("mechanism", SMOOTH, **LABEL)
def test_smooth_releases_are_as_likely_as_is_told(mechanism):
    """In slices between single values; each of six counts fails one seed in a thousand."""
    edges = np.linspace(-20, 30, 101)
    inner = edges[:-1, None] + (np.arange(20) + 0.5) / 40
    for count in COUNTS:
        values, single = published(mechanism, count), sorted(atoms(mechanism, count))
        seen = [np.sum(values == value) for value in single]
        seen += [*np.histogram(values[~np.isin(values, single)], edges)[0]]
        density = likelihood(mechanism, inner.ravel(), count).reshape(inner.shape)
        chance = [*likelihood(mechanism, single, count), *(density.mean(axis=1) / 2)]
        assert sum(chance) == pytest.approx(1, abs=1e-4)
        assert fits(seen, np.array(chance) * N), f"of {count}"


def test_far_tails_are_neither_zero_nor_lost():
    """What two counts make of a value far off still has the ratio that the noise gives it."""
    for step in (LAPLACE, DISCRETE, LAPLACE | CLIP | ROUND, DISCRETE | CLIP):
        for steps in ([step], [step, UP_TO]):
            mechanism = chain(CAP, *steps)
            law = mechanism.law(500)
            values = np.array([[400.0, 499.0, 500.0]])
            found = law.likelihood(values, np.tile([0, 1, 30], (3, 1)))[0]
            assert (found > 0).all()
            np.testing.assert_allclose(found[:, 1] / found[:, 0], np.exp(0.5), rtol=1e-9)
            np.testing.assert_allclose(found[:, 2] / found[:, 0], np.exp(15), rtol=1e-9)


def test_either_tail_is_as_precise():
    """A chance of e⁻¹⁰⁰ above is not one less a number next to one."""
    law = OutputDistribution(LaplaceNoise(1.0)).then(
        lambda values: np.clip(values, 0, 100, out=values)
    )
    low, high = (law.likelihood(np.array([[value]]), np.array([[100 - value]]))[0, 0, 0]
                 for value in (0.0, 100.0))  # fmt: skip
    assert low == high == pytest.approx(np.exp(-100.0) / 2)


@pytest.mark.parametrize(("edge", "shown"), [(UP_TO, 4), (BELOW, 3)])
def test_below_publishes_its_edge_and_up_to_does_not(edge, shown):
    values = np.arange(-5.0, 12)
    bare = likelihood(create(**edge), values, 3)
    np.testing.assert_array_equal(bare, values == (3 if shown == 3 else 0))
    found = likelihood(chain(DISCRETE, edge), values, 3)
    np.testing.assert_array_equal(found > 0, (values == 0) | (values >= shown))
    hidden = likelihood(create(**DISCRETE), np.arange(-200.0, shown), 3).sum()
    assert found[values == 0] == pytest.approx(hidden, rel=1e-12)


@for_each("step", [LAPLACE, DISCRETE, GAUSSIAN, LAPLACE | ROUND, DISCRETE | FLOOR])
def test_what_is_not_clipped_falls_below_zero(step):
    mechanism = create(**step)
    down, up = np.array([-4.0, -1.0]), np.array([4.0, 1.0])
    below = likelihood(mechanism, down, 0)
    assert (below > 0.01).all()
    np.testing.assert_allclose(below, likelihood(mechanism, up, 0), rtol=1e-9)
    clipped = likelihood(create(**(step | CLIP)), down, 0)
    np.testing.assert_array_equal(clipped, 0.0)


@pytest.mark.parametrize("mechanism", IN_STEPS, **LABEL)
def test_moments_are_those_of_the_chances(mechanism):
    """The tails are cut where quantiles end: the variance by a few in a thousand."""
    mean, variance = mechanism.law(SIZE).moments(COUNTS)
    values = all_values(mechanism)
    chance = np.array([likelihood(mechanism, values, count) for count in COUNTS])
    expected = chance @ values
    np.testing.assert_allclose(mean, expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(variance, chance @ values**2 - expected**2, rtol=5e-3, atol=1e-3)


@mostly_slow("mechanism", SMOOTH, **LABEL)
def test_moments_are_those_of_the_densities(mechanism):
    law = mechanism.law(SIZE)
    mean, variance = law.moments(COUNTS)
    for count, *found in zip(COUNTS, mean, variance, strict=True):
        single = atoms(mechanism, count)
        values = np.linspace(-60, 70, 130_001) + 1e-4  # so that none is a single value
        density = likelihood(mechanism, values, count)
        first, second = (
            sum(value**power * chance for value, chance in single.items())
            + integrate.trapezoid(values**power * density, values)
            for power in (1, 2)
        )
        np.testing.assert_allclose(found, [first, second - first**2], rtol=5e-3, atol=5e-3)


def test_all_of_many_are_told_at_once():
    """Whichever values and counts stand together."""
    law = chain(LAPLACE, UP_TO).law(SIZE)
    rng = np.random.default_rng(0)
    counts = rng.integers(0, SIZE + 1, (4, 3))
    values = published(chain(LAPLACE, UP_TO), 4, 20).reshape(5, 4)
    found = law.likelihood(values, counts)
    assert found.shape == (5, 4, 3)
    assert found.dtype == np.float64
    for group, cell, i in np.ndindex(found.shape):
        one = law.likelihood(values[group, cell].reshape(1, 1), counts[cell, i].reshape(1, 1))
        assert one.item() == found[group, cell, i]


@pytest.mark.parametrize("mechanism", [*IN_STEPS, *SMOOTH], **LABEL)
def test_what_is_not_revised_is_the_noise_alone(mechanism):
    """And whoever gets the law by wire reads the same of it."""
    law, values = mechanism.law(SIZE), published(mechanism, 4, 50)[None]
    assert law.revised or law.noise == mechanism.noise
    assert law.revised or (values[0] == 4).all() == (law.noise == NO_NOISE)
    again, counts = pickle.loads(pickle.dumps(law)), np.full((50, 1), 4)
    assert again.revised == law.revised
    np.testing.assert_array_equal(*(each.likelihood(values, counts) for each in (law, again)))


@for_each("name", sorted(MECHANISMS))
def test_every_mechanism_has_a_law_or_a_reason(name):
    mechanism = build(MECHANISMS, name).bind(BOUNDS)
    covered = {step.name for each in [*IN_STEPS, *SMOOTH] for step in
               getattr(each, "steps", [each])} | {"chain"}  # fmt: skip
    assert (mechanism.law(SIZE) is None) == (name in NO_LAW)
    assert name in covered ^ set(NO_LAW)


@pytest.mark.parametrize(
    "steps",
    [
        [SAMPLE, LAPLACE], [SAMPLE, UP_TO], [SAMPLE], [LAPLACE, POPULAR], [UP_TO, POPULAR],
        [POPULAR, UP_TO], [LAPLACE, {"name": "adaptive_ranges", "ranges": 3}, UP_TO],
        [{"name": "perturb_small", "below": 3, "epsilon": 1.0}, UP_TO],
        [{"name": "truncated_laplace", "epsilon": 1.0, "clip": True}, UP_TO],
        [{"name": "randomized_response", "p": 0.2}, UP_TO],
        [{"name": "fourier", "epsilon": 1.0, "coefficients": 2, "l2_sensitivity": 1.0}, UP_TO],
    ],
    ids=lambda steps: "+".join(step["name"] for step in steps),
)  # fmt: skip
def test_chains_of_a_step_without_a_law_have_none(steps):
    assert chain(*steps).law(SIZE) is None


@pytest.mark.parametrize("step", [{"name": "laplace", "epsilon": 1.0}, GAUSSIAN])
def test_noise_of_no_known_scale_has_no_law_until_it_is_bound(step):
    step = {key: value for key, value in step.items() if key != "l2_sensitivity"}
    for mechanism in (create(**step), chain(step, UP_TO)):
        assert mechanism.law(SIZE) is None
        assert mechanism.bind(BOUNDS).law(SIZE) is not None


def test_a_release_comes_with_its_law():
    counts = np.full((1, 1, 4), 2, np.int32)
    small, unknown = build(MECHANISMS, "perturb_small"), chain(build(MECHANISMS, "perturb_small"))
    for mechanism in (create("exact"), chain(LAPLACE, UP_TO), small, unknown):
        rng = np.random.default_rng(0)
        release = publish_release(counts, mechanism, group_size=SIZE, rng=rng)
        expected = mechanism.law_for_attacks(SIZE)
        assert type(release.law) is type(expected)
        assert (expected is None) == (mechanism is unknown)
        if isinstance(expected, OutputDistribution):
            assert (release.law.noise, release.law.revised) == (expected.noise, expected.revised)
    assert small.law(SIZE) is None, "checks and certificates know it in another way"
    assert OutputDistribution().noise == NO_NOISE
