"""Claim a folder of results for one analysis, so that another does not overwrite it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from clusterscale.errors import ExistsError
from clusterscale.storage import files

__all__ = ["claim"]


def claim(uri: str, what: str, identity: Mapping[str, Any], *, force: bool) -> None:
    """Claim ``uri``, which must be free or already hold the results of the same analysis.

    Parameters
    ----------
    uri
        Folder, a local path or fsspec URL.
    what
        Kind of results in one word; also the name of the file with the identity.
    identity
        JSON-serialisable values that identify the analysis.
    force
        Remove the results of another analysis.

    Raises
    ------
    ExistsError
        If something else is there and ``force`` is not set.
    """
    text, name = json.dumps(identity, indent=2, sort_keys=True), f"{what}.json"
    names = files.list_names(uri)
    if name in names and files.read(f"{uri}/{name}").decode() == text:
        return
    if names:
        if not force:
            raise ExistsError(
                f"{uri} holds another {what}, or one of another cube or version: choose another "
                "`output`, or overwrite it with `force=True`"
            )
        files.remove(uri)
    files.put(f"{uri}/{name}", text.encode())
