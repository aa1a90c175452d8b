"""What follows from a single table, beside what its values show."""

from __future__ import annotations

from dataclasses import replace

from clusterscale.contracts import Mechanism
from clusterscale.errors import ClusterscaleError
from clusterscale.release.checks.disclosure import NARROWED, TOGETHER, System, relate_tables
from clusterscale.release.checks.parts import Part, read_part
from clusterscale.release.checks.table import Undecided
from clusterscale.release.checks.together import TableFindings
from clusterscale.release.content import RawRelease, TableFormat
from clusterscale.release.intervals import Run
from clusterscale.release.long import LongTable
from clusterscale.release.publication import CODES, Publication, PublicationTable

LEVEL = "level"


def relate_alone(
    found: TableFindings,
    uri: str,
    form: TableFormat,
    release: RawRelease,
    mechanism: Mechanism | None,
    group_size: int | None,
    run: Run | None = None,
) -> TableFindings:
    """Return findings with what else follows from a table as a publication of one.

    If it has levels of places, in a column or in folders ``level``, codes say what each place is a
    part of. That levels do not fit each other is inconclusive, as nothing says that they should. If
    it has totals, these may narrow down hidden cells that they do not determine.
    """
    # Formats and mechanisms are objects already, a group may have a single person, and a column of
    # a table alone two roles: none of this is validated again.
    given = {"format": form, "mechanism": mechanism, "group_size": group_size}
    plan = Publication(tables=(PublicationTable(counts=uri, alone=True),))
    entry = plan.tables[0].model_copy(update=given)
    if not isinstance(form, LongTable) or not form.divides(uri, LEVEL):
        if all(totals is None for totals in release.totals.each):
            return found
        entry = entry.model_copy(update={"name": found.name})  # that of an address may be empty
        plan = plan.model_copy(update={"tables": (entry,)})
        try:
            return _with_narrowed(found, read_part(plan, release), plan, run)
        except ClusterscaleError as error:
            why = Undecided("range", f"what its totals narrow down is not known: {error}")
            return replace(found, undecided=(*found.undecided, why))
    levelled = {"level": LEVEL, "parents": (CODES,), "alone": False}
    plan = Publication(tables=(entry.model_copy(update=levelled),))
    try:
        levels = relate_tables(plan, found.name, [], run=run)[0]
    except ClusterscaleError as error:
        why = Undecided("relation", f"its levels are not compared: {error}")
        return replace(found, undecided=(*found.undecided, why))
    if (wrong := levels.results[0]).check == TOGETHER:
        return replace(found, undecided=(*found.undecided, Undecided("relation", wrong.text)))
    more = tuple(result for result in levels.results if result.level == "inconsistent")
    return replace(
        found,
        results=found.results + more,
        undecided=(*found.undecided, *levels.undecided),
        open_cells=levels.open_cells,
        related=levels.related,
    )


def _with_narrowed(
    found: TableFindings, part: Part, plan: Publication, run: Run | None
) -> TableFindings:
    """Return findings with which hidden cells of a table its totals narrow down."""
    if part.noisy:
        return found
    system = System.of([part], plan, run)
    flags = {kind: some & (kind == NARROWED) for kind, some in system.open_flags(plan).items()}
    known = system.findings(plan, found.name, flags)
    if system.ranges.contradiction is not None or not known.open_cells:
        return found
    undecided = (*found.undecided, *known.undecided[:1])
    return replace(found, undecided=undecided, open_cells=known.open_cells)
