"""Functions that open the finished results of each analysis."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterscale.study import Analysis, built_in

if TYPE_CHECKING:
    import xarray as xr


def __getattr__(name: str) -> Any:
    """Return the function ``name`` that opens the results of a kind of analysis."""
    for kind in built_in().values():
        if kind.opener == name:
            return _opener(kind)
    raise AttributeError(name)


def _opener(kind: type[Analysis]) -> Callable[[str | Path], xr.Dataset]:
    def opener(uri: str | Path) -> xr.Dataset:
        """Open the finished results of {noun} lazily.

        Parameters
        ----------
        uri
            Folder of the run, of its {noun}, or the store itself: a local path or fsspec URL.

        Returns
        -------
        xr.Dataset
            The variables of :class:`{kind.__module__}.{kind.__name__}`, or those that
            ``clusterscale guide datasets`` lists.

        Raises
        ------
        MissingError
            If there are none, or they have not finished.
        FormatError
            If the store contains something else.
        DamagedError
            If a file is not the one that was written.
        """
        import_module("clusterscale.reporting.notebook")  # adds ``clusterscale`` to datasets
        return kind.read(uri)

    opener.__name__ = opener.__qualname__ = kind.opener
    opener.__doc__ = str(getdoc(opener)).format(noun=kind.noun or kind.kind, kind=kind)
    return opener
