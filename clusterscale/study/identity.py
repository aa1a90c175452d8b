"""Identity of a study: its kind, its plan, its cube, and the revision of the results."""

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any
from uuid import uuid4
from warnings import warn

from clusterscale.errors import ExistsError, InputError, StoreError
from clusterscale.phrases import option
from clusterscale.schema import RESULTS_REVISION
from clusterscale.storage import exists, list_names, put, put_new, read, remove
from clusterscale.storage.manifest import from_sealed, read_sealed, to_sealed
from clusterscale.study.foreign_code import changed_code, code_of

_WORDS = {
    "plan_digest": "plan",
    "cube_fingerprint": "cube",
    "input_digest": "audit or screen",
    "results_revision": "revision of results",
}
LEASE = "lease"  # folder of the lease of the process that computes the study
_OLD = "plan.json"  # of an audit before results revision 2
_UNFINISHED = re.compile(r"\..+\.partial")  # of this or another process that claims the folder


@dataclass(frozen=True, slots=True)
class Identity:
    """What a study is of: equal identities have the same results, bit by bit.

    Attributes
    ----------
    kind
        Name of the analysis, such as ``audit`` or ``screen``.
    plan_digest
        Digest of the settings that decide results.
    cube_fingerprint
        Fingerprint of the traces.
    input_digest
        Digest of the results that the study starts from, empty where there are none.
    results_revision
        :data:`clusterscale.schema.RESULTS_REVISION`. The version of the software is written beside
        it and decides nothing.
    code
        Code of other packages, as :func:`~clusterscale.study.foreign_code.code_of` returns.
    """

    kind: str
    plan_digest: str
    cube_fingerprint: str
    input_digest: str = ""
    results_revision: int = RESULTS_REVISION
    code: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def claim(
        self,
        uri: str,
        plan: Mapping[str, Any],
        *,
        force: bool,
        own: Collection[str] | None = None,
        shared: Collection[str] = (),
        keep: bool = False,
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
            Remove the results of another study, and of any in which code of other packages takes
            part.
        own
            Names in the folder that ``force`` removes; all of them where None.
        shared
            Names in the folder that belong to other studies of the same run.
        keep
            Whether results of this study are kept: with ``force`` also where code of other packages
            takes part, which may have changed unseen; without it they are not removed even if that
            code changed.

        Raises
        ------
        ExistsError
            If the folder holds something else and ``force`` is not set; says what differs. If only
            code of other packages differs, the results are removed, with a warning.

        Warns
        -----
        UserWarning
            If results are removed because code of other packages differs.
        """
        names = set(list_names(uri)) - {LEASE}
        other = self._difference(uri, names)
        changed = not other and self._other_code(uri)
        if not other and not changed and (keep or not (force and self.code)):
            return
        if {name for name in names if not _UNFINISHED.fullmatch(name)} - set(shared):
            if not force and (other or (changed and keep)):
                raise _refuse(uri, other or f"results of {changed}")
            if changed:
                warn(f"{uri} holds results of {changed}: they are computed again", stacklevel=2)
            for name in names if own is None else (*own, f"{self.kind}.json", _OLD):
                remove(f"{uri}/{name}")
        about = {"plan": plan, "version": version("clusterscale"), "run": uuid4().hex[:8]}
        content = to_sealed({**asdict(self), **about})
        if not _put_new(f"{uri}/{self.kind}.json", content) and (
            other := self._difference(uri, {f"{self.kind}.json"})
        ):
            raise _refuse(uri, other)

    def _other_code(self, uri: str) -> str:
        """Return which code of other packages has changed, empty if it is the same."""
        kept = code_in(uri, self.kind)
        parts = [
            f"{path} ({_release_of(kept.get(path))} then, {_release_of(self.code.get(path))} now)"
            for path in sorted({*kept, *self.code})
            if kept.get(path) != self.code.get(path) or not self.code[path]["digest"]
        ]
        return f"other code of {', '.join(parts)}" if parts else ""

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


def code_in(uri: str, kind: str) -> dict[str, dict[str, str]]:
    """Return the code of other packages that the study in a folder used; none if it is not said."""
    return (read_sealed(f"{uri}/{kind}.json") or {}).get("code", {})  # type: ignore[no-any-return]


def run_in(uri: str, kind: str) -> str:
    """Return the name of the run whose results are in a folder: a new one each time it is claimed.

    It is empty if there is none, or one of a version without names.
    """
    try:
        return str(from_sealed(read(f"{uri}/{kind}.json")).get("run", ""))
    except (FileNotFoundError, ValueError):
        return ""


def has_code(uri: str, kind: str, *settings: Any) -> bool:
    """Return whether the study in a folder used the code of other packages that is here now.

    Code that cannot be read is never known to be the same.
    """
    code = code_of(*settings)
    return code_in(uri, kind) == code and all(one["digest"] for one in code.values())


def others_in(run_uri: str) -> list[str]:
    """Return the names in the folder of a run that belong to studies in folders of their own.

    A publication also leaves a record of the newest release of its series there.
    """
    names = list_names(run_uri)
    return [name for name in names if name.endswith(".newest.json") or _is_study(run_uri, name)]


def results_in(results: str) -> list[str]:
    """Return the addresses of what a finished run or analysis consists of, given its folder."""
    folder = results.rstrip("/").removesuffix("/results.zarr")
    own = {"results.zarr", "journal", "evaluations", "audit.json"}
    own |= {f"{folder.rpartition('/')[2]}.json", *others_in(folder)}
    return [f"{folder}/{name}" for name in own]


def _is_study(run_uri: str, name: str) -> bool:
    return exists(f"{run_uri}/{name}/{name}.json")


def require_same_code(run_uri: str) -> None:
    """Check that the studies of a run used the code of other packages that is here now.

    Raises
    ------
    InputError
        If a study used other code, or code that is not here.
    """
    kinds = [name for name in list_names(run_uri) if _is_study(run_uri, name)]
    for kind, uri in (("audit", run_uri), *((kind, f"{run_uri}/{kind}") for kind in kinds)):
        if changed := changed_code(code_in(uri, kind)):
            raise InputError(
                f"{uri}: the {kind} used other code of {', '.join(changed)} than is here: run it "
                "again with this code, or evaluate it where its code is installed"
            )


def _release_of(code: Mapping[str, str] | None) -> str:
    if code is None:
        return "not used"
    if not code["digest"]:
        return "cannot be read"
    return " ".join([code["distribution"], code["version"], code["digest"][:8]]).strip()


def _refuse(uri: str, other: str) -> ExistsError:
    return ExistsError(
        f"{uri} holds {other}: choose another {option('output')}, or overwrite it with "
        f"{option('force', 'True')}"
    )


def _put_new(uri: str, content: bytes) -> bool:
    try:
        return put_new(uri, content)
    except StoreError:  # perhaps a store that cannot create files exclusively
        put(uri, content)
        return True
