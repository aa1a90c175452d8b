"""Check for values that no group of the users whose traces are known would have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from clusterscale.release.checks.finding import Check, CheckResult
from clusterscale.release.checks.table import PublishedTable, count_bounds
from clusterscale.validation_messages import plural


class PossibleCounts(Check):
    """Check whether some group of the known users has counts that give the published values.

    A group of ``n`` of ``N`` users whose traces are known has in each cell at most as many visits
    as all users have, and at most ``n``; at least as many as its known members have; and at least
    ``n − N`` plus the visits of all users. A value is wrong if no count between gives it. This
    needs a mechanism without noise that processes each count separately and preserves their order.

    The table must be of some of these users: a table of others is called inconsistent.
    """

    name: Literal["possible_counts"] = "possible_counts"
    compares: ClassVar[bool] = False

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return how many values no group has; ``others`` and ``rng`` are not used."""
        if table.limits is None and (table.counts < 0).all():
            return CheckResult.unknown(self.name, 0, "neither traces nor counts are known")
        stated = count_bounds(table)
        if stated is None:
            text = f"{table.mechanism.label} adds noise, combines counts or uses weights"
            return CheckResult.unknown(self.name, 0, text)
        known = table.counts >= 0
        least, most = table.limits or (0, table.group_size)
        least = np.maximum(least, np.where(known, table.counts, 0))
        most = np.minimum(most, np.where(known, table.counts, table.group_size))
        wrong = table.published & (np.maximum(stated[0], least) > np.minimum(stated[1], most))
        n, n_cells = int(wrong.sum()), int(table.published.sum())
        whose = f"a group of {plural(table.group_size, 'user')}, as far as these are known"
        text = f"all {n_cells:,} published values are possible for {whose}"
        if n:
            cell = np.unravel_index(np.argmax(wrong), wrong.shape)
            text = (
                f"{n:,} of {n_cells:,} published values are impossible for {whose}: "
                f"{table.values[cell]:g} is published at ROI {cell[0]} and epoch "
                f"{table.first_epoch + cell[1]}, where such a group has {least[cell]:,} to "
                f"{most[cell]:,} visits"
            )
        return CheckResult.of_faults(self.name, n, n_cells, text)
