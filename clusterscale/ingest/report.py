"""Report of an ingest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["IngestReport"]


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Counts of kept and dropped records.

    ``n_rows * events_per_row`` records are read; each is one of the ``n_events`` of the cube or
    is counted in ``dropped`` under one reason (see :data:`clusterscale.ingest.tally.REASONS`).
    """

    n_rows: int
    events_per_row: int
    n_events: int
    n_users: int
    dropped: Mapping[str, int]
    seconds: float

    def counts(self) -> dict[str, Any]:
        """Return all fields except ``seconds``, as JSON-serialisable values."""
        return {
            "n_rows": self.n_rows,
            "events_per_row": self.events_per_row,
            "n_events": self.n_events,
            "n_users": self.n_users,
            "dropped": dict(self.dropped),
        }

    def table(self) -> dict[str, str]:
        """Return table rows: name and count as text."""
        dropped = {
            f"dropped: {reason.replace('_', ' ')}": f"{count:,}"
            for reason, count in self.dropped.items()
        }
        return {
            "rows read": f"{self.n_rows:,}",
            **dropped,
            "events kept": f"{self.n_events:,}",
            "users": f"{self.n_users:,}",
            "seconds": f"{self.seconds:.1f}",
        }

    def __str__(self) -> str:
        rows = self.table()
        wide, right = max(map(len, rows)), max(map(len, rows.values()))
        return "\n".join(f"{name:<{wide}}  {value:>{right}}" for name, value in rows.items())
