"""Noise on coefficients: its law there, what comes back, and that a user changes no more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from loops import for_each
from mechanisms.published import RARE, enhanced, fits, fourier, publish
from scipy import stats

COUNTS = np.random.default_rng(3).integers(0, 20, (3000, 2, 12)).astype(np.int32)
ENDLESS = 1e12  # ε: the noise is 1e-12


def real_transform(series):
    """Orthonormal, as sums written out: F_k = Σ x_t exp(−2πikt/T)/√T up to k = T/2."""
    n_epochs = series.shape[-1]
    at = np.arange(n_epochs)
    waves = np.exp(-2j * np.pi * np.outer(at, np.arange(n_epochs // 2 + 1)) / n_epochs)
    return series @ waves / np.sqrt(n_epochs)


def cosines(n_epochs):
    """Rows of the orthonormal DCT-II."""
    at = np.arange(n_epochs)
    rows = np.cos(np.pi * np.outer(at, at + 0.5) / n_epochs) * np.sqrt(2 / n_epochs)
    rows[0] /= np.sqrt(2)
    return rows


def low_pass(series, coefficients):
    """Project on the sines and cosines of the first frequencies."""
    n_epochs = series.shape[-1]
    at = np.arange(n_epochs)
    waves = [np.ones(n_epochs)]
    for k in range(1, coefficients):
        waves.append(np.cos(2 * np.pi * k * at / n_epochs))
        if 2 * k < n_epochs:
            waves.append(np.sin(2 * np.pi * k * at / n_epochs))
    basis = np.array([wave / np.linalg.norm(wave) for wave in waves])
    return series @ basis.T @ basis


@for_each(
    ("n_epochs", "kept"), [(12, 1), (12, 4), (12, 6), (12, 7), (11, 5), (11, 6), (2, 2), (1, 1)]
)
def test_law_of_coefficients(n_epochs, kept):
    """κ = T/2 + 1 is the most, for even T and odd ones; 22 tests at .001 each."""
    counts = COUNTS[..., :n_epochs]
    released = publish(fourier(kept), counts)
    noise = real_transform(released) - real_transform(counts.astype(float))
    scale = np.sqrt(kept) * 1.5 / 2.0
    law = stats.laplace(scale=scale).cdf
    real_ones = {0, n_epochs // 2} if n_epochs % 2 == 0 else {0}
    for k in range(kept):
        assert stats.kstest(noise[..., k].real.ravel(), law).pvalue > RARE
        if k in real_ones:
            assert np.abs(noise[..., k].imag).max() < 1e-12
        else:
            assert stats.kstest(noise[..., k].imag.ravel(), law).pvalue > RARE
    assert np.abs(real_transform(released)[..., kept:]).max(initial=0.0) < 1e-12


@pytest.mark.parametrize(("n_epochs", "kept"), [(12, 4), (12, 7), (11, 6)])
def test_coefficients_have_independent_noise(n_epochs, kept):
    counts = COUNTS[..., :n_epochs]
    noise = real_transform(publish(fourier(kept), counts) - counts)[..., :kept]
    noise = noise.reshape(len(counts), -1)
    parts = np.concatenate([noise.real, noise.imag], axis=1)
    parts = parts[:, parts.std(axis=0) > 1e-9]
    assert parts.shape[1] == 2 * (2 * kept - 1 - (kept == 7))  # two ROIs
    correlation = np.corrcoef(parts.T) - np.eye(parts.shape[1])
    assert np.abs(correlation).max() < 4.5 / np.sqrt(len(parts))


@pytest.mark.parametrize(("n_epochs", "kept"), [(12, 1), (12, 4), (12, 7), (11, 6)])
def test_variance_of_each_epoch(n_epochs, kept):
    """A wave carries 2/√T of each part of F_k, the mean and the fastest wave 1/√T, so in every
    epoch the variance is 2b²/T times 1 for k = 0 and T/2, times 4 for each k between."""
    counts = COUNTS[..., :n_epochs]
    fastest = 2 * (kept - 1) == n_epochs
    parts = 1 + 4 * (kept - 1 - fastest) + fastest
    scale = np.sqrt(kept) * 1.5 / 2.0
    noise = publish(fourier(kept), counts) - low_pass(counts.astype(float), kept)
    expected = parts * 2 * scale**2 / n_epochs
    np.testing.assert_allclose(noise.var(axis=(0, 1)), expected, rtol=0.12)  # 4 standard errors


@given(
    counts=hnp.arrays(
        np.int32, st.tuples(*map(st.integers, (1, 1, 1), (3, 3, 13))), elements=st.integers(0, 50)
    ),
    data=st.data(),
)
def test_without_noise_it_is_a_low_pass_filter(counts, data):
    kept = data.draw(st.integers(1, counts.shape[-1] // 2 + 1))
    mechanism = fourier(kept, epsilon=ENDLESS)
    values = publish(mechanism, counts, group_size=50)
    np.testing.assert_allclose(values, low_pass(counts.astype(float), kept), atol=1e-9)
    if kept == counts.shape[-1] // 2 + 1:
        np.testing.assert_allclose(values, counts, atol=1e-9)


@pytest.mark.parametrize("mechanism", [fourier(2, epsilon=ENDLESS), enhanced(epsilon=ENDLESS)])
def test_more_series_than_are_transformed_at_once(mechanism):
    counts = np.random.default_rng(0).integers(0, 9, (5, 11_000, 3)).astype(np.int32)
    np.testing.assert_allclose(publish(mechanism, counts), counts, atol=1e-8)


@given(
    trace=hnp.arrays(np.bool_, st.integers(1, 24)),
    kept=st.floats(0, 1),
)
def test_a_user_changes_coefficients_by_no_more_than_the_noise_allows(trace, kept):
    """The sum of |parts| over κ coefficients is at most √κ times the norm of the series."""
    n_kept = 1 + int(kept * (len(trace) // 2))
    found = real_transform(trace.astype(float))[:n_kept]
    change = np.abs(found.real).sum() + np.abs(found.imag).sum()
    assert change <= np.sqrt(n_kept) * np.sqrt(trace.sum()) + 1e-9


def test_and_one_user_changes_them_by_as_much():
    found = real_transform(np.array([1.0, 1.0, 0.0, 0.0]))[:2]
    change = np.abs(found.real).sum() + np.abs(found.imag).sum()
    assert change == pytest.approx(np.sqrt(2) * np.sqrt(2))


def loss(series, sigma):
    """U(κ) of each κ, as a plain loop."""
    found = cosines(len(series)) @ series
    return np.array(
        [
            np.sqrt(sum(x * x for x in found[kept:])) + np.sqrt(kept) * sigma
            for kept in range(1, len(series) + 1)
        ]
    )


def law_of_kept(series, epsilon, sigma, norm):
    """The exponential mechanism with ε/2, as it is defined."""
    score = np.exp(-(epsilon / 2) * loss(series, sigma) / (2 * norm))
    return score / score.sum()


def n_kept(released):
    found = np.abs(released @ cosines(released.shape[-1]).T) > 1e-10
    return found.shape[-1] - np.argmax(found[..., ::-1], axis=-1)


@for_each("epsilon", [0.05, 1.0, 4.0])
@for_each(
    "series",
    [
        [9, 1, 4, 4, 7, 0],
        [5, 5, 5, 5, 5],
        [0, 0, 0],
        [40, 38, 1, 0, 0, 0, 2, 30, 41, 39, 40],
        [1, 8],
    ],
)
def test_how_many_coefficients_are_kept(series, epsilon):
    mechanism = enhanced(epsilon=epsilon)
    sigma = np.sqrt(2 * np.log(20)) * 1.5 / (epsilon / 2)
    assert mechanism.sigma == pytest.approx(sigma, rel=1e-12)
    counts = np.tile(np.array(series, np.int32), (10_000, 2, 1))
    kept = n_kept(publish(mechanism, counts, group_size=50)).ravel()
    law = law_of_kept(np.array(series, float), epsilon, sigma, 1.5)
    assert fits(np.bincount(kept, minlength=len(series) + 1)[1:], law * kept.size)


def test_kept_cosines_have_normal_noise():
    counts = COUNTS[:, :, :6]
    mechanism = enhanced()
    released = publish(mechanism, counts)
    kept = n_kept(released)
    noise = (released - counts) @ cosines(6).T
    for i in range(6):
        law = stats.norm(scale=mechanism.sigma).cdf
        assert stats.kstest(noise[kept > i][:, i], law).pvalue > RARE
    two = noise[kept > 1]
    assert abs(np.corrcoef(two[:, 0], two[:, 1])[0, 1]) < 4.5 / np.sqrt(len(two))


@given(series=hnp.arrays(np.int32, st.integers(1, 12), elements=st.integers(0, 50)))
def test_without_noise_no_cosine_is_lost(series):
    """At an endless ε whatever is not zero is worth keeping."""
    values = publish(enhanced(epsilon=ENDLESS), series[None, :], group_size=50)
    np.testing.assert_allclose(values[0], series, atol=1e-8)
    found = np.abs(cosines(len(series)) @ series) > 1e-9
    least = 1 + np.flatnonzero(found).max(initial=0)
    assert n_kept(values)[0] >= (least if found.any() else 0)


@given(
    n_epochs=st.integers(1, 10),
    sigma=st.floats(0, 20),
    data=st.data(),
)
def test_a_user_changes_the_loss_by_no_more_than_the_norm(n_epochs, sigma, data):
    series = data.draw(hnp.arrays(np.int32, n_epochs, elements=st.integers(0, 30)))
    trace = data.draw(hnp.arrays(np.bool_, n_epochs))
    change = loss(series + trace.astype(float), sigma) - loss(series.astype(float), sigma)
    assert np.abs(change).max() <= np.sqrt(trace.sum()) + 1e-9
