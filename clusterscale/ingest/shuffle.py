"""The dask graph of an ingest: clean each pack, shuffle by user, write blocks beside the cube."""

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
_CELLS_PER_BYTE = 0.25  # of a block after the shuffle, in bytes of text a task decodes


def find_names(reader: Reader, packs: Sequence[Pack], *, scheduler: str | Client) -> list[str]:
    """Return the distinct names of ROIs in the records, in their order as text."""
    tasks = (dask.delayed(roi_names)(reader, each) for each in packs)
    found = dask.compute(*tasks, scheduler=scheduler)
    return sorted(set().union(*found))


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
        What to do to each pack.
    block_bytes
        About how many bytes of text a pack has: bounds the memory of a task.
    scratch
        Folder or URL for the blocks.
    tell
        Called as packs are read, where a scheduler of dask itself runs the tasks; on a cluster
        only at the end.
    scheduler
        Name of a scheduler of dask, or the client of a cluster.

    Returns
    -------
    blocks
        Each user is in one of them.
    tally
        What became of the records so far.
    """
    token = uuid.uuid4().hex
    shared = dask.delayed(cleaner, name=f"cleaner-{token}", traverse=False)
    cleaned = [
        dask.delayed(_clean, nout=2)(shared, each, dask_key_name=f"clean-{token}-{i}")
        for i, each in enumerate(packs)
    ]
    empty = combine([], cleaner.n_cells)[0].frame()
    frame = dask.dataframe.from_delayed([each[0] for each in cleaned], meta=empty)
    # Left to itself, dask chooses the method by the cluster that this process is connected to.
    method = "disk" if isinstance(scheduler, str) else "p2p"
    n_blocks = _n_blocks(packs, block_bytes)
    parts = frame.shuffle(on="user", npartitions=n_blocks, shuffle_method=method).to_delayed()
    blocks = [
        dask.delayed(merge.write_block)(part, f"{scratch}/{i}.i8", cleaner.n_cells)
        for i, part in enumerate(parts)
    ]
    # The disk shuffle of dask keeps its files in the temporary directory.
    place = {} if storage.is_remote(scratch) else {"temporary_directory": scratch}
    with dask.config.set(place), _Watch(f"clean-{token}", len(packs), tell):
        done, tallies = dask.compute(blocks, [each[1] for each in cleaned], scheduler=scheduler)
    tell("read", len(packs), len(packs))
    tally = ReadingReport.total(tallies)
    tally.dropped["duplicate"] += sum(block.n_twice for block in done)
    return done, tally


def _n_blocks(packs: Sequence[Pack], block_bytes: int) -> int:
    """Bound the memory of a block: at worst no row of its share is a duplicate."""
    n_rows = sum(piece.size for each in packs for piece in each) / BYTES_PER_ROW
    return int(np.clip(np.ceil(n_rows / (_CELLS_PER_BYTE * block_bytes)), 1, _MOST_BLOCKS))


def _clean(cleaner: Cleaner, each: Pack) -> tuple[Any, ReadingReport]:
    return cleaner(each)


class _Watch(Callback):  # type: ignore[misc]
    """Tells how many packs are read, where dask's own scheduler runs the tasks."""

    def __init__(self, prefix: str, total: int, tell: Progress) -> None:
        super().__init__()
        self._prefix, self._total, self._tell, self._done = prefix, total, tell, 0

    def _posttask(self, key: Any, *_: Any) -> None:
        if str(key).startswith(self._prefix):
            self._done += 1
            self._tell("read", self._done, self._total)


@contextmanager
def beside(uri: str) -> Iterator[str]:
    """Yield a temporary folder next to the cube; it is removed whatever happens."""
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
