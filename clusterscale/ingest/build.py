"""Ingest records into a cube: clean, shuffle by user, merge in order of user ids."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Locator, Regions
from clusterscale.cube.writer import new_cube
from clusterscale.errors import InputError, SourceError
from clusterscale.ingest import merge
from clusterscale.ingest.clean import Cleaner
from clusterscale.ingest.pseudonyms import check_key
from clusterscale.ingest.records import Reader
from clusterscale.ingest.report import IngestReport
from clusterscale.ingest.shuffle import Progress, beside, find_names, shuffle
from clusterscale.ingest.sources import Pack, pack
from clusterscale.ingest.tally import REASONS, check_records

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["ingest"]

BLOCK_BYTES = 1 << 24  # text that a task decodes at a time: about 400,000 rows


def ingest(
    source: str,
    uri: str,
    *,
    reader: Reader,
    locator: Locator | None,
    calendar: Calendar,
    pseudonymise: bytes | None = None,
    top_users: int | None = None,
    min_events: int = 1,
    force: bool = False,
    on_progress: Progress | None = None,
    block_bytes: int = BLOCK_BYTES,
    scheduler: str | Client = "threads",
) -> IngestReport:
    """Read records from ``source`` into a new cube at ``uri``.

    The work is a dask graph. Only ``scheduler`` decides where it runs, not the dask configuration
    or a cluster that this process is connected to. Memory is bounded by the size of a block, not of
    the source. The cube is bitwise identical for any block size and scheduler.

    Parameters
    ----------
    source
        File or folder, a local path or an fsspec URL.
    uri
        Where to write the cube. Temporary blocks are stored next to it, so the workers of a cluster
        must be able to write there; they are removed at the end.
    reader
        Format of the records.
    locator
        The regions. May be None if the reader gives ROI names: then the ROIs are the distinct names
        in the records, in text order, with NaN positions.
    calendar
        The epochs.
    pseudonymise
        Key of 16 to 64 bytes: user ids are replaced by keyed BLAKE2b hashes of 16 bytes, before
        sorting.
    top_users
        Keep only this many users, those with the most events; ties are resolved in order of id (or
        hash).
    min_events
        Keep only users with at least this many events.
    force
        Replace what is stored at ``uri``.
    on_progress
        Called with a stage (``read``, ``write``), the number of steps done and their total.
    block_bytes
        Approximate bytes of text that a task decodes at a time.
    scheduler
        Where the tasks run: the name of a dask scheduler (``threads``, ``synchronous``), or the
        client of a cluster.

    Returns
    -------
    IngestReport
        Counts of all records. All fields but ``seconds`` are also in the cube's provenance.

    Raises
    ------
    InputError
        If an argument is out of range, or the reader needs a ``locator``.
    MissingError
        If there is nothing at ``source``.
    SourceError
        If all records of a file or source are invalid; names the file, column and first bad value.
    ExistsError
        If something is stored at ``uri`` and ``force`` is not set.
    """
    began = time.perf_counter()
    _check(reader, locator, pseudonymise, top_users, min_events)
    report_progress = on_progress or _ignore_progress
    with _naming_formats(reader):
        packs = pack(reader.pieces(source, block_bytes), block_bytes)
        regions, described = _regions(reader, locator, packs, source, scheduler)
    cleaner = Cleaner(reader, locator, regions.names, calendar, pseudonymise)
    provenance: dict[str, Any] = {
        # Only the base name, so that results do not reveal local paths.
        "source": posixpath.basename(source.rstrip("/")),
        "reader": reader.model_dump(),
        "regions": described,
        "pseudonymised": pseudonymise is not None,
        "top_users": top_users,
        "min_events": min_events,
    }
    with (
        _naming_formats(reader),
        new_cube(
            uri,
            regions,
            calendar,
            provenance=provenance,
            pseudonyms=pseudonymise is not None,
            force=force,
        ) as writer,
        beside(uri) as scratch,
    ):
        blocks, tally = shuffle(
            cleaner,
            packs,
            block_bytes=block_bytes,
            scratch=scratch,
            tell=report_progress,
            scheduler=scheduler,
        )
        n_binned = sum(int(block.sizes.sum()) for block in blocks)
        check_records(tally, n_binned, source=source, calendar=calendar)
        users, n_filtered = merge.choose(blocks, top_users=top_users, min_events=min_events)
        tally.dropped["user_filtered"] = n_filtered
        for n_written in merge.copy(blocks, users, writer):
            report_progress("write", n_written, len(users))
        report = IngestReport(
            n_rows=tally.n_records // reader.events_per_row,
            events_per_row=reader.events_per_row,
            n_events=n_binned - n_filtered,
            n_users=len(users),
            dropped={reason: tally.dropped[reason] for reason in REASONS},
            seconds=time.perf_counter() - began,
        )
        provenance.update(report.counts())
    return report


@contextmanager
def _naming_formats(reader: Reader) -> Iterator[None]:
    """Append the formats that the reader accepts to each :class:`SourceError`."""
    try:
        yield
    except SourceError as error:
        raise SourceError(f"{error}\nreader {reader.name} accepts {reader.accepts}") from None


def _ignore_progress(stage: str, done: int, total: int) -> None:
    """Do nothing."""


def _check(
    reader: Reader,
    locator: Locator | None,
    key: bytes | None,
    top_users: int | None,
    min_events: int,
) -> None:
    if key is not None:
        check_key(key, where="`pseudonymise`")
    if top_users is not None and top_users < 1:
        raise InputError(f"`top_users` is {top_users}: keep at least 1")
    if min_events < 1:
        raise InputError(f"`min_events` is {min_events}: a user of a cube has at least 1")
    if locator is None and not reader.gives_rois:
        raise InputError(
            f"reader {reader.name} gives positions: specify the regions with `locator`"
        )


def _regions(
    reader: Reader,
    locator: Locator | None,
    packs: Sequence[Pack],
    source: str,
    scheduler: str | Client,
) -> tuple[Regions, dict[str, Any]]:
    if locator is not None:
        return locator.regions, locator.describe()
    names = find_names(reader, packs, scheduler=scheduler)
    if not names:
        raise SourceError(f"{source}: no record contains a ROI name")
    unknown = np.full(len(names), np.nan)
    return Regions(tuple(names), unknown, unknown), {"kind": "names", "n_names": len(names)}
