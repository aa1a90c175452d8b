"""What the papers count of a crowd, user by user, in plain NumPy (NDSS18 §V-A)."""

import numpy as np

WEEK = 168


class Crowd:
    """Events, unique ROIs and active epochs of each user, shape (user,)."""

    def __init__(self, traces):
        self.n_users, self.n_rois, self.n_epochs = traces.n_users, traces.n_rois, traces.n_epochs
        self.events = np.diff(traces.offsets)
        self.user = np.repeat(np.arange(self.n_users), self.events)
        self.roi, self.epoch = np.divmod(traces.cells, self.n_epochs)
        self.unique_rois = self._distinct(self.roi, self.n_rois)
        self.active_epochs = self._distinct(self.epoch, self.n_epochs)

    def _distinct(self, values, n_values, where=slice(None)):
        pairs = np.unique(self.user[where] * n_values + values[where])
        return np.bincount(pairs // n_values, minlength=self.n_users)

    @property
    def total_with_null(self):
        """Events and, for the null ROI, idle epochs."""
        return self.events + self.n_epochs - self.active_epochs

    def week_with_null(self, week):
        """The same within one week."""
        inside = self.epoch // WEEK == week
        events = np.bincount(self.user[inside], minlength=self.n_users)
        return events + WEEK - self._distinct(self.epoch, self.n_epochs, inside)


def dense(traces, users):
    """Yield the first users' traces as booleans of shape (roi, epoch)."""
    for user in range(users):
        trace = np.zeros(traces.n_rois * traces.n_epochs, bool)
        trace[traces.trace(user)] = True
        yield trace.reshape(traces.n_rois, traces.n_epochs)
