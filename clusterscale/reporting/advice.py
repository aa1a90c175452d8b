"""Sections of advice: the answer, the front of utility and exposure, and every candidate."""

import json
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pandas as pd
import xarray as xr
from markupsafe import Markup

from clusterscale.reporting import figures
from clusterscale.reporting.section import Section, fill, long_table, number, section
from clusterscale.validation_messages import plural

_STATES = ("advised", "on the front", "measured")


_SHOWN = ["mechanism_title", "on_front", "reached", "reason", "score"]
_SHOWN += ["screened_loss", "attacked_auc", "certified_worst"]
_ORDER = ("confirmed", "attacked", "measured", "screened", "certified", "listed")


def leading(advice: xr.Dataset, n: int | None = None) -> pd.DataFrame:
    """Return the candidates that got furthest, the advised one first, at most ``n``.

    Columns are variables of the advice, and ``is_advised``; numbers that are not known are NaN.
    """
    rows = advice[_SHOWN].to_dataframe().reset_index()
    rows["certified_worst"] = np.ceil(1000 * rows["certified_worst"] - 1e-6) / 1000  # a bound
    rows["is_advised"] = rows["mechanism"] == advice.attrs["advised"]
    rows["place"] = rows["reached"].map(_ORDER.index)
    by = ["is_advised", "place", "on_front", "score"]
    return rows.sort_values(by, ascending=[False, True, False, False])[:n]


def answer(advice: xr.Dataset) -> list[str]:
    """Return the answer in plain words: what it is, and then why."""
    verdict = str(advice.attrs["verdict"])
    notes = list(map(str, json.loads(str(advice.attrs.get("notes", "[]")))))
    if verdict == "advised":
        advised = advice.sel(mechanism=str(advice.attrs["advised"]))
        n, others = int(advice.attrs["n_attacked"]), int(advice.attrs.get("n_unattacked", 0))
        what = (
            f"is the least exposed mechanism shown to keep the bounds, of {n:,} attacked"
            if advice.attrs["goal"] == "bounds"
            else "has the highest score of those shown to keep the limits, "
            f"{advised.confirmed_score.item():.3f}"
        )
        return [
            f"Publish with: {advised.mechanism_title.item()}.",
            f"It {what}; all limits hold on users and groups that the search has not used.",
            *notes,
            *(
                [f"Not attacked: {plural(others, 'candidate')} that may keep all."]
                if others
                else []
            ),
        ]
    return [_NOT_ADVISED[verdict], *notes]


_NOT_ADVISED = {
    "inconclusive": "Inconclusive: candidates kept the limits in the search, but none was "
    "confirmed on users and groups that the search has not used. This is no advice to publish.",
    "undecided": "Undecided: no candidate was shown to keep all limits and bounds, but some may.",
    "none": "No candidate keeps all limits and bounds, so there is none to advise.",
}


def summarise(advice: xr.Dataset) -> str:
    """Return how many candidates got how far, in a sentence."""
    counts = Counter(advice["reached"].values.tolist())
    parts, left = [], counts.total()
    for stage in reversed(_ORDER):
        if stage != "listed" and left:
            parts.append(f"{left} {stage}")
        left -= counts[stage]
    return f"{plural(counts.total(), 'candidate')}: {', '.join(parts) or 'none fits'}."


def _front(rows: pd.DataFrame) -> Iterator[Section]:
    """Build the chart of utility against exposure; none if no candidate was measured."""
    known = rows[np.isfinite(rows["score"]) & np.isfinite(rows["screened_loss"])]
    if not len(known):
        return
    state = np.where(known["is_advised"], 0, np.where(known["on_front"], 1, 2))
    marks = known[["score", "screened_loss", "mechanism_title"]]
    groups = [marks[state == i].values.tolist() for i in range(len(_STATES))]
    description = f"{len(known)} candidates; " + (
        f"the advised one has a score of {number(groups[0][0][0])} and a mean privacy loss of "
        f"{number(groups[0][0][1])}"
        if groups[0]
        else "none is advised"
    )
    yield section(
        "front",
        figures.marks(_STATES, line="")
        + figures.plot(
            figures.front(groups),
            slug="advice-front",
            title="Exposure against utility",
            description=description,
        ),
    )


def render_sections(advice: xr.Dataset) -> tuple[Markup, list[Section]]:
    """Return the advice's part of the first screen of a page, and its sections."""
    advice = advice.compute()
    rows, summary = leading(advice), summarise(advice)
    findings = fill(
        "advice.html.j2",
        answer=answer(advice),
        about=advice.attrs,
        findings=json.loads(advice.attrs["findings"]),
        summary=summary,
    )
    table = long_table("candidates", list(rows.itertuples()), file="candidates.csv")
    return findings, [*_front(rows), section("candidates", table, summary=summary)]
