"""Identity of a study: its kind, its plan, its cube, and the revision of the results."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from clusterscale.errors import ExistsError, StoreError
from clusterscale.schema import RESULTS_REVISION
from clusterscale.storage import list_names, put, put_new, read, remove
from clusterscale.storage.manifest import from_sealed, to_sealed

__all__ = ["Identity"]

_WORDS = {
    "plan_digest": "plan",
    "cube_fingerprint": "cube",
    "input_digest": "audit or screen",
    "results_revision": "revision of results",
}
_OLD = "plan.json"  # of an audit before results revision 2
_UNFINISHED = re.compile(r"\..+\.partial")  # of this or another process that claims the folder


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

        Of several studies that claim a folder at the same time, one succeeds, where the store can
        create files exclusively.

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
        names = set(list_names(uri))
        other = self._difference(uri, names)
        if not other:
            return
        if {name for name in names if not _UNFINISHED.fullmatch(name)} - set(shared):
            if not force:
                raise _refuse(uri, other)
            for name in names if own is None else (*own, f"{self.kind}.json", _OLD):
                remove(f"{uri}/{name}")
        about = {"plan": plan, "version": version("clusterscale")}
        content = to_sealed({**asdict(self), **about})
        if not _put_new(f"{uri}/{self.kind}.json", content) and (
            other := self._difference(uri, {f"{self.kind}.json"})
        ):
            raise _refuse(uri, other)

    def _difference(self, uri: str, names: set[str]) -> str:
        """Return what is in the folder, empty if it is this study."""
        kind = self.kind
        if f"{kind}.json" not in names:
            return "a run of an older version" if _OLD in names else "something else"
        what = kind if kind.endswith("s") else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
        try:
            kept = from_sealed(read(f"{uri}/{kind}.json"))
            other = [word for key, word in _WORDS.items() if kept.get(key) != getattr(self, key)]
        except ValueError:
            return f"{what} whose {kind}.json is damaged"
        return f"{what} of another {' and '.join(other)}" if other else ""


def _refuse(uri: str, other: str) -> ExistsError:
    return ExistsError(
        f"{uri} holds {other}: choose another `output`, or overwrite it with `force=True`"
    )


def _put_new(uri: str, content: bytes) -> bool:
    try:
        return put_new(uri, content)
    except StoreError:  # perhaps a store that cannot create files exclusively
        put(uri, content)
        return True
