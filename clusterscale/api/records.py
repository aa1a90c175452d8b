"""Convert records to a cube, and summarise a cube."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clusterscale.api.arrays import make
from clusterscale.api.execution import show_progress
from clusterscale.cube import Calendar, Locator, TraceCube
from clusterscale.cube.describe import CubeSummary, summarise
from clusterscale.ingestion import READERS, IngestOptions, IngestReport, Reader
from clusterscale.ingestion import ingest as write_cube
from clusterscale.storage import check_outputs
from clusterscale.study import Progress, Tell


def ingest(
    source: str | Path,
    output: str | Path,
    *,
    start: str,
    epochs: int,
    epoch: str = "1h",
    timezone: str = "UTC",
    reader: str | Mapping[str, Any] | Reader = "events",
    regions: Locator | None = None,
    pseudonymise: bytes | None = None,
    top_users: int | None = None,
    min_events: int = 1,
    weights: str | Path | None = None,
    force: bool = False,
    progress: bool | Tell = True,
) -> TraceCube:
    """Convert location records to a cube.

    Parameters
    ----------
    source
        File, folder or pattern such as ``records/2026-*.csv``: a local path or fsspec URL.
    output
        Where to write the cube, a local path or fsspec URL.
    start
        Start of epoch 0, ISO, in ``timezone``.
    epochs
        Number of epochs.
    epoch
        Length of an epoch: ``15min``, ``1h``, ``1d``.
    timezone
        IANA name of the time zone of the epochs.
    reader
        Format of the records: a name (``events``, ``trips``, ``geojson``, ``cabspotting``), a
        mapping with a name and the names of columns, such as
        ``{"name": "events", "user": "card_id"}``, or an object of :mod:`clusterscale.ingestion`.
    regions
        Regions that positions fall into: a :class:`~clusterscale.cube.Grid`,
        :class:`~clusterscale.cube.Hexagons`, :class:`~clusterscale.cube.Geohash`,
        :class:`~clusterscale.cube.InspireGrid`, or points from
        :func:`clusterscale.ingestion.read_points`. None if the records name their ROIs.
    pseudonymise
        Secret key of 16 to 64 bytes; user ids become keyed hashes.
    top_users
        Keep only this number of users, those with the most events.
    min_events
        Keep only users with at least this number of events.
    weights
        Table of the number of people for whom each user counts (an expansion factor): Parquet or
        CSV with the column of users of the records, and ``weight``. None: users count as one.
    force
        Replace what is stored at ``output``.
    progress
        As for :func:`~clusterscale.api.audit`; a function is called with the stages ``read`` and
        ``write``.

    Returns
    -------
    TraceCube
        The cube. Its provenance, ``cube.attributes["provenance"]``, counts the records read, kept,
        and dropped by reason.

    Raises
    ------
    InputError, UnknownNameError, ConfigError
        If an argument is out of range, the reader has no such name or column, or a user has no
        weight.
    MissingError
        If there is nothing at ``source``.
    SourceError
        If all records of a file are invalid, or none is left, or the weights are invalid.
    ExistsError
        If something is stored at ``output`` and ``force`` is not set.
    """
    options = IngestOptions(
        reader=make(READERS, reader),
        locator=regions,
        calendar=Calendar.parse(start, epoch, epochs, timezone),
        pseudonymise=pseudonymise,
        top_users=top_users,
        min_events=min_events,
        weights=None if weights is None else str(weights),
    )
    ingest_with_report(str(source), str(output), options, force=force, progress=progress)
    return TraceCube(str(output))


def ingest_with_report(
    source: str,
    output: str,
    options: IngestOptions,
    *,
    force: bool,
    progress: bool | Tell,
    others: Sequence[str | None] = (),
) -> IngestReport:
    """Convert records to a cube, show the progress, and return the counts of records.

    Parameters and errors are those of :func:`clusterscale.ingestion.ingest`; ``progress`` as for
    :func:`~clusterscale.api.audit`; ``others`` are further files that were read.
    """
    check_outputs([output], [source, options.weights, *others])
    with show_progress(progress, "ingest") as tell:
        return write_cube(
            source,
            output,
            options,
            force=force,
            on_progress=lambda stage, n_done, total: tell(Progress(stage, total, n_done)),
        )


def inspect(cube: TraceCube | str | Path) -> CubeSummary:
    """Read all of a cube, which detects damage, and return its sizes and statistics of users.

    Parameters
    ----------
    cube
        A cube, or its path or URL.

    Returns
    -------
    CubeSummary
        Numbers of users, ROIs, epochs and events; mean and standard deviation over users of
        events, distinct ROIs and active epochs; bytes.

    Raises
    ------
    MissingError, FormatError
        If there is no cube.
    DamagedError
        If a part cannot be read, or does not match the stored fingerprint.
    """
    return summarise(cube if isinstance(cube, TraceCube) else TraceCube(str(cube)))
