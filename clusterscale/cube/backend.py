"""The xarray engine ``clusterscale``: a cube as a lazy boolean array, decoded block by block.

>>> import xarray as xr
>>> import clusterscale as cs
>>> cube = cs.synthesise("tfl", getfixture("tmp_path") / "cube", users=20, seed=1)
>>> dataset = xr.open_dataset(cube.uri, engine="clusterscale")
>>> dataset.trace.dims, dataset.trace.dtype
(('user', 'roi', 'epoch'), dtype('bool'))
>>> int(dataset.trace.sum()) == cube.n_events
True
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from clusterscale.contracts import Ints
from clusterscale.cube.store import TraceCube
from clusterscale.cube.transforms import with_null_roi
from clusterscale.schema import CUBE_FORMAT

_BLOCK_BYTES = 64 << 20  # of a decoded block of users


class CubeBackend(BackendEntrypoint):
    """Opens event cubes: ``xr.open_dataset(uri, engine="clusterscale", chunks={})``."""

    description = "Event cubes of clusterscale as boolean trace(user, roi, epoch)"

    def open_dataset(  # type: ignore[override]
        self,
        filename_or_obj: str | Path,
        *,
        drop_variables: str | Iterable[str] | None = None,
        null_roi: bool = False,
    ) -> xr.Dataset:
        """Return the cube as a dataset with ``trace`` and its coordinates.

        With ``null_roi`` the last ROI is the null ROI, True in the epochs in which a user
        is in no other one. Raises the errors of :class:`~clusterscale.cube.TraceCube`.
        """
        cube = TraceCube(str(filename_or_obj))
        array = _TraceArray(cube, null_roi)
        chunks = {"user": _block_size(array.shape), "roi": array.shape[1], "epoch": array.shape[2]}
        trace = xr.Variable(
            ("user", "roi", "epoch"),
            indexing.LazilyIndexedArray(array),
            {"long_name": "user was observed in ROI during epoch"},
            {"preferred_chunks": chunks},
        )
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        dataset = xr.Dataset({"trace": trace}, _coordinates(cube, null_roi))
        dataset.attrs = {
            "fingerprint": cube.fingerprint,
            "timezone": cube.calendar.timezone,
            "epoch_seconds": cube.calendar.step,
        }
        return dataset.drop_vars(dropped & set(dataset.variables))

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether that is a local event cube."""
        try:
            text = (Path(filename_or_obj) / "zarr.json").read_text()
        except (OSError, TypeError, ValueError):
            return False
        return f'"{CUBE_FORMAT}"' in text


class _TraceArray(BackendArray):
    """``trace`` read through the event store."""

    def __init__(self, cube: TraceCube, null_roi: bool) -> None:
        self._cube, self._null_roi = cube, null_roi
        self.shape = (cube.n_users, cube.n_rois + null_roi, cube.n_epochs)
        self.dtype = np.dtype(np.bool_)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        if not isinstance(key, indexing.VectorizedIndexer):  # no need to split the key
            return self._decode(key.tuple)
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER, self._decode
        )

    def _decode(self, key: tuple[Any, ...]) -> NDArray[np.bool_]:
        """Index each dimension separately: integers, slices of any step, arrays."""
        users = np.atleast_1d(np.arange(self.shape[0])[key[0]])
        cells = np.broadcast_to(np.False_, self.shape[1:])[:, key[2]][key[1]]
        values = np.empty((len(users), *cells.shape), np.bool_)
        step = _block_size(self.shape)
        for first in range(0, len(users), step):
            block = self._dense(users[first : first + step])
            values[first : first + step] = block[:, :, key[2]][:, key[1]]
        return values[0] if np.ndim(key[0]) == 0 and not isinstance(key[0], slice) else values

    def _dense(self, users: Ints) -> NDArray[np.bool_]:
        traces = self._cube.traces(users)
        flat = np.zeros((len(users), self.shape[1] * self.shape[2]), np.bool_)
        flat[np.repeat(np.arange(len(users)), np.diff(traces.offsets)), traces.cells] = True
        dense = flat.reshape(len(users), *self.shape[1:])
        if self._null_roi:
            dense[:, -1] = with_null_roi(traces).idle
        return dense


def _block_size(shape: tuple[int, int, int]) -> int:
    return max(1, _BLOCK_BYTES // (shape[1] * shape[2]))


def _coordinates(cube: TraceCube, null_roi: bool) -> dict[str, Any]:
    regions = cube.regions.with_null() if null_roi else cube.regions
    begins = cube.calendar.seconds().astype("datetime64[s]").astype("datetime64[ns]")
    weights = cube.weights
    named = {"long_name": "people for whom the user counts"}
    weighed = {} if weights is None else {"weight": ("user", weights, named)}
    return weighed | {
        "user": ("user", cube.user_ids().astype(object), {"long_name": "user id"}),
        "roi": ("roi", np.array(regions.names, dtype=object), {"long_name": "region of interest"}),
        "roi_lat": ("roi", regions.lat, {"units": "degrees_north"}),
        "roi_lon": ("roi", regions.lon, {"units": "degrees_east"}),
        "epoch": ("epoch", begins, {"long_name": "beginning of the epoch, UTC"}),
    }
