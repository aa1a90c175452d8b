"""The ``guide`` command: read the guide offline, on the terminal or in a browser."""

from __future__ import annotations

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
_LINK = re.compile(r'href="([\w-]+)\.md(?:#[\w-]*)?"')
_DRAWING = re.compile(r'<img src="drawings/([\w-]+\.svg)" alt="[^"]*" />')


def guide(
    page: Annotated[
        str, typer.Argument(help="Name of a page, as in the list on the first one.")
    ] = _START,
    show: Annotated[bool, typer.Option("--open", help="Open all pages in a browser.")] = False,
) -> None:
    """Read the guide, here or in a browser; needs no network."""
    from rich.markdown import Markdown

    text = read_page(page)
    if show:
        webbrowser.open(write_page(tempfile.mkdtemp(prefix="clusterscale-guide-"), page))
    else:
        out.print(Markdown(text, hyperlinks=False))


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
    html = _LINK.sub(r'href="#\1"', html)
    return _DRAWING.sub(lambda found: (PAGES / "drawings" / found[1]).read_text("utf-8"), html)
