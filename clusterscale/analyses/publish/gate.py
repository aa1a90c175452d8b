"""What a release must pass before it is published: a gate, and its comparison with its series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from clusterscale.cube import TraceCube
from clusterscale.errors import RefusedError
from clusterscale.release import RawRelease, read_table
from clusterscale.release.checks import check_together, create_checks
from clusterscale.release.entry import ReleaseEntry
from clusterscale.study import Tell
from clusterscale.study.execution import Executor


class GateVerdict(Protocol):
    """What a gate has found: a verdict, and JSON of its reasons."""

    @property
    def verdict(self) -> str:
        """``pass``, ``warn`` or ``fail``."""

    @property
    def reasons(self) -> str:
        """JSON of a list of :class:`~clusterscale.contracts.Reason`."""


class ReleaseGate(Protocol):
    """Audits a release before it is published."""

    @property
    def allow_warnings(self) -> bool:
        """Whether a release with the verdict ``warn`` is published."""

    def evaluate(
        self,
        entry: ReleaseEntry,
        cube: TraceCube,
        output: str,
        executor: Executor,
        *,
        memory: int,
        tell: Tell,
    ) -> GateVerdict:
        """Return the verdict; raise :class:`RefusedError` if the release must not be published."""


def compare_series(release: RawRelease, size: int, earlier: Sequence[str], *, strict: bool) -> str:
    """Compare a release that is not published yet with the earlier ones of its series.

    Parameters
    ----------
    release
        The release.
    size
        Number of people whom it counts.
    earlier
        Addresses of the earlier releases.
    strict
        Whether a release with a comparison that cannot be decided is refused, too.

    Returns
    -------
    str
        Why a comparison cannot be decided; empty if all can.

    Raises
    ------
    RefusedError
        If the difference of two releases describes few people, or noise was reused.
    """
    about = release.metadata.model_copy(update={"group_size": size})
    new = replace(release, metadata=about, name="the new release")
    old = [replace(read_table(uri), name=uri.rpartition("/")[2]) for uri in earlier]
    start, stop = _span(release)
    old = [one for one in old if (span := _span(one))[0] < stop and start < span[1]]
    if not old:
        return ""
    (found,) = check_together([new], old, create_checks(compares=True))
    if found.verdict == "fail" or (strict and found.omitted):
        wrong = [one.text for one in found.results if one.level == "inconsistent"]
        raise RefusedError(
            "\n".join(["the release does not fit its series:", *(wrong or [found.omitted])])
        )
    return found.omitted


def _span(release: RawRelease) -> tuple[int, int]:
    entry = release.metadata.ledger
    assert entry is not None  # of a release of a series
    return entry.start, entry.stop
