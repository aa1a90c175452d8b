"""Small crowds as dense arrays, and as the package holds them."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from clusterscale.contracts import Traces


def traces_of(dense, **more):
    n_users, n_rois, n_epochs = dense.shape
    user, cell = np.nonzero(dense.reshape(n_users, -1))
    offsets = np.searchsorted(user, np.arange(n_users + 1)).astype(np.int64)
    return Traces(offsets, cell.astype(np.int32), n_rois, n_epochs, **more)


def crowds(most_users=7):
    """Few users, ROIs and epochs, so that many share a set; some never seen."""
    shapes = st.tuples(st.integers(1, most_users), st.integers(1, 4), st.integers(1, 9))
    return shapes.flatmap(lambda shape: nps.arrays(np.bool_, shape))


def days_for(n_epochs):
    """Days of epochs, some epochs a day, from any day of the week."""
    starts, each = st.integers(730_000, 730_006), st.integers(1, 4)
    return st.builds(lambda start, k: start + np.arange(n_epochs) // k, starts, each)
