"""Find and read the built-in studies of papers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clusterscale.config.plain_yaml import content_of, read_text
from clusterscale.config.reading import CONFIGS, validate
from clusterscale.cube.synthetic import PRESETS
from clusterscale.errors import MissingError
from clusterscale.papers import CABS, PAPERS, PaperStudy
from clusterscale.validation_messages import choices

FOLDER = CONFIGS / "papers"
"""Folder of the studies."""


def find_studies(names: list[str]) -> dict[str, Path]:
    """Return the paths of the studies that ``names`` select, by name, in order.

    Parameters
    ----------
    names
        ``all``; names of studies as in ``ndss18/known-subset-cabs``, of papers as in ``ndss18``, or
        of data as in ``cabs``.

    Returns
    -------
    dict[str, Path]
        Paths of the files by the names of the studies.

    Raises
    ------
    MissingError
        If there is no such study.
    """
    paths = sorted(FOLDER.glob("*/*.yaml"))
    known = {f"{path.parent.name}/{path.stem}": path for path in paths}
    if "all" in names:
        return known
    selected: dict[str, Path] = {}
    for name in names:
        matches = {key: path for key, path in known.items() if name in _words(key)}
        if not matches:
            words = ["all", *(paper.lower() for paper in PAPERS), CABS, *sorted(PRESETS)]
            raise MissingError(
                f"there is no study {name!r}: {choices(name, words)}; or a study that "
                "`clusterscale reproduce --list` shows"
            )
        selected |= matches
    return {name: known[name] for name in known if name in selected}


def load_study(path: str | Path, *, quick: bool = False) -> PaperStudy:
    """Read the config of a study.

    Parameters
    ----------
    path
        A local YAML file.
    quick
        Whether its key ``quick`` overrides the other keys.

    Returns
    -------
    PaperStudy
        With every default filled in.

    Raises
    ------
    MissingError
        If there is no such file.
    ConfigError
        If it is not YAML, or a key is unknown, missing, of the wrong type or out of range.
    """
    where = str(path)
    content = content_of(read_text(path), where)
    if quick and isinstance(content, dict) and isinstance(content.get("quick"), dict):
        content = _merge(content, content["quick"])
    return validate(content, PaperStudy, where)


def _merge(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with nested ``overrides``."""
    merged = dict(base)
    for key, value in overrides.items():
        original = merged.get(key)
        if isinstance(value, dict) and isinstance(original, dict):
            value = _merge(original, value)
        merged[key] = value
    return merged


def _words(name: str) -> tuple[str, str, str]:
    """Return the words that select a study: its name, its paper, and its data (the last part)."""
    return name, name.split("/")[0], name.rsplit("-")[-1]
