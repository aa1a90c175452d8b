"""Ownership of folders: a folder of results belongs to one study."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from clusterscale.errors import ExistsError
from clusterscale.storage import files

__all__ = ["claim"]

_WORDS = {
    "plan_digest": "plan",
    "cube_fingerprint": "cube",
    "input_digest": "audit or screen",
    "results_revision": "revision of results",
}


def claim(
    uri: str,
    kind: str,
    identity: Mapping[str, str | int],
    about: Mapping[str, Any],
    *,
    force: bool,
    own: Collection[str] | None = None,
    shared: Collection[str] = (),
) -> None:
    """Check that ``uri`` is free, or already belongs to the study with this identity.

    Parameters
    ----------
    uri
        Folder, a local path or fsspec URL.
    kind
        Kind of study; ``<kind>.json`` records which study it is.
    identity
        Plain values that differ between any two studies.
    about
        Plain values that are recorded but decide nothing.
    force
        Remove the results of another study.
    own
        Names in the folder that ``force`` removes; all of them where None.
    shared
        Names in the folder that belong to others.

    Raises
    ------
    ExistsError
        If there is something else and ``force`` is not set; says what differs.
    """
    names = set(files.list_names(uri))
    other = _difference(uri, kind, identity) if f"{kind}.json" in names else "something else"
    if not other:
        return
    if names - set(shared):
        if not force:
            raise ExistsError(
                f"{uri} holds {other}: choose another `output`, or overwrite it with `force=True`"
            )
        for name in names if own is None else own:
            files.remove(f"{uri}/{name}")
    text = json.dumps({**identity, **about}, indent=2, sort_keys=True)
    files.put(f"{uri}/{kind}.json", text.encode())


def _difference(uri: str, kind: str, identity: Mapping[str, str | int]) -> str:
    """Return what is in the folder, empty if it is the study with this identity."""
    what = kind if kind.endswith("s") else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
    try:
        found = json.loads(files.read(f"{uri}/{kind}.json"))
        other = [word for key, word in _WORDS.items() if found.get(key) != identity.get(key)]
    except (ValueError, AttributeError):
        return f"{what} whose {kind}.json is damaged"
    return f"{what} of another {' and '.join(other)}" if other else ""
