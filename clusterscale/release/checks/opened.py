"""Which counts follow from the tables of a publication only since the last one was published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import ConfigError
from clusterscale.reading.places import match_codes
from clusterscale.release.cells import UNKNOWN
from clusterscale.release.checks.disclosure import System, match_tables
from clusterscale.release.checks.parts import Part, read_parts
from clusterscale.release.checks.table import CheckResult
from clusterscale.release.publication import MARGINS, Publication
from clusterscale.validation_messages import plural

OPENED, OPEN_CELL = "opened", "open_cell"
"""Names of how many counts a release opens, and of one with its place, time and the reason."""


def find_opened(
    plan: Publication, begins: Sequence[tuple[int, int]], missing: Sequence[str] = ()
) -> tuple[CheckResult, list[str]]:
    """Return what the last table opens: counts that follow from all tables, and not without it.

    ``begins`` has the number of the first epoch of each table, and its UTC second; ``missing`` the
    names of earlier tables that cannot be read. The result has numbers only; the texts, at most
    100, have a count and what gives it away, the most disclosing first. Raises what
    ``relate_tables`` raises, and ConfigError if a table begins at another time.
    """
    parts, label = read_parts(plan), plan.tables[-1].label
    for part, begin in zip(parts, begins, strict=True):
        if next(int(one.starts[0]) for one in (*part.cells, *part.noisy)) not in begin:
            raise ConfigError(f"{part.table.name}: its first time is not that of the release")
    system = System.of(parts, plan)
    own, kinds, before = _own(system, label), system.open_flags(plan), system
    contradicts = system.ranges.contradiction is not None
    if contradicts or any(flags.any() for flags in kinds.values()):
        low, high = np.where(own, 0, system.low), np.where(own, UNKNOWN, system.high)
        before = system.with_bounds(low, high)
    then = before.open_flags(plan)
    opened = {kind: flags & (own | ~then[kind]) for kind, flags in kinds.items()}
    found = system.findings(plan, label, opened)
    if contradicts:
        is_new = before.ranges.contradiction is None
        text = f"no counts fit all tables {'up to' if is_new else 'before'} release {label}"
        result = CheckResult.of_faults(OPENED, 1, len(own), text)
        return result if is_new else replace(result, level="unknown"), [found.results[0].text]
    if not plan.model_fields_set & MARGINS:
        del opened["narrowed"]
    known = np.logical_or.reduce([*opened.values()])
    n_own, n_earlier = (int(np.count_nonzero(known & some)) for some in (own, ~own))
    text = f"release {label} opened {plural(n_earlier, 'count')} of earlier tables"
    omitted = [*_not_compared(parts, system, own), *(one.text for one in found.undecided)]
    omitted += match_tables(parts, plan, system.sums).problems()
    if missing:
        omitted.append(
            f"not compared with {', '.join(missing)}: not in the series, not readable, or changed "
            "since it was audited"
        )
    text = "; ".join([f"{text} and {n_own:,} of its own", *omitted])
    result = CheckResult.of_faults(OPENED, n_own + n_earlier, len(own), text)
    if omitted and not known.any():
        result = replace(result, level="unknown")
    return result, [f"{cell.table}: {cell.text}" for cell in found.open_cells]


def _own(system: System, label: str) -> NDArray[np.bool_]:
    """Return which cells are of a table, or the rest of one of it, bool, shape (cell,)."""
    is_of = np.array([table.label == label for table in system.sums.tables], np.bool_)
    own = np.repeat(is_of, np.diff(system.sums.first))
    return np.append(own, own[np.concatenate([np.empty(0, np.int64), *system.sums.rests])])


def _not_compared(parts: Sequence[Part], system: System, own: NDArray[np.bool_]) -> Iterator[str]:
    """Yield why more may follow than was looked for."""
    relations, names = system.relations, [part.stratum.release.rois or () for part in parts]
    if noisy := [part.table.name for part in parts if part.noisy]:
        yield f"values of {', '.join(noisy)} do not determine counts, and take no part"
    related = own[relations.parts] != np.repeat(own[relations.whole], np.diff(relations.offsets))
    if len(parts) > 1 and not (noisy or related.any()):
        yield (
            "none of its counts is related to earlier ones at these times: places have other "
            "names, or epochs begin at other times"
        )
    if any(match_codes(some, names[0])[1] for some in names):
        yield "places whose codes are written in several ways are not compared"
