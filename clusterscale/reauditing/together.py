"""What the releases of a series have in common, so that they are checked together."""

from collections.abc import Sequence
from itertools import compress
from typing import Annotated

from pydantic import Field, Strict

from clusterscale.contracts import ConfigModel, Positive
from clusterscale.reauditing.resolved_release import ResolvedRelease
from clusterscale.release.entry import ReleaseEntry
from clusterscale.release.publication import MARGINS, Measure, Names, Publication, PublicationTable


class SeriesTables(ConfigModel):
    """How the tables of a series are related: all its releases count the same people.

    A release that states ``subset_of`` counts some of them, and is related to the releases that it
    names. Counts of one place and time are the same in all others.

    Attributes
    ----------
    measure
        What is counted: ``visits``, ``trips``, ``persons`` or ``devices``.
    parents
        What places are parts of, as in a publication file: ``codes``, or files with columns
        ``place`` and ``parent``, e.g. ``[codes]``.
    parent_columns
        Columns of the tables with the place of which each is a part, e.g. ``[region]``.
    complete
        Whether all parts of a place are listed, e.g. ``true``; by default if absent rows do not
        hide anything.
    within
        Largest distance, in visits, at which a hidden count is known too well, e.g. ``1``; if it
        is set, such cells are inconsistent, and else inconclusive.
    percent
        The same as a share of the count in per cent, e.g. ``10``.
    """

    measure: Measure = "visits"
    parents: Names = ()
    parent_columns: Names = ()
    complete: bool | None = None
    within: Annotated[int, Strict(), Field(ge=0)] | None = None
    percent: Positive | None = None

    def publication(self, releases: Sequence[tuple[ReleaseEntry, ResolvedRelease]]) -> Publication:
        """Return releases as the tables of a publication, in the order of their publication."""
        names = {release.name for _, release in releases}
        stated = ("measure", "parents", "parent_columns")
        tables = tuple(
            PublicationTable(
                counts=release.counts,
                name=release.name,
                format=entry.table_format,
                mechanism=release.mechanism,
                group_size=release.group_size,
                people=release.name if release.subset_of else None,
                complete=self.complete if entry.absent_places in (None, "zero") else False,
                subset_of=tuple(name for name in release.subset_of if name in names),
                alone=True,  # releases of other times are meant to be related to none
                **{name: getattr(self, name) for name in stated},
            )
            for entry, release in releases
        )
        margins = {name: getattr(self, name) for name in MARGINS}
        return Publication(tables=tables, **{k: v for k, v in margins.items() if v is not None})


def overlap_last(spans: Sequence[tuple[int, int]]) -> list[bool]:
    """Return which spans of time overlap the last one, directly or by way of others."""
    (begin, end), found = spans[-1], list[bool]()
    for _ in spans:  # each time, others may be reached
        found = [first < end and begin < stop for first, stop in spans]
        near = list(compress(spans, found))
        begin, end = min(first for first, _ in near), max(stop for _, stop in near)
    return found
