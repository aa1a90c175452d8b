"""No release tells more than its mechanism promises, and one that does is caught.

Two neighbouring matrices of counts, which differ in one unit as much as they may, are published
many times each; the best test that is known says which of the two it was, and a lower bound on ε is
taken from its successes. Each bound is above the true ε in at most one of a thousand seeds, and
here the seeds are fixed.
"""

import numpy as np
import pytest
from cube import crowd
from loops import for_each
from mechanisms.distinguish import SIZE, add, laplace_ratio, measured, normal_ratio
from scipy import fft, stats

from clusterscale import mechanisms
from clusterscale.contracts import CellCoordinates, Stability
from clusterscale.cube import measure_bounds, with_null_roi

BASE = np.random.default_rng(4).integers(3, 30, (3, 4)).astype(np.int32)
DAY = [(0, 0), (1, 0), (1, 1)]
USER = [*DAY, (2, 2), (0, 3)]


@for_each("discrete", [False, True])
@for_each("epsilon", [0.5, 1.0, 2.0])
@for_each(
    ("unit", "cells", "share"),
    [("event", DAY[:1], 0.6), ("user_day", DAY, 0.35), ("user", USER, 0.2)],
)
def test_laplace(unit, cells, share, epsilon, discrete):
    """Most of the promise is seen where one count changes; less where noise is on several, for
    all of it is told only when every count says the same."""
    inside = add(BASE, cells)
    mechanism = mechanisms.create(
        "laplace", epsilon=epsilon, sensitivity=float(len(cells)), unit=unit, discrete=discrete
    )
    score = laplace_ratio(BASE, inside, mechanism.scale)
    found = measured(mechanism, BASE, inside, score)
    assert share * epsilon <= found <= mechanism.guarantee.epsilon
    swapped = measured(mechanism, inside, BASE, score, seed=1)
    assert swapped <= mechanism.guarantee.epsilon


def rounded_law(count, scale):
    """Law of a clipped and rounded noisy count, over 0 … m; each tail from its own end."""
    half = np.arange(SIZE) + 0.5
    law = stats.laplace(count, scale)
    lower, upper = np.append(law.cdf(half), 1.0), np.append(1.0, law.sf(half))
    from_below, from_above = np.diff(lower, prepend=0.0), -np.diff(upper, append=0.0)
    return np.where(np.arange(SIZE + 1) <= count, from_below, from_above)


@pytest.mark.parametrize("count", [0, 1, 20, SIZE - 1])
def test_laplace_clipped_and_rounded(count):
    mechanism = mechanisms.create(
        "laplace", epsilon=1.0, sensitivity=1.0, unit="event", clip=True, integers="round"
    )
    outside, inside = np.full((1, 1), count), np.full((1, 1), count + 1)
    ratio = np.log(rounded_law(count + 1, 1.0) / rounded_law(count, 1.0))
    assert np.abs(ratio).max() <= 1 + 1e-9

    def score(values):
        return ratio[values[:, 0, 0].astype(int)]

    found = measured(mechanism, outside, inside, score)
    assert 0.4 <= found <= mechanism.guarantee.epsilon


@pytest.mark.parametrize(("epsilon", "least"), [(1.0, 0.0), (3.0, 0.9), (10.0, 4.0)])
def test_gaussian(epsilon, least):
    """At ε = 10, δ = .1 the truth is 12.7, and that is what is stated."""
    mechanism = mechanisms.create(
        "gaussian", epsilon=epsilon, delta=0.1, l2_sensitivity=np.sqrt(len(USER))
    )
    inside = add(BASE, USER)
    guarantee = mechanism.guarantee
    assert epsilon < 10 or guarantee.epsilon == pytest.approx(12.72, abs=0.01)
    found = measured(
        mechanism, BASE, inside, normal_ratio(BASE, inside), n=20_000, delta=guarantee.delta
    )
    assert least <= found <= guarantee.epsilon


def test_gaussian_with_less_delta_than_it_has():
    """The same noise is not (1, 10⁻⁶)-private, and that is seen."""
    mechanism = mechanisms.create("gaussian", epsilon=1.5, delta=0.5, l2_sensitivity=1.0)
    inside = add(BASE, DAY[:1])
    score = normal_ratio(BASE, inside)
    assert measured(mechanism, BASE, inside, score, n=20_000, delta=1e-6) > 1.5
    assert measured(mechanism, BASE, inside, score, n=20_000, delta=0.5) <= 1.5


