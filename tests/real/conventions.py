"""What the papers' figures seem to have been made with, where it is not what their texts state.

None of this is in the package. Each was found by trying: it gives the published rows where the
stated definition does not, which is measured beside them.
"""

import numpy as np

from clusterscale.contracts import Values

__all__ = ["error_by_hour", "halved_fourier", "middles", "random_ties"]

N_HOTSPOTS = 10


def halved_fourier(
    counts: Values, scale: float, *, coefficients: int, most: int, rng: np.random.Generator
) -> Values:
    """Perturb as FPA does when written with ``numpy.fft.fft`` and ``ifft`` as they come.

    ``fft`` is not orthonormal: its coefficients are √T times as large, so noise of the stated scale
    is √T (13 for a week) times too small for the stated ε. And only the first κ of T complex
    coefficients are kept, without their mirror images: of every wave the real part of the inverse
    has half, of the noise too.
    """
    found = np.fft.fft(counts, axis=-1)
    noise = rng.laplace(0.0, scale, (2, *counts.shape[:-1], coefficients))
    found[..., :coefficients] += noise[0] + 1j * noise[1]
    found[..., coefficients:] = 0.0
    return np.rint(np.clip(np.fft.ifft(found, axis=-1).real, 0, most))


def error_by_hour(raw: Values, released: Values, floor: float = 0.001) -> float:
    """Return the mean relative error with a floor of ``floor`` of each hour's sum over the ROIs.

    The text's 0.1 %, with its sum over the values of one hour and not of one ROI.
    """
    visited = raw.any(axis=1)
    raw, released = raw[visited], released[visited]
    least = floor * raw.sum(axis=0)
    return float((np.abs(released - raw) / np.maximum(least, raw)).mean())


def random_ties(raw: Values, released: Values, rng: np.random.Generator) -> tuple[float, float]:
    """Return F1 and the listwise τ with the least values of the release in random order.

    Other ties go by index, and so do all in the raw counts: as if what is suppressed, or in the
    lowest range, were not listed, and a list that is too short filled up by chance.
    """
    least = released == released.min(axis=0)
    order = np.where(least, rng.random(released.shape), 0.0)
    first = np.argsort(-raw, axis=0, kind="stable")[:N_HOTSPOTS].T
    second = np.lexsort((order, -released), axis=0)[:N_HOTSPOTS].T
    f1 = (first[:, :, None] == second[:, None, :]).any(axis=2).mean()
    signs = [np.sign(ids[:, :, None] - ids[:, None, :]) for ids in (first, second)]
    tau = (signs[0] * signs[1]).sum(axis=(1, 2)).mean() / (N_HOTSPOTS * (N_HOTSPOTS - 1))
    return float(f1), float(tau)


def middles(counts: Values, ranges: int) -> Values:
    """Put the middle of its sub-range, rounded down, in place of each count but a series' maximum.

    Sub-ranges are half open, so the maximum lies in none and stays as it is.
    """
    low, high = counts.min(axis=-1, keepdims=True), counts.max(axis=-1, keepdims=True)
    width = np.maximum(high - low, 1) / ranges
    middle = low + width * (np.floor((counts - low) / width) + 0.5)
    return np.where(counts == high, counts, np.floor(middle))
