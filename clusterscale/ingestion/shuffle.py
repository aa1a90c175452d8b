"""Dask graph of an ingest: clean each pack, shuffle by user, write temporary blocks."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask
import dask.dataframe
import numpy as np
from dask.callbacks import Callback

from clusterscale import storage
from clusterscale.ingestion import merge
from clusterscale.ingestion.clean import Cleaner, names_in
from clusterscale.ingestion.merge import SpilledBlock, combine
from clusterscale.ingestion.records import Reader
from clusterscale.ingestion.report import ReadingReport, check_where
from clusterscale.reading.sources import BYTES_PER_ROW, Pack

if TYPE_CHECKING:
    from distributed import Client


OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class DaskRun:
    """What a dask graph reads, where it runs, and who is informed.

    One task reads each of the ``packs``, of about ``block_bytes`` of text, which bounds its memory.
    ``scheduler`` is the name of a dask scheduler, or the client of a cluster; ``on_progress`` is
    called after each pack by a local one, and only at the end on a cluster.
    """

    packs: Sequence[Pack]
    block_bytes: int
    scheduler: str | Client
    on_progress: OnProgress

    @property
    def n_blocks(self) -> int:
        """Number of blocks that bounds their memory even if no row is a duplicate."""
        n_rows = sum(piece.size for pack in self.packs for piece in pack) / BYTES_PER_ROW
        # 0.25: cells of a shuffled block per byte of text that a task decodes
        return int(np.clip(np.ceil(n_rows / (0.25 * self.block_bytes)), 1, 4096))


def find_names(reader: Reader, run: DaskRun, source: str) -> tuple[list[str], list[str]]:
    """Return the distinct names of places in the records, and the categories, in text order.

    Raises SourceError if no record of the source has a text that ``where`` looks for.
    """
    tasks = (dask.delayed(names_in)(reader, pack) for pack in run.packs)
    places, strata, tallies = zip(*dask.compute(*tasks, scheduler=run.scheduler), strict=True)
    check_where(ReadingReport.total(tallies), reader, source)
    return sorted(set().union(*places)), sorted(set().union(*strata))


def shuffle(
    cleaner: Cleaner, run: DaskRun, scratch: str
) -> tuple[list[SpilledBlock], ReadingReport]:
    """Clean every pack and bring the visits of each user together in one block.

    Blocks are stored in ``scratch``, a folder or URL. The second value counts the records so far.
    """
    token = uuid.uuid4().hex
    shared = dask.delayed(cleaner, name=f"cleaner-{token}", traverse=False)
    cleaned = [
        dask.delayed(Cleaner.__call__, nout=2)(shared, pack, dask_key_name=f"clean-{token}-{i}")
        for i, pack in enumerate(run.packs)
    ]
    empty = combine([], cleaner.n_cells)[0].frame()
    frame = dask.dataframe.from_delayed([task[0] for task in cleaned], meta=empty)
    # By default, dask chooses the method by the cluster that this process is connected to.
    method = "disk" if isinstance(run.scheduler, str) else "p2p"
    parts = frame.shuffle(on="user", npartitions=run.n_blocks, shuffle_method=method).to_delayed()
    blocks = [
        dask.delayed(merge.write_block)(part, f"{scratch}/{i}.i8", cleaner.n_cells)
        for i, part in enumerate(parts)
    ]
    # The disk shuffle of dask stores its files in the temporary directory.
    config = {} if storage.is_remote(scratch) else {"temporary_directory": scratch}
    with dask.config.set(config), _ReadProgress(f"clean-{token}", len(run.packs), run.on_progress):
        spilled, tallies = dask.compute(
            blocks, [task[1] for task in cleaned], scheduler=run.scheduler
        )
    run.on_progress("read", len(run.packs), len(run.packs))
    tally = ReadingReport.total(tallies)
    tally.dropped["duplicate"] += sum(block.n_twice for block in spilled)
    return spilled, tally


class _ReadProgress(Callback):  # type: ignore[misc]
    """Reports the number of packs read, if a local dask scheduler runs the tasks."""

    def __init__(self, prefix: str, total: int, on_progress: OnProgress) -> None:
        super().__init__()
        self._prefix, self._total, self._n_read = prefix, total, 0
        self._on_progress = on_progress

    def _posttask(self, key: Any, *_: Any) -> None:
        if str(key).startswith(self._prefix):
            self._n_read += 1
            self._on_progress("read", self._n_read, self._total)


@contextmanager
def beside(uri: str) -> Iterator[str]:
    """Yield a temporary folder next to the cube; it is always removed."""
    if storage.is_remote(uri):
        scratch = f"{uri.rstrip('/')}.ingest-{uuid.uuid4().hex[:8]}"
        try:
            yield scratch
        finally:
            storage.remove(scratch)
        return
    target = storage.local_path(uri)
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.ingest-", dir=target.parent) as folder:
        yield folder
