"""Every verdict in a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

from clusterscale.report.long_table import LongColumn, long_table
from clusterscale.report.section import Section
from clusterscale.report.trend.releases import Release, Series
from clusterscale.report.trend.words import WORDS, in_short, link, span

__all__ = ["table"]

_NUMBERS: tuple[tuple[str, str, int, str], ...] = (
    ("People", "n_targets", 0, "Targets of the audit"),
    ("Worst loss", "worst_privacy_loss", 3, "Highest privacy loss of any target"),
    ("ε seen", "epsilon_lower", 2, "The mechanism was seen to exceed it"),
    ("ε declared", "epsilon_declared", 2, "A dash where nothing is declared"),
)
_COMPARED: tuple[tuple[str, str, int, str], ...] = (
    ("Newly exposed", "n_newly_exposed", 0, "People who are now above the limit and were not"),
    ("No longer", "n_no_longer_exposed", 0, "People who were above the limit and are not now"),
)


def table(series: Sequence[Series]) -> Section | None:
    """Build the table of all verdicts, newest first; None where nothing was judged."""
    releases = sorted(
        (release for each in series for release in each.releases), key=lambda each: -each.number
    )
    if not releases:
        return None
    columns = _words(releases, several=len(series) > 1) + _measured(releases)
    return Section(
        "verdicts",
        "All verdicts",
        "Newest first. Intervals are of 95 %. A dash stands where a number is not known.",
        long_table("All verdicts", columns, file="verdicts.csv"),
    )


def _words(releases: Sequence[Release], *, several: bool) -> list[LongColumn]:
    def column(name: str, told: Callable[[Release], str], **options: object) -> LongColumn:
        return LongColumn(name, [told(each) for each in releases], **options)  # type: ignore[arg-type]

    found = [
        column(
            "Release", lambda each: each.release, wide=True, links=[link(each) for each in releases]
        ),
        column("Verdict", lambda each: WORDS[each.verdict], looks=_LOOKS),
        column("Reasons", _reasons, wide=True, hint="Checks that warned or failed"),
        column("Period", lambda each: each.period),
        LongColumn("Group size", [each.group_size for each in releases], 0),
        column("Mechanism", lambda each: each.mechanism),
    ]
    return (
        [*found[:1], column("Series", lambda each: each.series), *found[1:]] if several else found
    )


_LOOKS = {WORDS["pass"]: "good", WORDS["warn"]: "middling", WORDS["fail"]: "bad"}


def _measured(releases: Sequence[Release]) -> list[LongColumn]:
    def between(name: str, low: str, high: str) -> LongColumn:
        return LongColumn(
            name, [span(getattr(each, low), getattr(each, high)) for each in releases]
        )

    def numbers(name: str, field: str, digits: int, hint: str = "") -> LongColumn:
        return LongColumn(name, [getattr(each, field) for each in releases], digits, hint)

    return [
        numbers("Mean loss", "mean_privacy_loss", 3, "Mean privacy loss"),
        between("Interval of mean", "mean_privacy_loss_low", "mean_privacy_loss_high"),
        *_above(releases),
        *(numbers(*each) for each in _NUMBERS),
        numbers(
            "AUC of published values", "published_auc", 3, "Of the attack on these very values"
        ),
        between("Interval of AUC", "published_auc_low", "published_auc_high"),
        numbers("Change", "change", 3, "Of people’s privacy loss, against the last releases"),
        between("Interval of change", "change_low", "change_high"),
        *(numbers(*each) for each in _COMPARED),
    ]


def _above(releases: Sequence[Release]) -> list[LongColumn]:
    """Return the share above a level; the level stands in the heading if it is the same for all."""
    levels = {each.loss_above for each in releases if isfinite(each.loss_above)}
    shares = [100 * each.share_above for each in releases]
    if len(levels) == 1:
        return [LongColumn(f"% above {levels.pop():g}", shares, 1, "Share of people, by loss")]
    level = LongColumn("Level", [each.loss_above for each in releases], 2)
    return [LongColumn("% above the level", shares, 1, "Share of people, by loss"), level]


def _reasons(release: Release) -> str:
    return "; ".join(in_short(reason) for reason in release.against) or "–"
