"""What is asked of every release, and what is made of the answer."""

from __future__ import annotations

from typing import Any

from clusterscale.audit import AuditTemplate
from clusterscale.contracts import ConfigModel, Even, hash_of
from clusterscale.reaudit.policy import Policy

__all__ = ["ReauditPlan"]


class ReauditPlan(ConfigModel):
    """The question and the policy of a catalogue.

    ``audit``: the game that is played with groups of the release's size under its mechanism; with
    ``everyone``, every user of the cube is screened too. ``published``: of so many users of whom it
    is known whether they are in the release, half of them inside, the attacks are asked by the
    values themselves.
    """

    audit: AuditTemplate
    policy: Policy = Policy()
    everyone: bool = True
    published: Even = 20

    @property
    def question(self) -> str:
        """Hash of what is asked, whatever the policy."""
        return hash_of(self.model_dump(mode="json", exclude={"policy"}))

    def key(self, identity: dict[str, Any], cube: str, revision: int) -> str:
        """Return what tells the audit of a release from any other, whatever the policy.

        ``identity`` is that of the release, ``cube`` the fingerprint of its cube.
        """
        return hash_of([self.question, identity, cube, revision])
