"""A reader of the page's HTML for the tests: tables, anchors, and whatever a browser would load."""

from __future__ import annotations

import json
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "hr", "input", "line", "circle", "rect", "wbr"}
LOADS = {"src", "href", "srcset", "data", "action", "poster", "xlink:href", "formaction"}


class Page(HTMLParser):
    """What the tests ask of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.sections: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.references: list[str] = []
        self.text = ""
        self.css = ""
        self.figures: dict[str, object] = {}
        self.long: dict[str, dict[str, object]] = {}
        self._slug = ""
        self._json: str | None = None
        self._caption = ""
        self._row: list[str] | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.tags.append((tag, named))
        self.references += [value for name, value in attrs if name in LOADS]
        if tag not in VOID:
            self.stack.append(tag)
        if tag == "section":
            self.sections.append(named["id"])
        elif tag == "caption":
            self._caption = ""
        elif tag == "tr":
            self._row = []
        elif tag in ("td", "th") and self._row is not None:
            self._row.append("")
        elif tag == "script" and named.get("type") == "application/json":
            self._json = named.get("class", "figure")
        if "data-figure" in named:
            self._slug = named["data-figure"]

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag, f"{tag} closes out of order at {self.getpos()}"
        if tag == "caption":
            self.tables.setdefault(self._caption, [])
        elif tag == "tr":
            self.tables[self._caption].append([cell.strip() for cell in self._row])
            self._row = None

    def handle_data(self, data):
        if "script" in self.stack:
            if self._json == "figure":
                self.figures[self._slug] = json.loads(data)
            elif self._json == "rows":
                self.long[self._caption] = json.loads(data)
            self._json = None
            return
        if "style" in self.stack:
            self.css += data
            return
        self.text += data
        if "caption" in self.stack:
            self._caption += data
        elif self._row:
            self._row[-1] += data
