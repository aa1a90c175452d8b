"""Table of all verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from clusterscale.report.paged_table import LongColumn, long_table
from clusterscale.report.section import Section
from clusterscale.report.trend.phrases import WORDS, in_short, link, span
from clusterscale.report.trend.releases import ReleaseRow, Series

__all__ = ["table"]

_LOOKS = {WORDS["pass"]: "good", WORDS["warn"]: "middling", WORDS["fail"]: "bad"}


def table(series: Sequence[Series]) -> Section | None:
    """Build the table of all verdicts, newest first; None if there are none."""
    releases = sorted(
        (release for one in series for release in one.releases),
        key=lambda release: -release.number,
    )
    if not releases:
        return None
    columns = [
        *_names(releases, several=len(series) > 1),
        *_losses(releases),
        *_promises(releases),
        *_changes(releases),
    ]
    return Section(
        "verdicts",
        "All verdicts",
        "Newest first, with 95 % intervals. A dash means that a number is unknown.",
        long_table("All verdicts", columns, file="verdicts.csv"),
    )


def _names(releases: Sequence[ReleaseRow], *, several: bool) -> list[LongColumn]:
    names, links = (
        [release.release for release in releases],
        [link(release) for release in releases],
    )
    verdicts = [WORDS[release.verdict] for release in releases]
    reasons = ["; ".join(map(in_short, release.against)) or "–" for release in releases]
    return [
        LongColumn("Release", names, wide=True, links=links),
        *([LongColumn("Series", [release.series for release in releases])] if several else []),
        LongColumn("Verdict", verdicts, looks=_LOOKS),
        LongColumn("Reasons", reasons, hint="Checks that warned or failed", wide=True),
        LongColumn("Period", [release.period for release in releases]),
        _numbers("Group size", releases, "group_size", 0),
        LongColumn("Mechanism", [release.mechanism for release in releases]),
    ]


def _losses(releases: Sequence[ReleaseRow]) -> list[LongColumn]:
    return [
        _numbers("Mean loss", releases, "mean_privacy_loss", 3, "Mean privacy loss"),
        _interval("Interval of mean", releases, "mean_privacy_loss"),
        _numbers("Worst loss", releases, "worst_privacy_loss", 3, "Highest loss of any target"),
        *_above(releases),
        _numbers("People", releases, "n_targets", 0, "Targets of the audit"),
    ]


def _promises(releases: Sequence[ReleaseRow]) -> list[LongColumn]:
    attack = "Of the attack on the published values"
    return [
        _numbers("Observed ε at least", releases, "epsilon_lower", 2, "Lower bound from attacks"),
        _numbers("Declared ε", releases, "epsilon_declared", 2, "A dash if none is declared"),
        _numbers("AUC of published values", releases, "published_auc", 3, attack),
        _interval("Interval of AUC", releases, "published_auc"),
    ]


def _changes(releases: Sequence[ReleaseRow]) -> list[LongColumn]:
    return [
        _numbers("Change", releases, "change", 3, "Of mean loss, since the last releases"),
        _interval("Interval of change", releases, "change"),
        _numbers("Newly exposed", releases, "n_newly_exposed", 0, "People now above the limit"),
        _numbers(
            "No longer exposed", releases, "n_no_longer_exposed", 0, "People no longer above it"
        ),
    ]


def _above(releases: Sequence[ReleaseRow]) -> list[LongColumn]:
    """Return the share above a level, which is in the heading if it is the same for all."""
    levels = {release.loss_above for release in releases if isfinite(release.loss_above)}
    shares = 100 * np.array([release.share_above for release in releases])
    one = len(levels) == 1
    name = f"% above {levels.pop():g}" if one else "% above the level"
    share = LongColumn(name, shares, 1, "Share of people whose loss is above it")
    return [share] if one else [share, _numbers("Level", releases, "loss_above", 2)]


def _numbers(
    name: str, releases: Sequence[ReleaseRow], field: str, digits: int, hint: str = ""
) -> LongColumn:
    return LongColumn(
        name, np.array([getattr(release, field) for release in releases]), digits, hint
    )


def _interval(name: str, releases: Sequence[ReleaseRow], field: str) -> LongColumn:
    ends = [
        (getattr(release, f"{field}_low"), getattr(release, f"{field}_high"))
        for release in releases
    ]
    return LongColumn(name, [span(low, high) for low, high in ends])
