"""The plan of a re-audit: audit settings for every release, and the policy."""

from __future__ import annotations

from typing import Any

from clusterscale.audit import AuditTemplate
from clusterscale.contracts import ConfigModel, Even, hash_of
from clusterscale.reaudit.policy import Policy

__all__ = ["ReauditPlan"]


class ReauditPlan(ConfigModel):
    """Audit settings and policy for the releases of a catalogue.

    ``audit``: the settings of the audit with groups of the release's size under its mechanism; with
    ``everyone``, all users of the cube are screened too. ``published``: the number of users with
    known membership, half of them inside, on which attacks on the published values are scored.
    """

    audit: AuditTemplate
    policy: Policy = Policy()
    everyone: bool = True
    published: Even = 20

    @property
    def question(self) -> str:
        """Hash of the settings without the policy."""
        return hash_of(self.model_dump(mode="json", exclude={"policy"}))

    def key(self, identity: dict[str, Any], cube: str, revision: int) -> str:
        """Return the key of the audit of a release, independent of the policy.

        ``identity`` is that of the release, ``cube`` the fingerprint of its cube.
        """
        return hash_of([self.question, identity, cube, revision])
