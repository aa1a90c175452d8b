"""Sections and tables of the report, and functions that format their content as HTML."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import isfinite
from typing import Any, Self

import numpy as np
import xarray as xr
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from numpy.typing import NDArray

from clusterscale import phrases
from clusterscale.redaction import without_controls
from clusterscale.reporting.declared import Column, DeclaredTables, Groups, Table
from clusterscale.validation_messages import plural

TEMPLATES = Environment(
    loader=PackageLoader("clusterscale.reporting"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=lambda value: without_controls(value) if type(value) is str else value,
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: an anchor, a heading, an introduction, and the content."""

    anchor: str
    title: str
    intro: str
    body: Markup

    def within(self, prefix: str) -> Self:
        """Return a copy whose anchor and internal links have a prefix."""
        # only templates write links: a quote in any other text is escaped
        body = Markup(self.body.replace('href="#', f'href="#{prefix}'))
        return replace(self, anchor=prefix + self.anchor, body=body)


def fill(template: str, **values: object) -> Markup:
    """Render a template of this package; values that are not Markup are escaped."""
    return Markup(TEMPLATES.get_template(template).render(values))


def asset(name: str) -> Markup:
    """Return the text of a file beside the templates."""
    source, _, _ = TEMPLATES.loader.get_source(TEMPLATES, name)  # type: ignore[union-attr]
    return Markup(source)


def section(name: str, body: Markup, /, *, anchor: str = "", **values: object) -> Section:
    """Return a section with the title and introduction that ``sections.md`` has of it.

    ``anchor`` is ``name`` if empty; ``values`` are those that title and introduction use.
    """
    found = declared("sections.md").fill(name, (), **values)
    return Section(anchor or name, found.caption, found.note, body)


def folds_section(
    name: str, folds: Iterable[tuple[str, Markup]], *above: Markup
) -> Iterator[Section]:
    """Yield the section of this name, with folds below what is ``above``; none without folds."""
    if found := list(folds):
        yield section(name, Markup("").join([*above, folded(found)]))


@cache
def declared(file: str) -> DeclaredTables:
    """Return the tables and texts of a Markdown file beside the templates."""
    return DeclaredTables(asset(file), TEMPLATES)


def fill_part(name: str, /, **values: object) -> Markup:
    """Fill a macro of a template, by a name such as ``cells.spread``, as :func:`fill` does."""
    template, _, macro = name.partition(".")
    module = TEMPLATES.get_template(f"{template}.html.j2").module
    return Markup(getattr(module, macro)(**values))


def folded(folds: Sequence[tuple[str, Markup]]) -> Markup:
    """Return labelled contents, of which the first is open; one alone has no label."""
    return fill_part("layout.folds", folds=folds)


def side_by_side(panels: Iterable[Markup]) -> Markup:
    """Return figures that are next to each other where there is room."""
    return fill_part("layout.panels", panels=join(list(panels)))


def breakable(label: str) -> Markup:
    """Allow line breaks after the punctuation of a label such as ``laplace(epsilon=1.0)``."""
    text = escape(label)
    for end in ("(", "_", "="):
        text = text.replace(end, end + Markup("<wbr>"))
    return text


def join(parts: Sequence[Markup]) -> Markup:
    """Concatenate pieces of HTML."""
    return Markup("\n").join(parts)


def json_attribute(results: xr.Dataset, name: str) -> Mapping[str, object]:
    """Return a JSON attribute as a mapping; any other value is returned under its name."""
    text = results.attrs.get(name)
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        value = text
    return value if isinstance(value, dict) else {name: value}


def quartiles(series: Iterable[tuple[str, NDArray[np.float64]]]) -> str:
    """Return the names of series with their quartiles, as words for who cannot see a figure."""
    return "; ".join(
        f"{name}: quartiles {', '.join(number(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))}"
        for name, values in series
    )


