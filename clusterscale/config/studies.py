"""The studies that come with the package: which there are, and how one is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clusterscale.config.reading import CONFIGS, content_of, read_text, validate
from clusterscale.cube.synthetic import PRESETS
from clusterscale.errors import MissingError
from clusterscale.papers import CABS, PAPERS, PaperStudy
from clusterscale.validation_messages import choices

__all__ = ["FOLDER", "find_studies", "load_study", "parse_study"]

FOLDER = CONFIGS / "papers"
"""Where the studies are."""


def find_studies(names: list[str]) -> dict[str, Path]:
    """Return the studies that names stand for, by name, in order.

    Parameters
    ----------
    names
        ``all``; names of studies as in ``ndss18/known-subset-cabs``, of papers as in ``ndss18``, or
        of data as in ``cabs``.

    Raises
    ------
    MissingError
        If there is no such study.
    """
    known = _built_in()
    if "all" in names:
        return known
    found: dict[str, Path] = {}
    for name in names:
        fitting = {key: path for key, path in known.items() if name in _words(key)}
        if not fitting:
            words = ["all", *(paper.lower() for paper in PAPERS), CABS, *sorted(PRESETS)]
            raise MissingError(
                f"there is no study {name!r}: {choices(name, words)}; or a study that "
                "`clusterscale reproduce --list` shows"
            )
        found |= fitting
    return {name: known[name] for name in known if name in found}


def load_study(path: str | Path, *, quick: bool = False) -> PaperStudy:
    """Read the config of a study; in a ``quick`` one, what it says under ``quick`` is put over all.

    Raises
    ------
    MissingError
        If there is no such file.
    ConfigError
        If it is not YAML, or a key is unknown, missing, of the wrong type or out of range.
    """
    return parse_study(read_text(path), where=str(path), quick=quick)


def parse_study(text: str, *, where: str = "study", quick: bool = False) -> PaperStudy:
    """Read the text of a study, as :func:`load_study` does a file."""
    content = content_of(text, where)
    if quick and isinstance(content, dict) and isinstance(content.get("quick"), dict):
        content = _over(content, content["quick"])
    return validate(content, PaperStudy, where)


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Put a mapping over another, key by key, as deep as both are mappings."""
    found = dict(below)
    for key, value in above.items():
        under = found.get(key)
        if isinstance(value, dict) and isinstance(under, dict):
            value = _over(under, value)
        found[key] = value
    return found


def _words(name: str) -> tuple[str, str, str]:
    """Return what a study can be called: by name, by its paper, by its data, as its name ends."""
    return name, name.split("/")[0], name.rsplit("-")[-1]


def _built_in() -> dict[str, Path]:
    found = sorted(FOLDER.glob("*/*.yaml"))
    return {f"{path.parent.name}/{path.stem}": path for path in found}
