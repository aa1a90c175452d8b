"""POMACS20 §3 by loops over dense arrays, slow and plain."""

from collections import Counter
from datetime import date
from math import log2

import numpy as np


def entropy(counts):
    shares = [count / sum(counts) for count in counts if count]
    return -sum(share * log2(share) for share in shares)


def unicity(dense):
    """Share of epochs in which a user's ROIs are those of nobody else, dense (user, roi, epoch)."""
    n_users, _, n_epochs = dense.shape
    found = np.zeros(n_users)
    for epoch in range(n_epochs):
        sets = [frozenset(np.flatnonzero(dense[user, :, epoch])) for user in range(n_users)]
        holders = Counter(sets)
        for user, own in enumerate(sets):
            found[user] += bool(own) and holders[own] == 1
    return found / n_epochs


def characteristics(dense, days):
    """All of them, shape (user, 11), in the order of the package."""
    weekend = np.array([date.fromordinal(int(day)).weekday() >= 5 for day in days])
    n_week, n_free = len({*days[~weekend]}), len({*days[weekend]})
    rows = []
    for seen in dense:
        active = seen.any(axis=0)
        if not active.any():
            rows.append([0.0] * 10)
            continue
        week, free = seen[:, ~weekend], seen[:, weekend]
        rows.append(
            [
                seen.sum(),
                seen.any(axis=1).sum(),
                active.sum(),
                seen.sum() / active.sum(),
                week.sum() / n_week if n_week else 0,
                free.sum() / n_free if n_free else 0,
                week.any(axis=0).sum() / n_week if n_week else 0,
                free.any(axis=0).sum() / n_free if n_free else 0,
                entropy(seen.sum(axis=1)),
                entropy(seen.sum(axis=0)),
            ]
        )
    return np.column_stack([np.array(rows, float).reshape(len(dense), 10), unicity(dense)])


def loading(rows, labels, components):
    """Mean absolute correlation of the decisive principal components with each column."""
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression

    model = PCA(svd_solver="full").fit(rows)
    real = model.explained_variance_ > 1e-9 * model.explained_variance_[0]
    scores = model.transform(rows)[:, real]
    fitted = LogisticRegression(solver="liblinear", tol=1e-8, max_iter=10_000).fit(scores, labels)
    chosen = np.argsort(-np.abs(fitted.coef_[0]), kind="stable")[:components]
    found = np.zeros(rows.shape[1])
    for column in range(rows.shape[1]):
        if np.ptp(rows[:, column]) > 0:
            pairs = (np.corrcoef(scores[:, each], rows[:, column])[0, 1] for each in chosen)
            found[column] = np.mean(np.abs(list(pairs)))
    return found
