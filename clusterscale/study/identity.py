"""Identity of a study: its kind, its plan, its cube, and the revision of the results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from clusterscale.schema import RESULTS_REVISION
from clusterscale.storage.ownership import claim

__all__ = ["Identity"]


@dataclass(frozen=True, slots=True)
class Identity:
    """What a study is of: equal identities have the same results, bit by bit.

    Attributes
    ----------
    kind
        ``audit``, ``screen``, ``traits`` or ``recovery``.
    plan_digest
        Digest of the settings that decide results.
    cube_fingerprint
        Fingerprint of the traces.
    input_digest
        Digest of the results that the study starts from, empty where there are none.
    results_revision
        :data:`clusterscale.schema.RESULTS_REVISION`. The version of the software is written beside
        it and decides nothing.
    """

    kind: str
    plan_digest: str
    cube_fingerprint: str
    input_digest: str = ""
    results_revision: int = RESULTS_REVISION

    def claim(
        self,
        uri: str,
        plan: Mapping[str, Any],
        *,
        force: bool,
        own: Collection[str] | None = None,
        shared: Collection[str] = (),
    ) -> None:
        """Make ``uri`` the folder of this study, or check that it already is.

        Parameters
        ----------
        uri
            Folder, a local path or fsspec URL.
        plan
            The plan as plain values, written to ``<kind>.json`` with the identity.
        force
            Remove the results of another study.
        own
            Names in the folder that ``force`` removes; all of them where None.
        shared
            Names in the folder that belong to other studies of the same run.

        Raises
        ------
        ExistsError
            If the folder holds something else and ``force`` is not set; says what differs.
        """
        about = {"plan": plan, "version": version("clusterscale")}
        claim(uri, self.kind, asdict(self), about, force=force, own=own, shared=shared)
