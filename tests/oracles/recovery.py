"""Recovery written down as PETS17 has it, one number at a time."""

import numpy as np
from scipy.spatial.distance import jensenshannon


def freq_roi(observed, n_epochs):
    """Eq. 7."""
    shares = observed.sum(axis=2) / observed.sum(axis=(1, 2))[:, None]
    return np.repeat(shares[:, :, None], n_epochs, axis=2)


def roi_season(observed, n_epochs, cycle):
    """Eqs 8 and 9."""
    n_users, n_rois, past = observed.shape
    prior = np.zeros((n_users, n_rois, n_epochs))
    for u in range(n_users):
        for t in range(n_epochs):
            seen = observed[u][:, (past + t) % cycle :: cycle]
            prior[u, :, t] = seen.sum(axis=1) / seen.sum()
    return prior


def time_season(observed, n_epochs, cycle):
    """Eqs 10 and 11: real ROIs are reported, and who reports none is in the null ROI."""
    n_users, n_rois, past = observed.shape
    prior = np.zeros((n_users, n_rois, n_epochs))
    for u in range(n_users):
        for t in range(n_epochs):
            if observed[u, :-1, (past + t) % cycle :: cycle].any():
                prior[u, :-1, t] = 1 / (n_rois - 1)
            else:
                prior[u, -1, t] = 1
    return prior


def bayes(prior, aggregate):
    """Algorithm 3.1."""
    posterior = np.zeros_like(prior)
    for u in range(prior.shape[0]):
        for t in range(prior.shape[2]):
            product = prior[u, :, t] * aggregate[:, t]
            if product.sum() > 0:
                posterior[u, :, t] = product / product.sum()
    return posterior


def max_roi(prior, aggregate, activity):
    """Algorithm 3.2; ties by activity, then by index; the null ROI is for the others."""
    located = np.zeros(prior.shape, bool)
    for t in range(prior.shape[2]):
        for s in range(prior.shape[1] - 1):
            users = sorted(range(len(prior)), key=lambda u: (-prior[u, s, t], -activity[u], u))
            located[users[: int(aggregate[s, t])], s, t] = True
    return _rest(located)


def max_user(prior, aggregate, activity):
    """Algorithm 3.3; users by activity, then by index; the null ROI is for the others."""
    located = np.zeros(prior.shape, bool)
    for t in range(prior.shape[2]):
        for u in sorted(range(len(prior)), key=lambda u: (-activity[u], u)):
            for s in np.flatnonzero(prior[u, :-1, t] > 0):
                if located[:, s, t].sum() < aggregate[s, t]:
                    located[u, s, t] = True
            if located[:, :-1, t].sum() == aggregate[:-1, t].sum():
                break
    return _rest(located)


def _rest(located):
    located[:, -1] = ~located[:, :-1].any(axis=1)
    return located


def profiling_error(truth, estimate, base):
    """Eq. 4 by SciPy's distance; 1 where a profile is empty."""
    errors = np.ones((len(truth), truth.shape[2]))
    for u in range(len(truth)):
        for t in range(truth.shape[2]):
            true, told = truth[u, :, t].astype(float), estimate[u, :, t]
            if true.sum() > 0 and told.sum() > 0:
                errors[u, t] = jensenshannon(true, told, base=base)
    return errors.mean(axis=1)


def localization_error(truth, told):
    """Eq. 5 by scikit-learn's F1."""
    from sklearn.metrics import f1_score

    pairs = zip(truth.reshape(len(truth), -1), told.reshape(len(told), -1), strict=True)
    return np.array([1 - f1_score(true, each, zero_division=1) for true, each in pairs])