@for_each(
    ("kept", "trace"),
    [
        (1, [1, 1, 1, 1]),  # all of the change is in the mean
        (2, [1, 1, 0, 0]),  # these two reach the bound of Cauchy and Schwarz
        (3, [1, 0, 0, 0]),
        (3, [0, 1, 1, 0, 1]),
    ],
)
@for_each("epsilon", [1.0, 2.0])
def test_fourier(kept, trace, epsilon):
    """Laplace noise of one scale on the parts of the coefficients."""
    outside = np.random.default_rng(kept).integers(0, 30, (1, len(trace)))
    inside = outside + trace
    mechanism = mechanisms.create(
        "fourier",
        epsilon=epsilon,
        coefficients=kept,
        l2_sensitivity=float(np.linalg.norm(trace)),
    )

    def parts(values):
        found = fft.rfft(np.asarray(values, float), norm="ortho")[..., :kept]
        return np.concatenate([found.real, found.imag], axis=-1)

    ratio = laplace_ratio(parts(outside), parts(inside), mechanism.scale)
    found = measured(mechanism, outside, inside, lambda values: ratio(parts(values)))
    assert 0.4 * epsilon <= found <= mechanism.guarantee.epsilon


@pytest.mark.parametrize("epsilon", [2.0, 8.0])
@pytest.mark.parametrize("series", [[9, 1, 4], [0, 0, 0, 0]])
def test_enhanced_fourier(epsilon, series):
    """The number of cosines that are kept tells, and so does the noise on them."""
    outside = np.array([series])
    inside = outside + 1
    mechanism = mechanisms.create(
        "enhanced_fourier", epsilon=epsilon, delta=0.01, l2_sensitivity=np.sqrt(len(series))
    )
    sigma, n_epochs = mechanism.sigma, len(series)

    def law_of_kept(counts):
        found = fft.dct(counts[0].astype(float), norm="ortho")
        kept = np.arange(1, n_epochs + 1)
        lost = np.sqrt([(found[k:] ** 2).sum() for k in kept]) + np.sqrt(kept) * sigma
        weight = np.exp(-epsilon / 4 * lost / np.sqrt(n_epochs))
        return weight / weight.sum()

    choice = np.log(law_of_kept(inside) / law_of_kept(outside))
    mean = [fft.dct(counts[0].astype(float), norm="ortho") for counts in (outside, inside)]

    def score(values):
        found = fft.dct(values[:, 0], norm="ortho", axis=-1)
        there = np.abs(found) > 1e-9
        kept = n_epochs - np.argmax(there[:, ::-1], axis=1)
        nearer = (found - mean[0]) ** 2 - (found - mean[1]) ** 2
        shown = np.arange(n_epochs) < kept[:, None]
        return choice[kept - 1] + (nearer * shown).sum(axis=1) / (2 * sigma**2)

    guarantee = mechanism.guarantee
    found = measured(mechanism, outside, inside, score, delta=guarantee.delta)
    assert 0.08 * epsilon <= found <= guarantee.epsilon


def chain(*steps):
    return mechanisms.create("chain", steps=list(steps))


EVENT = {"name": "laplace", "epsilon": 1.0, "sensitivity": 1.0, "unit": "event"}


def test_laplace_and_suppression():
    """What is suppressed has one likelihood, what is published that of its noise."""
    mechanism = chain(EVENT, {"name": "suppress_small", "up_to": 4})
    outside, inside = np.array([[4]]), np.array([[5]])
    hidden = np.log(stats.laplace(5).cdf(4) / stats.laplace(4).cdf(4))
    ratio = laplace_ratio(outside, inside, 1.0)

    def score(values):
        return np.where(values[:, 0, 0] == 0, hidden, ratio(values))

    found = measured(mechanism, outside, inside, score)
    assert 0.7 <= found <= mechanism.guarantee.epsilon == 1.0


