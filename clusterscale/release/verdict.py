"""The verdict on a release: a row of the ledger, of the table of verdicts and of their page."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from clusterscale.contracts import hash_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A row of the ledger; unknown numbers are NaN, and fields with JSON text are documented so.

    Attributes
    ----------
    number
        Index of the row, from 0.
    series, release, period, first, epochs, group_size, mechanism
        The release. ``period`` names its days.
    verdict, reasons
        ``pass``, ``warn`` or ``fail``, and JSON of a list of
        :class:`~clusterscale.contracts.Reason`.
    n_targets, worst_privacy_loss, share_above, loss_above
        Results of the audit; ``share_above`` is the share of screened users with a privacy loss
        above ``loss_above``.
    mean_privacy_loss, mean_privacy_loss_low, mean_privacy_loss_high
        Mean privacy loss of the targets, and its 95 % interval.
    epsilon_lower, epsilon_declared
        Observed and declared ε, for the unit of the guarantee.
    published_auc, published_auc_low, published_auc_high
        AUC of the attack on the published values, over users with known membership.
    utility
        JSON of the measures of utility.
    change, change_low, change_high, change_p
        Change of the privacy loss since the last releases of the series.
    n_common, n_newly_exposed, n_no_longer_exposed
        Number of users compared, and of those who crossed ``loss_above``.
    utility_change
        JSON of the change of each measure since the last release.
    run
        Folder of the audit, below the ledger's.
    content, audit, question, policy, version
        Hashes of the published content, of its audit, of the settings for every release and of
        the policy; version of the software.
    mechanism_id, results_revision
        Stable id of the mechanism, and :data:`clusterscale.schema.RESULTS_REVISION` of the audit.
    seal
        Digest of all other fields; empty in rows of older versions.
    """

    number: int
    series: str
    release: str
    period: str
    first: int
    epochs: int
    group_size: int
    mechanism: str
    verdict: str
    reasons: str
    n_targets: int
    mean_privacy_loss: float
    mean_privacy_loss_low: float
    mean_privacy_loss_high: float
    worst_privacy_loss: float
    share_above: float
    loss_above: float
    epsilon_lower: float
    epsilon_declared: float
    published_auc: float
    published_auc_low: float
    published_auc_high: float
    utility: str
    change: float
    change_low: float
    change_high: float
    change_p: float
    n_common: int
    n_newly_exposed: int
    n_no_longer_exposed: int
    utility_change: str
    run: str
    content: str
    audit: str
    question: str
    policy: str
    version: str
    mechanism_id: str = ""  # rows before results revision 2 lack it
    results_revision: int = 1
    seal: str = ""

    @property
    def key(self) -> str:
        """Key of this verdict; a release is not evaluated twice under the same key."""
        return key_of(self.series, self.release, self.audit, self.policy)

    def sealed(self) -> Verdict:
        """Return the row with the digest of all other fields."""
        fields = {name: value for name, value in asdict(self).items() if name != "seal"}
        return replace(self, seal=hash_of(fields))

    @property
    def span(self) -> tuple[int, int]:
        """First epoch and the one after the last."""
        return self.first, self.first + self.epochs

    @property
    def why(self) -> list[dict[str, Any]]:
        """The reasons."""
        reasons: list[dict[str, Any]] = json.loads(self.reasons)
        return reasons


def key_of(series: str, release: str, audit: str, policy: str) -> str:
    """Return the key of a verdict."""
    return hash_of([series, release, audit, policy])
