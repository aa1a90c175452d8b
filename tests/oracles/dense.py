"""Dense arrays and the compressed traces that say the same, in made-up places."""

import numpy as np

from clusterscale.contracts import CellCoordinates, Traces


def traces_of(dense):
    """Return the traces in a boolean array of shape (user, roi, epoch)."""
    flat = dense.reshape(len(dense), -1)
    offsets = np.concatenate([[0], np.cumsum(flat.sum(axis=1))]).astype(np.int64)
    return Traces(offsets, np.nonzero(flat)[1].astype(np.int32), *dense.shape[1:])


def frame_of(traces):
    """Return a frame of one day whose ROIs, but for the null ROI, are scattered over a degree."""
    n_seen = traces.n_rois - traces.null_roi
    lat, lon = np.random.default_rng(n_seen).random((2, n_seen))
    return CellCoordinates(np.zeros(traces.n_epochs, np.int64), 50 + lat, lon)