@pytest.mark.parametrize(("epsilon", "remove"), [(1.0, 0.3), (2.0, 0.5), (4.0, 0.9)])
def test_sampling_and_laplace(epsilon, remove):
    """One event, counted with a chance: the promise is less than that of the noise alone."""
    mechanism = chain({"name": "sample_events", "remove": remove}, EVENT | {"epsilon": epsilon})
    outside, inside = np.array([[0]]), np.array([[1]])
    ratio = laplace_ratio(outside, inside, 1 / epsilon)
    found = measured(mechanism, outside, inside, ratio, n=20_000)
    promised = mechanism.guarantee.epsilon
    assert promised < epsilon
    assert 0.7 * promised <= found <= promised
    louder = mechanisms.create(**EVENT | {"epsilon": epsilon})
    assert measured(louder, outside, inside, ratio, n=20_000) > promised


@pytest.mark.parametrize("null_roi", [False, True])
def test_cap_and_laplace(null_roi):
    """One user's day in eleven cells; two of them are counted, and the noise is scaled to two."""
    dense = crowd.draw(20, 4, 6, share=0.2, seed=3)
    dense[0, :, :3] = True
    dense[0, 3, 2] = False
    days = np.array([8, 8, 8, 9, 9, 9])
    free = chain(
        {"name": "cap_contributions", "per_day": 2},
        {"name": "laplace", "epsilon": 1.5, "unit": "user_day"},
    )
    (step,) = free.trace_steps
    frame = CellCoordinates(days, np.zeros(4), np.zeros(4))
    without = dense.copy()
    without[0, :, :3] = False
    before, after = (
        step.apply(crowd.traces(each), frame, rng=np.random.default_rng(6))[0]
        for each in (dense, without)
    )
    if null_roi:
        before, after = with_null_roi(before), with_null_roi(after)
    stability = step.stability(Stability(), frame)
    mechanism = free.bind(stability.limit(measure_bounds(before, days)))
    assert mechanism.guarantee.sensitivity == 2.0 * (1 + null_roi)
    others = crowd.densify(before)[1:].sum(axis=0)
    inside, outside = (others + crowd.densify(each)[0] for each in (before, after))
    assert np.abs(inside - outside).sum() <= mechanism.guarantee.sensitivity
    score = laplace_ratio(outside, inside, mechanism.steps[1].scale)
    found = measured(mechanism, outside, inside, score)
    assert 0.4 * 1.5 <= found <= mechanism.guarantee.epsilon


@for_each("null_roi", [False, True])
@for_each("unit", ["event", "user_day", "user"])
@for_each("discrete", [False, True])
def test_sensitivity_of_a_cube_covers_its_worst_unit(unit, null_roi, discrete):
    """Each unit of the cube is left out; the one that changes most is looked for."""
    dense = crowd.draw(6, 2, 3, share=0.4, seed=8)
    days = np.array([0, 0, 1])

    def count(dense):
        nowhere = (~dense.any(axis=1)).sum(axis=0)
        return np.vstack([dense.sum(axis=0), nowhere]) if null_roi else dense.sum(axis=0)

    neighbours = []
    for user in range(6):
        if unit == "user":
            neighbours.append(count(np.delete(dense, user, axis=0)))
            continue
        found = np.argwhere(dense[user]) if unit == "event" else np.unique(days)
        for part in found:
            other = dense.copy()
            other[user][tuple(part) if unit == "event" else (slice(None), days == part)] = False
            neighbours.append(count(other))
    inside = count(dense)
    outside = max(neighbours, key=lambda other: np.abs(inside - other).sum())
    traces = crowd.traces(dense)
    bounds = measure_bounds(with_null_roi(traces) if null_roi else traces, days)
    mechanism = mechanisms.create("laplace", epsilon=1.0, unit=unit, discrete=discrete).bind(bounds)
    assert np.abs(inside - outside).sum() == mechanism.sensitivity
    score = laplace_ratio(outside, inside, mechanism.scale)
    found = measured(mechanism, outside, inside, score)
    assert 0.1 <= found <= mechanism.guarantee.epsilon


@pytest.mark.parametrize("p", [0.2, 0.7])
def test_randomized_response(p):
    """A yes where there was none: all that is told is δ."""
    mechanism = mechanisms.create("randomized_response", p=p)
    outside, inside = np.array([[SIZE - 1]]), np.array([[SIZE]])
    guarantee = mechanism.guarantee

    def score(values):
        return values[:, 0, 0]

    found = measured(mechanism, outside, inside, score, delta=guarantee.delta)
    assert found <= guarantee.epsilon == 0.0
    assert measured(mechanism, outside, inside, score, delta=0.8 * guarantee.delta) > 0.0
