"""Kinds of results on a page; a new kind needs one entry here."""

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
    """How a page presents results of one kind.

    ``tell`` returns its part of the first screen and its sections. ``heading`` is the heading of
    these sections on a page with several kinds. ``word`` and ``title`` are the type and title of a
    page whose first kind this is. ``plan`` labels the plan, ``gist`` summarises the method in a
    sentence, and the template ``reading`` explains the terms.
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
        "An audit plays a guessing game many times and measures how often the adversary is right.",
        "reading.html.j2",
    ),
    "screen": Kind(
        "screen report",
        "Exposure of all users by published counts",
        "Screen of all users",
        screened.render_sections,
        "Plan of the screen",
        "A screen compares, for every user, the same groups with and without that user.",
        "screen_reading.html.j2",
    ),
    "traits": Kind(
        "report of traits",
        "What exposes people in published counts",
        "Traits of exposed users",
        distinguished.render_sections,
        "Plan of the trait analysis",
        "The most exposed users are compared with the least exposed "
        "to find what they have in common.",
        "traits_reading.html.j2",
    ),
    "recovery": Kind(
        "recovery report",
        "Locations recovered from published counts",
        "Recovered locations",
        recovered.render_sections,
        "Plan of the recovery",
        "A recovery infers each user’s locations from the counts of "
        "all users, and measures the error.",
        "recovery_reading.html.j2",
    ),
}
