"""What a page tells of results of each kind: a new one is one entry here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import xarray as xr
from markupsafe import Markup

from clusterscale.report import audit as audited
from clusterscale.report import recovery as recovered
from clusterscale.report import risk_factors as distinguished
from clusterscale.report import screening as screened
from clusterscale.report.section import Section

__all__ = ["KINDS", "Kind"]


@dataclass(frozen=True, slots=True)
class Kind:
    """How results of a kind are told.

    ``tell`` returns its part of the first screen and its sections; ``heading`` stands over these
    where there are results of other kinds too; ``word`` and ``title`` name a page that begins so;
    ``plan`` says whose the plan is, ``gist`` in a sentence what was done, and the template
    ``reading`` explains the words.
    """

    word: str
    title: str
    heading: str
    tell: Callable[[xr.Dataset], tuple[Markup, list[Section]]]
    plan: str
    gist: str
    reading: str


KINDS: Mapping[str, Kind] = {
    "audit": Kind(
        "audit report",
        "Membership audit of published counts",
        "Targets under attack",
        audited.render_sections,
        "Plan of the audit",
        "An audit plays a guessing game many times and counts how often the guesser is right.",
        "reading.html.j2",
    ),
    "screen": Kind(
        "screen report",
        "Everyone’s exposure by published counts",
        "Everyone, screened",
        screened.render_sections,
        "Plan of the screen",
        "A screen compares, for every user, the same groups with and without that user.",
        "screen_reading.html.j2",
    ),
    "traits": Kind(
        "report of traits",
        "What exposes people in published counts",
        "Why these people",
        distinguished.render_sections,
        "Plan of the traits",
        "The most exposed people are set against the least exposed, "
        "to see what they have in common.",
        "traits_reading.html.j2",
    ),
    "recovery": Kind(
        "recovery report",
        "Whereabouts recovered from published counts",
        "Whereabouts recovered",
        recovered.render_sections,
        "Plan of the recovery",
        "A recovery tells each user’s whereabouts from the counts of "
        "all, and says how far off that is.",
        "recovery_reading.html.j2",
    ),
}
