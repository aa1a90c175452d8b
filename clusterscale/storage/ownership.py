"""A folder of results belongs to one question: who asks another must say so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from clusterscale.errors import ExistsError
from clusterscale.storage import files

__all__ = ["claim"]


def claim(uri: str, what: str, identity: Mapping[str, Any], *, force: bool) -> None:
    """Make sure that ``uri`` is free, or already holds the results of the same question.

    Parameters
    ----------
    uri
        Folder, a local path or fsspec URL.
    what
        What is kept there, in a word: names the file that says which question it is.
    identity
        Plain values that tell this question from any other.
    force
        Remove the results of another one.

    Raises
    ------
    ExistsError
        If there is something else and ``force`` is not set.
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
