"""Errors of PETS17's priors alone, computed straight from the definitions, one user at a time.

Pyrgelis, Troncoso, De Cristofaro: What Does The Crowd Say About You? Sections 3.1 and 3.2; of
section 5, the tables of mean relative errors on the San Francisco cabs.
Traces are dense booleans of shape (roi, epoch); the null ROI is among the ROIs, so that every
epoch has at least one.
"""

import numpy as np

WEEK = 168

EPSILONS = (0.001, 0.01, 0.1, 1.0)

TABLE_4 = {  # by ε
    "Lap(S·T'/ε)": (26.8, 26.3, 26.2, 26.2),
    "Lap(Δ/ε)": (26.9, 26.5, 25.9, 24.3),
    "Lap(T'/ε)": (26.1, 25.9, 22.4, 8.3),
    "FPA": (24.1, 8.8, 1.1, 0.3),
    "Lap(1/ε)": (19.9, 5.1, 0.6, 0.1),
}

TABLE_5 = {0.1: 0.4, 0.3: 0.7, 0.5: 1.1, 0.7: 1.6, 0.9: 2.9}  # SpotMe, by p


def add_null_roi(trace):
    """Add a last ROI that holds the epochs in which the user reports nothing."""
    return np.vstack([trace, ~trace.any(axis=0)])


def columns(matrix):
    """Scale each column to add up to one; a column of zeros stays."""
    total = matrix.sum(axis=0, dtype=float)
    return np.divide(matrix, total, out=np.zeros(matrix.shape), where=total > 0)


def freq_roi(trace, start, stop):
    """Equation 7: the shares of the ROIs before ``start``, the same in every epoch."""
    visits = trace[:, :start].sum(axis=1)
    return np.tile((visits / visits.sum())[:, None], stop - start)


def roi_day_week(trace, start, stop):
    """Equations 8 and 9 with a season of one week."""
    season = np.zeros((len(trace), WEEK))
    for epoch in range(start):
        season[:, epoch % WEEK] += trace[:, epoch]
    return columns(season)[:, np.arange(start, stop) % WEEK]


def last(trace, start, stop, lag):
    """Equation 14: what was true ``lag`` epochs ago."""
    return trace[:, start - lag : stop - lag]


def jensen_shannon_distance(p, q):
    """Root of the Jensen–Shannon divergence in nats, column by column; 1 where one is empty."""
    middle = (p + q) / 2
    divergence = (_relative_entropy(p, middle) + _relative_entropy(q, middle)) / 2
    empty = (p.sum(axis=0) == 0) | (q.sum(axis=0) == 0)
    return np.where(empty, 1.0, np.sqrt(np.maximum(divergence, 0.0)))


def _relative_entropy(p, q):
    ratio = np.divide(p, q, out=np.ones(p.shape), where=p > 0)
    return (p * np.log(ratio)).sum(axis=0)


def profiling_error(trace, prior, start, stop):
    """Equation 4 for one user."""
    return jensen_shannon_distance(columns(trace[:, start:stop]), prior).mean()


def localization_error(trace, guess, start, stop):
    """Equation 5 for one user: 1 − F1 over all cells."""
    truth = trace[:, start:stop]
    return 1.0 - 2.0 * (truth & guess).sum() / (truth.sum() + guess.sum())


def prior_errors(traces, start, stop):
    """Return the mean over users of the five errors that PETS17 reports of the priors alone.

    ``traces`` yields boolean arrays of shape (roi, epoch) without the null ROI; epochs before
    ``start`` are observed, those from ``start`` to ``stop`` are inferred.
    """
    errors = {"FREQ_ROI": [], "ROI_DAY_WEEK": [], "LAST_WEEK": [], "LAST_DAY": [], "LAST_HOUR": []}
    for bare in traces:
        trace = add_null_roi(bare)
        for name, prior in (("FREQ_ROI", freq_roi), ("ROI_DAY_WEEK", roi_day_week)):
            estimate = prior(trace, start, stop)
            errors[name].append(profiling_error(trace, estimate, start, stop))
        for name, lag in (("LAST_WEEK", WEEK), ("LAST_DAY", 24), ("LAST_HOUR", 1)):
            guess = last(trace, start, stop, lag)
            errors[name].append(localization_error(trace, guess, start, stop))
    return {name: float(np.mean(values)) for name, values in errors.items()}
