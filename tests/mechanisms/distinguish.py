"""Two neighbouring matrices, published many times, and the ε that is seen of it."""

import numpy as np

from clusterscale.metrics import epsilon_lower_bound

CONFIDENCE = 0.999
SIZE = 40  # members of each group


def release(mechanism, counts, n, seed):
    """Publish one matrix n times, as one batch."""
    batch = np.broadcast_to(np.asarray(counts, np.int32), (n, *np.shape(counts)))
    return mechanism.release(batch, group_size=SIZE, rng=np.random.default_rng(seed))


def measured(mechanism, outside, inside, score, *, n=10_000, delta=0.0, seed=0):
    """Return the ε that is seen, n releases of each matrix."""
    released = [
        release(mechanism, counts, n, (seed, side)) for side, counts in enumerate((outside, inside))
    ]
    labels = np.repeat([False, True], n)
    scores = np.concatenate([score(values) for values in released])
    return epsilon_lower_bound(labels, scores, delta=delta, confidence=CONFIDENCE)


def laplace_ratio(outside, inside, scale):
    """Log-likelihood ratio under independent Laplace noise, the same for geometric noise."""

    def score(values):
        nearer = np.abs(values - outside) - np.abs(values - inside)
        # To nine digits: the last bits of a float tell more, see test_broken.
        return np.round(nearer.reshape(len(values), -1).sum(axis=1) / scale, 9)

    return score


def normal_ratio(outside, inside):
    """What it grows with under normal noise: the projection on the difference."""
    change = (np.asarray(inside, float) - outside).ravel()
    return lambda values: values.reshape(len(values), -1) @ change


def add(counts, cells):
    """Return counts with one visit more in each of the cells (roi, epoch)."""
    more = np.array(counts)
    for cell in cells:
        more[cell] += 1
    return more
