"""Cubes for the studies: San Francisco cabs, and synthetic presets where data are not public."""

from __future__ import annotations

from clusterscale.cube import Calendar, Grid, TraceCube
from clusterscale.cube.synthetic import open_or_synthesise
from clusterscale.errors import ConfigError, InputError
from clusterscale.papers.study import CABS, PaperStudy
from clusterscale.storage import exists

_GRID = "37.7282,-122.4528,37.8021,-122.3637/10x10"
_START, _HOURS, _ZONE = "2008-05-19T00:00", 504, "America/Los_Angeles"
_SEED = 1


class Cubes:
    """Cubes below a folder, each created when first opened.

    Parameters
    ----------
    folder
        Where the cubes are stored: a local path or fsspec URL that all workers can reach.
    cabs
        The San Francisco cabs: a cube, a Parquet file of fixes (user, timestamp, lat, lon), or the
        folder of the original text files; None if not available.
    """

    def __init__(self, folder: str, cabs: str | None) -> None:
        self._folder, self._cabs = folder.rstrip("/"), cabs

    def has(self, study: PaperStudy) -> bool:
        """Return whether the cube of a study is available."""
        return study.cube != CABS or self._cabs is not None

    def open(self, study: PaperStudy) -> TraceCube:
        """Return the cube of a study.

        Raises
        ------
        ConfigError
            If the study needs the cabs and none are given.
        InputError
            If the cabs are not those of the papers.
        ExistsError
            If another cube is stored at the preset's path.
        """
        if study.cube == CABS:
            return self._open_cabs()
        name = f"{study.cube}-{study.users}" if study.users else study.cube
        uri = f"{self._folder}/{name}.zarr"
        return open_or_synthesise(study.cube, uri, users=study.users, seed=_SEED)

    def _open_cabs(self) -> TraceCube:
        if self._cabs is None:
            raise ConfigError("this study needs the San Francisco cabs: pass `--cabs`")
        if exists(f"{self._cabs.rstrip('/')}/zarr.json"):
            return _checked(TraceCube(self._cabs), self._cabs)
        uri = f"{self._folder}/{CABS}.zarr"
        if not exists(f"{uri}/zarr.json"):
            _ingest(self._cabs, uri)
        return _checked(TraceCube(uri), self._cabs)


def _ingest(source: str, uri: str) -> None:
    """Ingest fixes on a grid of ten by ten cells and hourly epochs, as in NDSS18 §V-A."""
    from clusterscale.ingestion import READERS, IngestOptions, ingest

    ingest(
        source,
        uri,
        IngestOptions(
            reader=READERS.create("events" if source.endswith(".parquet") else "cabspotting"),
            locator=Grid.parse(_GRID),
            calendar=Calendar.parse(_START, "1h", _HOURS, _ZONE),
        ),
    )


def _checked(cube: TraceCube, where: str) -> TraceCube:
    shape = (cube.n_users, cube.n_rois, cube.n_epochs)
    if shape != (534, 100, _HOURS):
        raise InputError(
            f"{where}: the papers have 534 cabs, 100 ROIs and {_HOURS} hours, but this cube has "
            f"{shape[0]:,}, {shape[1]:,} and {shape[2]:,}"
        )
    return cube
