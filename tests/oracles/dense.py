"""Dense arrays and the compressed traces that say the same."""

import numpy as np

from clusterscale.contracts import Traces


def traces_of(dense):
    """Return the traces in a boolean array of shape (user, roi, epoch)."""
    flat = dense.reshape(len(dense), -1)
    offsets = np.concatenate([[0], np.cumsum(flat.sum(axis=1))]).astype(np.int64)
    return Traces(offsets, np.nonzero(flat)[1].astype(np.int32), *dense.shape[1:])
