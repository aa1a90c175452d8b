"""Releases of a cube, noted beside it, so that a copied folder of releases is no second budget."""

from collections.abc import Iterator
from typing import Self

from clusterscale import storage
from clusterscale.contracts import ConfigModel
from clusterscale.release import LedgerEntry
from clusterscale.storage.manifest import read_sealed, to_sealed


class NotedRelease(ConfigModel):
    """A release that was published of a cube.

    Attributes
    ----------
    entry
        Its entry in the ledger of its series.
    first
        Seal of the first entry of that series, which copies of its folder share.
    series, folder
        Name and folder of the series.
    epsilon, delta
        What it spends for a person who is in it as often as possible; None: nothing bounds it.
    """

    entry: LedgerEntry
    first: str
    series: str
    folder: str
    epsilon: float | None
    delta: float

    def write(self, cube: str) -> str:
        """Note the release beside a cube, unless it is noted, and return the address of the note.

        Raises
        ------
        StoreError
            If it cannot be written.
        """
        uri = f"{cube}.published/{self.entry.seal}.json"
        storage.put_new(uri, to_sealed(self.model_dump(mode="json")))
        return uri

    @classmethod
    def read_all(cls, cube: str) -> Iterator[Self]:
        """Yield the releases that are noted beside a cube; DamagedError if a note is damaged."""
        for name in storage.list_names(f"{cube}.published"):
            if (kept := read_sealed(f"{cube}.published/{name}")) is not None:
                yield cls.model_validate(kept, strict=False)
