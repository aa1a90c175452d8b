"""Dask graph of an ingest: clean each pack, shuffle by user, write temporary blocks."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dask
import dask.dataframe
import numpy as np
from dask.callbacks import Callback

from clusterscale import storage
from clusterscale.ingest import merge
from clusterscale.ingest.clean import Cleaner, roi_names
from clusterscale.ingest.merge import SpilledBlock
from clusterscale.ingest.records import Reader
from clusterscale.ingest.sources import BYTES_PER_ROW, Pack
from clusterscale.ingest.tally import ReadingReport
from clusterscale.ingest.visits import combine

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Progress", "beside", "find_names", "shuffle"]

Progress = Callable[[str, int, int], None]

_MOST_BLOCKS = 4096
_CELLS_PER_BYTE = 0.25  # cells of a shuffled block per byte of text that a task decodes


def find_names(reader: Reader, packs: Sequence[Pack], *, scheduler: str | Client) -> list[str]:
    """Return the distinct names of ROIs in the records, in text order."""
    tasks = (dask.delayed(roi_names)(reader, pack) for pack in packs)
    names = dask.compute(*tasks, scheduler=scheduler)
    return sorted(set().union(*names))


def shuffle(
    cleaner: Cleaner,
    packs: Sequence[Pack],
    *,
    block_bytes: int,
    scratch: str,
    tell: Progress,
    scheduler: str | Client,
) -> tuple[list[SpilledBlock], ReadingReport]:
    """Clean every pack and bring the visits of each user together.

    Parameters
    ----------
    cleaner, packs
        ``cleaner`` is applied to each of ``packs``.
    block_bytes
        Approximate bytes of text in a pack; bounds the memory of a task.
    scratch
        Folder or URL for the blocks.
    tell
        Called after each pack if a local dask scheduler runs the tasks; on a cluster only at the
        end.
    scheduler
        Name of a dask scheduler, or the client of a cluster.

    Returns
    -------
    blocks
        Each user is in one of them.
    tally
        Counts of the records so far.
    """
    token = uuid.uuid4().hex
    shared = dask.delayed(cleaner, name=f"cleaner-{token}", traverse=False)
    cleaned = [
        dask.delayed(_clean, nout=2)(shared, pack, dask_key_name=f"clean-{token}-{i}")
        for i, pack in enumerate(packs)
    ]
    empty = combine([], cleaner.n_cells)[0].frame()
    frame = dask.dataframe.from_delayed([task[0] for task in cleaned], meta=empty)
    # By default, dask chooses the method by the cluster that this process is connected to.
    method = "disk" if isinstance(scheduler, str) else "p2p"
    n_blocks = _n_blocks(packs, block_bytes)
    parts = frame.shuffle(on="user", npartitions=n_blocks, shuffle_method=method).to_delayed()
    blocks = [
        dask.delayed(merge.write_block)(part, f"{scratch}/{i}.i8", cleaner.n_cells)
        for i, part in enumerate(parts)
    ]
    # The disk shuffle of dask stores its files in the temporary directory.
    config = {} if storage.is_remote(scratch) else {"temporary_directory": scratch}
    with dask.config.set(config), _ReadProgress(f"clean-{token}", len(packs), tell):
        done, tallies = dask.compute(blocks, [task[1] for task in cleaned], scheduler=scheduler)
    tell("read", len(packs), len(packs))
    tally = ReadingReport.total(tallies)
    tally.dropped["duplicate"] += sum(block.n_twice for block in done)
    return done, tally


def _n_blocks(packs: Sequence[Pack], block_bytes: int) -> int:
    """Return the number of blocks that bounds their memory even if no row is a duplicate."""
    n_rows = sum(piece.size for pack in packs for piece in pack) / BYTES_PER_ROW
    return int(np.clip(np.ceil(n_rows / (_CELLS_PER_BYTE * block_bytes)), 1, _MOST_BLOCKS))


def _clean(cleaner: Cleaner, pack: Pack) -> tuple[Any, ReadingReport]:
    return cleaner(pack)


class _ReadProgress(Callback):  # type: ignore[misc]
    """Reports the number of packs read, if a local dask scheduler runs the tasks."""

    def __init__(self, prefix: str, total: int, report_progress: Progress) -> None:
        super().__init__()
        self._prefix, self._total, self._done = prefix, total, 0
        self._report_progress = report_progress

    def _posttask(self, key: Any, *_: Any) -> None:
        if str(key).startswith(self._prefix):
            self._done += 1
            self._report_progress("read", self._done, self._total)


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