def embedded(value: object) -> Markup:
    """Return a value as JSON that is safe inside a script element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c"))


def counted_nowhere(results: xr.Dataset) -> list[str]:
    """Return a sentence that a row counts the users who were nowhere, if one does."""
    return [_NOWHERE] if json_attribute(results, "cube").get("null_roi") else []


_NOWHERE = (
    "One more row of each release counts, in each epoch, the people who were nowhere "
    "(null_roi: true). Results do not hold for a release without it."
)


def absent_users(results: xr.Dataset) -> list[str]:
    """Return a sentence for each period of an audit or screen in which some users have no event.

    The first sentence is about a row that counts users who are nowhere.
    """
    plan, cube = json_attribute(results, "plan"), json_attribute(results, "cube")
    sentences = counted_nowhere(results)
    n_users = cube.get("n_known", results.sizes.get("user", cube.get("n_users")))
    if not isinstance(n_users, int):
        return sentences
    targets = plan.get("targets")
    included = "include" in (
        plan.get("unseen"),
        targets.get("unseen") if isinstance(targets, dict) else "",
    )
    for i, period in enumerate(results["period"].values):
        n_absent = n_users - int(results["n_seen"].values[i])
        if n_absent > 0:
            have, are = ("has", "is") if n_absent == 1 else ("have", "are")
            text = f"{n_absent:,} of {n_users:,} users {have} no event in {period}"
            how = "attacked, and counted apart" if "status" in results else "included"
            text += f", but {are} {how}" if included else f" and {are} left out"
            if n_unseen := count_unseen(results.isel(period=[i])):
                text += f", {n_unseen:,} of the {results.sizes['target']:,} targets among them"
            sentences.append(f"{text}.")
    return sentences


def count_unseen(results: xr.Dataset) -> int:
    """Return the number of targets of an audit that have no event in any of its periods."""
    if "status" not in results:
        return 0
    unseen = results["status"] == "unseen"
    return int(unseen.all([dim for dim in unseen.dims if dim != "target"]).sum())


def number(value: float, digits: int = 3) -> str:
    """Format a number with fixed digits and no negative zero; an en dash if it is not finite."""
    return f"{value:z.{digits}f}" if isfinite(value) else "–"


def interval(low: float, high: float) -> str:
    """Format an interval; an en dash if there is none."""
    return f"{number(low)}–{number(high)}" if isfinite(low) else "–"


def percent(share: float) -> str:
    """Format a share in whole per cent, without rounding to 0 % or 100 %."""
    if not isfinite(share):
        return "–"
    text = f"{100 * share:.0f}"
    if text == "0" and share > 0:
        return "< 1 %"
    if text == "100" and share < 1:
        return "> 99 %"
    return f"{text} %"


def quantity(value: float, *, none: str = "none") -> str:
    """Format a number with about three significant digits; ``none`` if it is infinite."""
    if not isfinite(value):
        return none if value > 0 else "–"
    size = abs(value)
    return f"{value:,.0f}" if 1000 <= size < 1e6 else f"{value:.3g}"


_SHOWN = 20  # rows that are shown without a script


@dataclass(frozen=True, slots=True, eq=False)
class LongColumn:
    """A column of words, or of numbers, where NaN is shown as a dash.

    ``links`` are addresses, one per row, empty for none.
    """

    column: Column
    values: NDArray[Any] | Sequence[Any]
    links: Sequence[str] = ()

    @property
    def looks(self) -> Mapping[str, str]:
        """Classes of the style sheet for words."""
        words = phrases.RELEASE_VERDICTS.values() if "verdict" in self.column.look else ()
        return {word: phrases.LOOKS[word] for word in words}

    def cell(self, row: int) -> str | Markup:
        """Return the content of a cell."""
        value, digits = self.values[row], self.column.digits
        if digits is not None:
            return number(float(value), digits) if digits else f"{int(value):,}"
        if self.links and self.links[row]:
            return Markup('<a href="{}">{}</a>').format(self.links[row], value)
        if look := self.looks.get(str(value)):
            return Markup('<span class="{}">{}</span>').format(look, value)
        return str(value)

    def held(self) -> dict[str, Any]:
        """Return the column in the format of the page's script.

        To keep it small, numbers are integer multiples of the last digit, and each word is stored
        once.
        """
        digits = self.column.digits
        about: dict[str, Any] = {"name": self.column.heading, "digits": digits}
        about |= {"links": list(self.links)} if self.links else {}
        about |= {"looks": self.looks} if self.looks else {}
        if digits is None:
            texts = [str(value) for value in self.values]
            words = sorted(set(texts))
            if 2 * len(words) > len(texts):
                return about | {"values": texts}
            positions = {word: index for index, word in enumerate(words)}
            return about | {"words": words, "values": [positions[word] for word in texts]}
        scaled = np.asarray(self.values, dtype=np.float64) * 10**digits
        known = np.isfinite(scaled)
        whole = np.round(np.where(known, scaled, 0)).astype(np.int64).tolist()
        if known.all():
            return about | {"values": whole}
        pairs = zip(whole, known.tolist(), strict=True)
        return about | {"values": [value if is_known else None for value, is_known in pairs]}


def draw_table(
    caption: str,
    columns: Sequence[Column],
    groups: Sequence[tuple[str, Sequence[Sequence[str | Markup]]]],
) -> Markup:
    """Return a table whose first column has row headers; a row of ``groups`` may be a heading."""
    return fill("table.html.j2", table=Table(caption, columns, groups))


def table(name: str, groups: Groups, /, **values: object) -> Markup:
    """Return a table that ``tables.md`` declares; ``values`` are those that it uses."""
    return fill("table.html.j2", table=declared("tables.md").fill(name, groups, **values))


def long_table(
    name: str, rows: Sequence[Any], /, *, file: str, links: Sequence[str] = (), **values: object
) -> Markup:
    """Return a long table that ``tables.md`` declares, from objects as rows.

    ``links`` are addresses of the cells of its first column.
    """
    found = declared("tables.md").fill(name, [("", rows)], **values)
    columns = [
        LongColumn(column, [row[i] for row in found.rows], () if i else links)
        for i, column in enumerate(found.columns)
    ]
    return draw_long_table(found.caption, columns, file=file)


def draw_long_table(caption: str, columns: Sequence[LongColumn], *, file: str) -> Markup:
    """Return a table that shows its first rows; a script pages, sorts, filters and saves the rest.

    The first column has the row headers; ``file`` is the name under which rows are saved as CSV.
    """
    n_shown = min(_SHOWN, len(columns[0].values))
    rows = [[column.cell(row) for column in columns] for row in range(n_shown)]
    data = {"file": file, "columns": [column.held() for column in columns]}
    script = Markup('<script type="application/json" class="rows">{}</script>')
    drawn = draw_table(caption, [column.column for column in columns], [("", rows)])
    return drawn + script.format(embedded(data))


TEMPLATES.globals |= {
    "at_most": phrases.at_most,
    "breakable": breakable,
    "count": "{:,}".format,
    "interval": interval,
    "isfinite": isfinite,
    "looks": phrases.LOOKS,
    "no_guarantee": phrases.NO_GUARANTEE,
    "number": number,
    "percent": percent,
    "plural": plural,
    "privacy_unit": phrases.privacy_unit,
    "quantity": quantity,
    "round_up": phrases.round_up,
}
TEMPLATES.globals["cells"] = TEMPLATES.get_template("cells.html.j2").module
