"""The version stands in one place, and everything that repeats it agrees."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from clusterscale.schema import RESULTS_REVISION

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_changelog_begins_with_this_version_and_revision():
    text = (ROOT / ".github" / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (\S+) · results revision (\d+)$", text, re.MULTILINE)
    assert headings[0] == (VERSION, str(RESULTS_REVISION))
    revisions = [int(revision) for _, revision in headings]
    assert revisions == sorted(revisions, reverse=True)


def test_images_are_of_this_version():
    files = [*(ROOT / "deploy").rglob("*"), *(ROOT / "configs").rglob("*.yaml")]
    texts = [p.read_text() for p in files if p.is_file() and "__pycache__" not in p.parts]
    named = {each for text in texts for each in re.findall(r"\bclusterscale:(\d+\.\d+\.\d+)", text)}
    assert named == {VERSION}
