"""The ``guide`` command: read the guide offline, on the terminal or in a browser."""

import json
import re
import tempfile
import webbrowser
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from clusterscale.cli.console import out
from clusterscale.errors import UnknownNameError
from clusterscale.validation_messages import choices

PAGES = Path(str(files("clusterscale"))) / "guide"
"""Folder of the pages."""

_START = "index"
_FORMATS = (".md", ".ipynb")
_HREF = re.compile(r'href="([\w-]+)\.md(?:#[\w-]*)?"')
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\))(?:([\w-]+)\.md)?(?:#([\w-]+))?\)")
_ELSEWHERE = {
    "changelog": ".github/CHANGELOG.md",
    "deployment": "deploy/README.md",
    "examples": "configs/README.md",
}
_DRAWING = re.compile(r'<img src="drawings/([\w-]+\.svg)" alt="[^"]*" />')


def guide(
    page: Annotated[str, typer.Argument()] = _START,
    show: Annotated[bool, typer.Option("--open")] = False,
) -> None:
    """Read the guide, here or in a browser; needs no network.

    Parameters
    ----------
    page
        Name of a page, as in the list on the first one; or PAGE#SECTION.
    show
        Open all pages in a browser.
    """
    from rich.markdown import Markdown

    name, _, section = page.lower().partition("#")
    text = read_page(name)
    if section:
        text = _section(text, section, page)
    if show:
        webbrowser.open(write_page(tempfile.mkdtemp(prefix="clusterscale-guide-"), name))
    else:
        out.print(Markdown(_LINK.sub(_as_command, text), hyperlinks=False))


def _as_command(found: re.Match[str]) -> str:
    """Return a link as its text, and the command that shows the other page to which it leads."""
    text, to, section = found.groups()
    if to is None:
        return str(text)
    if to in _ELSEWHERE:
        return f"{text} (`{_ELSEWHERE[to]}` in the repository)"
    command = f"`clusterscale guide {to}{f'#{section}' if section else ''}`"
    return command if text == to else f"{text} ({command})"


def _section(text: str, section: str, address: str) -> str:
    """Return a section of a page, with those below it."""
    kept: list[str] = []
    fenced, level, known = False, 0, []
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        depth = 0 if fenced else len(line) - len(line.lstrip("#"))
        if depth:
            known.append(re.sub(r"[^\w -]", "", line[depth:]).strip().lower().replace(" ", "-"))
            level = 0 if depth <= level else level or depth * (known[-1] == section)
        kept += [line] * bool(level)
    if not kept:
        raise UnknownNameError(f"the guide has no section {address!r}: {choices(section, known)}")
    return "\n".join(kept)


def read_page(name: str) -> str:
    """Return the text of a page, written or generated, in Markdown.

    Raises
    ------
    UnknownNameError
        If there is no such page.
    """
    from clusterscale.cli.reference import GENERATED

    if name in GENERATED:
        return GENERATED[name]()
    pages = written()
    if name not in pages:
        known = sorted([*pages, *GENERATED])
        raise UnknownNameError(f"the guide has no page {name!r}: {choices(name, known)}")
    text = pages[name].read_text(encoding="utf-8")
    return _from_notebook(text) if pages[name].suffix == ".ipynb" else text


@cache
def written() -> Mapping[str, Path]:
    """Return the names of the written pages, and their files: Markdown, or notebooks."""
    return {path.stem: path for path in sorted(PAGES.iterdir()) if path.suffix in _FORMATS}


def _from_notebook(text: str) -> str:
    """Return the cells of a notebook as Markdown."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join(parts) + "\n"


def write_page(folder: str, page: str = _START) -> str:
    """Write all pages as one HTML file, and return its address, which ends at ``page``."""
    from markdown_it import MarkdownIt

    from clusterscale.cli.reference import GENERATED

    to_html = MarkdownIt("commonmark").enable("table")
    others = sorted({*written(), *GENERATED} - {_START})
    sections = "\n".join(
        f'<section id="{name}">{_inline(to_html.render(read_page(name)))}</section>'
        for name in (_START, *others)
    )
    style = (PAGES.parent / "reporting/templates/page.css").read_text(encoding="utf-8")
    path = Path(folder) / "guide.html"
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>clusterscale guide'
        f'</title><meta name="viewport" content="width=device-width"><style>{style}'
        "main h2 { margin-top: 1.6rem; }</style>"
        f"<main>{sections}</main></html>",
        encoding="utf-8",
    )
    return f"{path.as_uri()}#{page}"


def _inline(html: str) -> str:
    """Return the HTML of a page with links to sections of the same file, and with its drawings."""
    html = _HREF.sub(r'href="#\1"', html)
    return _DRAWING.sub(lambda found: (PAGES / "drawings" / found[1]).read_text("utf-8"), html)
