"""Ingest records into a cube: clean, shuffle by user, merge in order of user ids."""

from __future__ import annotations

import posixpath
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Locator, Regions
from clusterscale.cube.writer import new_cube
from clusterscale.errors import InputError, SourceError
from clusterscale.ingestion import merge
from clusterscale.ingestion.clean import Cleaner
from clusterscale.ingestion.inputs import UserWeights, check_key, read_weights
from clusterscale.ingestion.records import Reader
from clusterscale.ingestion.report import REASONS, IngestReport, check_records, check_where
from clusterscale.phrases import option
from clusterscale.reading.sources import Pack, pack, reading

if TYPE_CHECKING:
    from distributed import Client

    from clusterscale.ingestion.shuffle import DaskRun, OnProgress


BLOCK_BYTES = 1 << 24  # text that a task decodes at a time: about 400,000 rows


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """What to read, how to bin it and whom to keep: everything that decides the content of a cube.

    Attributes
    ----------
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
    weights
        Table with the columns ``weight`` and that of the users, named as in the records: the number
        of people for whom each user counts. None: users count as one.

    Raises
    ------
    InputError
        If a value is out of range, or the reader needs a ``locator``.
    """

    reader: Reader
    locator: Locator | None
    calendar: Calendar
    pseudonymise: bytes | None = field(default=None, repr=False)
    top_users: int | None = None
    min_events: int = 1
    weights: str | None = None

    def __post_init__(self) -> None:
        if self.pseudonymise is not None:
            check_key(self.pseudonymise, where=option("pseudonymise"))
        if self.top_users is not None and self.top_users < 1:
            raise InputError(f"{option('top_users')} is {self.top_users}: keep at least 1")
        if self.min_events < 1:
            raise InputError(
                f"{option('min_events')} is {self.min_events}: a user of a cube has at least 1"
            )
        if self.locator is None and not self.reader.gives_rois:
            raise InputError(
                f"reader {self.reader.name} gives positions: specify the regions with "
                f"{option('locator')}"
            )


def ingest(
    source: str,
    uri: str,
    options: IngestOptions,
    *,
    force: bool = False,
    on_progress: OnProgress | None = None,
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
        File, folder or pattern such as ``records/2026-*.csv``: a local path or an fsspec URL.
    uri
        Where to write the cube. Temporary blocks are stored next to it, so the workers of a cluster
        must be able to write there; they are removed at the end.
    options
        Format, regions, epochs and users.
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
    MissingError
        If there is nothing at ``source``.
    SourceError
        If all records of a file or source are invalid; names the file, column and first bad value.
        If the table of weights is invalid.
    InputError
        If a user has no weight.
    ExistsError
        If something is stored at ``uri`` and ``force`` is not set.
    """
    from clusterscale.ingestion.shuffle import DaskRun  # here: readers are used without dask too

    began = time.perf_counter()
    weights = None
    if options.weights is not None:
        weights = read_weights(options.weights, options.reader, options.pseudonymise)
    reader, packs = options.reader, list[Pack]()
    try:
        with reading(source):
            packs = pack(reader.pieces(source, block_bytes), block_bytes)
        if not packs:
            raise SourceError(f"{source} contains no records")
        run = DaskRun(packs, block_bytes, scheduler, on_progress or (lambda *_: None))
        report = _write_cube(source, uri, options, run, weights, force=force)
    except SourceError as error:
        text = f"{error}\nreader {reader.name} accepts {reader.accepts}"
        if len({piece.file.url for one in packs for piece in one}) > 1:
            text += f"\n{source} has several files; a pattern, as '2026-*.csv', leaves some out"
        raise SourceError(text) from None
    return replace(report, seconds=time.perf_counter() - began)


def _write_cube(
    source: str,
    uri: str,
    options: IngestOptions,
    run: DaskRun,
    weights: UserWeights | None,
    *,
    force: bool,
) -> IngestReport:
    from clusterscale.ingestion.shuffle import beside, shuffle

    places, strata, described = _find_places(source, options, run)
    column = getattr(options.reader, "stratum", None)
    is_public = options.locator is not None and column is None  # categories are in the records
    provenance: dict[str, Any] = {
        # Only the base name, so that results do not reveal local paths.
        "source": posixpath.basename(source.rstrip("/")),
        "reader": options.reader.model_dump(),
        "regions": described,
        "pseudonymised": options.pseudonymise is not None,
        "top_users": options.top_users,
        "min_events": options.min_events,
        **({} if weights is None else {"weights": posixpath.basename(weights.where.rstrip("/"))}),
    }
    cube = new_cube(
        uri,
        places if column is None else places.by_category(column, strata),
        options.calendar,
        provenance=provenance,
        pseudonyms=options.pseudonymise is not None,
        public=("calendar", "places") if is_public else ("calendar",),
        force=force,
    )
    with cube as writer, beside(uri) as scratch:
        how = options.calendar, options.pseudonymise, strata
        cleaner = Cleaner(options.reader, options.locator, places.names, *how)
        blocks, tally = shuffle(cleaner, run, scratch)
        n_binned = sum(int(block.sizes.sum()) for block in blocks)
        check_where(tally, options.reader, source)
        check_records(tally, n_binned, source=source, calendar=options.calendar)
        users, n_filtered = merge.choose(
            blocks, top_users=options.top_users, min_events=options.min_events
        )
        tally.dropped["user_filtered"] = n_filtered
        if weights is not None:
            writer.weigh(weights.of(users.names))
        for n_written in merge.copy(blocks, users, writer):
            run.on_progress("write", n_written, len(users))
        report = IngestReport(
            n_rows=tally.n_records // options.reader.events_per_row,
            events_per_row=options.reader.events_per_row,
            n_events=n_binned - n_filtered,
            n_users=len(users),
            dropped={reason: tally.dropped[reason] for reason in REASONS},
        )
        provenance.update(report.counts())
    return report


def _find_places(
    source: str, options: IngestOptions, run: DaskRun
) -> tuple[Regions, tuple[str, ...], dict[str, Any]]:
    """Return the places, the categories in the records, if any, and how places were made."""
    from clusterscale.ingestion.shuffle import find_names

    locator, column = options.locator, getattr(options.reader, "stratum", None)
    names, strata = list[str](), list[str]()
    if locator is None or column is not None:
        names, strata = find_names(options.reader, run, source)
    read = f" that {option('where')} reads" if getattr(options.reader, "where", None) else ""
    if column is not None and not strata:
        raise SourceError(f"{source}: no record{read} contains a category in the column {column}")
    if locator is not None:
        return locator.regions, tuple(strata), locator.describe()
    if not names:
        raise SourceError(f"{source}: no record{read} contains a ROI name")
    unknown = np.full(len(names), np.nan)
    regions = Regions(tuple(names), unknown, unknown)
    return regions, tuple(strata), {"kind": "names", "n_names": len(names)}
