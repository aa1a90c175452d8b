"""Make the release of some counts: draw its noise, hide what is hidden, and describe it."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from math import floor
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.analyses.publish import plan as plans
from clusterscale.analyses.publish.counting import Counted
from clusterscale.analyses.publish.plan import CapChoice, PublishPlan
from clusterscale.analyses.publish.series import Series
from clusterscale.analyses.publish.source import (
    OperatingSystemSource,
    SecretNumbers,
    secret_numbers,
)
from clusterscale.analyses.publish.spending import guarantee_of, spent_on_person
from clusterscale.contracts import CellCoordinates, Ints, Values
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import expand, read_block
from clusterscale.cube.regions import NULL_ROI
from clusterscale.errors import ConfigError, ExistsError, InputError, RefusedError
from clusterscale.mechanisms.accounting import describe_guarantee, rho_of_unit
from clusterscale.mechanisms.base import BaseMechanism, Margin
from clusterscale.mechanisms.chain import last_suppression, steps_of
from clusterscale.mechanisms.coarsening import CoarsenSpace
from clusterscale.mechanisms.noise import DiscreteLaplaceNoise
from clusterscale.mechanisms.suppression import Suppression
from clusterscale.reading.tables import read_column, read_frame
from clusterscale.release import LedgerEntry, RawRelease, ReleaseMetadata, choose_format
from clusterscale.release.entry import files_of
from clusterscale.release.explanation import CENTRE, digest_texts, explain_release
from clusterscale.release.metadata import README, STATED, Accuracy, digest_files
from clusterscale.storage.result_table import consolidate

_OTHER = "other places"
_SELECTED = (
    "publish.mechanism: this cube was ingested with {option} {value}, so one {unit} more or less "
    "can change who is counted, and its guarantee would be false: ingest without {option}"
)


def rows_are_public(plan: PublishPlan, cube: TraceCube) -> bool:
    """Return whether places and epochs of a release were stated, and not taken from records."""
    return "calendar" in cube.public and (plan.places is not None or "places" in cube.public)


def require_public(plan: PublishPlan, cube: TraceCube) -> None:
    """Check that a guarantee also holds for the rows of a release, and for who is counted.

    Raises
    ------
    ConfigError
        If a record can add or remove a row, or a user other than its own; says how to avoid it.
    """
    unit = plan.mechanism.guarantee.unit
    if unit == "none":
        return
    if "calendar" not in cube.public:
        raise ConfigError(
            "publish.period: the epochs of this cube may be those of its records, and then its "
            "beginning depends on them, which no noise hides: if they are public, write the cube "
            "again with `clusterscale pack --public calendar`"
        )
    if not rows_are_public(plan, cube):
        raise ConfigError(
            "publish.places: missing; the places of this cube were taken from its records, so one "
            "event more can add a row, which no noise hides: state the public list of all places, "
            "e.g. places: places.csv, with a column name; or write the cube again with public "
            "places (`clusterscale ingest --points FILE`, `clusterscale pack --public places`)"
        )
    about = cube.attributes["provenance"]
    for option, unsafe in (("top_users", True), ("min_events", unit != "user")):
        value = about.get(option) or 0
        if unsafe and value > (option == "min_events"):
            words = {"option": f"--{option.replace('_', '-')}", "value": value, "unit": unit}
            raise ConfigError(_SELECTED.format(**words))


def row_names(plan: PublishPlan, cube: TraceCube) -> tuple[str, ...]:
    """Return the names of the rows before trace steps, without the null ROI.

    Raises
    ------
    ConfigError
        If the list of places is not one, or names none of the cube's.
    """
    if plan.places is None:
        names = cube.regions.names
        return tuple(sorted(names)) if plan.format in ("csv", "parquet") else names
    names = tuple(name.strip() for name in read_column(plan.places, "name"))
    if n_twice := len(names) - len(set(names)):
        raise ConfigError(f"publish.places: {plan.places} lists {n_twice:,} places twice")
    if reserved := {"", _OTHER, NULL_ROI}.intersection(names):
        raise ConfigError(f"publish.places: {plan.places} has a place named {min(reserved)!r}")
    if not set(names).intersection(cube.regions.names):
        raise ConfigError(
            f"publish.places: {plan.places} names no place of the cube, such as "
            f"{cube.regions.names[0]!r}"
        )
    others = (_OTHER,) if plan.other_places == "one_row" else ()
    return tuple(sorted((*names, *others)))  # the order says nothing, and tables keep it


def arrange(plan: PublishPlan, cube: TraceCube, counted: Counted) -> tuple[Counted, int]:
    """Return counts on the rows of the release, and the number of visits to places not listed.

    Each visit stays in one row or in none, so nobody changes the counts by more than before.
    """
    names = row_names(plan, cube)
    if names == cube.regions.names or _merges_places(plan):
        return counted, 0
    row_of = {name: row for row, name in enumerate(names)}
    rest = row_of.get(_OTHER, -1)
    rows = np.array([row_of.get(name, rest) for name in cube.regions.names])
    n_elsewhere = int(counted.counts[: len(rows)][rows == rest].sum())
    if plan.null_roi:
        rows = np.append(rows, len(names))
    kept, n_rows = rows >= 0, len(names) + plan.null_roi

    def move(values: NDArray[Any]) -> NDArray[Any]:
        moved = np.zeros((n_rows, values.shape[1]), values.dtype)
        np.add.at(moved, rows[kept], values[kept])
        return moved

    sums = counted.sums
    moved = replace(counted, counts=move(counted.counts), sums=None if sums is None else move(sums))
    return moved, n_elsewhere


def _merges_places(plan: PublishPlan) -> bool:
    return any(isinstance(step, CoarsenSpace) for step in plan.mechanism.trace_steps)


def _bind(plan: PublishPlan, cube: TraceCube) -> BaseMechanism:
    """Return the mechanism with its sensitivity on the days of the cube."""
    mechanism = plans.bind_without_data(plan.mechanism, _frames(plan, cube), null_roi=plan.null_roi)
    assert isinstance(mechanism, BaseMechanism)  # a plan is checked
    return mechanism


def _frames(plan: PublishPlan, cube: TraceCube) -> tuple[CellCoordinates, ...]:
    """Return the coordinates of the cells before each trace step and after the last."""
    source = OperatingSystemSource.of(cube, null_roi=False, seed=0)
    (empty,) = read_block(source, [(plan.span, plan.mechanism.trace_steps)], 0, 0)
    return empty.frames


def draw(plan: PublishPlan, cube: TraceCube, counted: Counted) -> Values:
    """Return the values to publish, float64, shape (roi, epoch); NaN where they are hidden.

    Each call draws other noise; the values of at most one call may ever be published.

    Raises
    ------
    ConfigError
        If a unit of the data changes the counts by more than the stated sensitivity.
    """
    mechanism = _bind(plan, cube)
    if plans.exceeds_sensitivity(mechanism, counted.bounds):
        raise ConfigError(
            f"publish.mechanism: the sensitivity of {mechanism.label} is smaller than what one "
            f"{mechanism.guarantee.unit} of this population changes, so its guarantee would be "
            "false: put cap_contributions before the noise, or state a larger sensitivity"
        )
    chain, hidden = plans.as_chain(mechanism), np.zeros(counted.counts.shape, np.bool_)
    if chain is None:
        return counted.counts.astype(np.float64)

    def see(step: BaseMechanism, values: Values) -> None:
        if isinstance(step, Suppression) and step.hidden != "zero":
            hidden[step.hides(values)] = True

    values = chain.release(
        counted.counts,
        group_size=counted.n_users,
        rng=secret_numbers(),
        sums=counted.sums,
        see=see,
    )
    values[hidden] = np.nan
    return values + 0.0  # no negative zeros


def choose_cap(choice: CapChoice, of_events: Ints, n_changes: int) -> int:
    """Choose how many events of each user and day are kept, at the ε that is stated for it.

    Parameters
    ----------
    choice
        Share of user-days that keep all events, and ε.
    of_events
        How many user-days have 0, 1, 2, … events, int64, shape (largest cap + 1,).
    n_changes
        Sum of the changes that one privacy unit makes to these numbers: 1 for a user's day.

    Returns
    -------
    int
        At least 1, at most the largest cap.
    """
    noise = DiscreteLaplaceNoise(n_changes / choice.epsilon)
    noisy = of_events[1:] + SecretNumbers().draw(noise, len(of_events) - 1)
    below = np.cumsum(np.maximum(noisy, 0))
    return 1 + int(np.searchsorted(below, choice.quantile * below[-1]))


def describe_entry(plan: PublishPlan, cube: TraceCube, series: Series, run: str) -> LedgerEntry:
    """Return the entry of the next release of a series, before its content is known."""
    mechanism = _bind(plan, cube)
    guarantee, calendar, (first, stop) = mechanism.guarantee, cube.calendar, plan.span
    last = last_suppression(mechanism)
    spends = guarantee.unit != "none"
    extra = plan.choose_cap.epsilon if plan.choose_cap else 0.0
    return series.next_entry(
        period=plan.period.name,
        start=int(calendar.begins(first, 1)[0]),
        stop=int(calendar.begins(stop, 1)[0]),
        first_day=int(calendar.days()[first]),
        last_day=int(calendar.days(ends=True)[stop - 1]),
        unit=guarantee.unit,
        epsilon=float(guarantee.epsilon) + extra if spends else None,
        delta=float(guarantee.delta) if spends else 0.0,
        rho=None if plan.choose_cap else rho_of_unit(mechanism),
        hidden_below=last and last.least_shown,
        hidden_as=last and last.hidden,
        content="",
        run=run,
    )


def state_guarantee(plan: PublishPlan, entry: LedgerEntry) -> str:
    """Return the guarantee of a release, and what it means for a person; empty without one."""
    if entry.epsilon is None:
        return ""
    n_days = entry.last_day - entry.first_day + 1
    return describe_guarantee(guarantee_of(entry), n_days, plan.mechanism)


def describe_series(plan: PublishPlan, cube: TraceCube) -> dict[str, Any]:
    """Return what a series has spent, what it will have with a release, and what a year spends.

    Parameters
    ----------
    plan
        The release that is next in the series.
    cube
        The cube that it counts.

    Returns
    -------
    dict[str, Any]
        ``name``, ``folder`` and ``budget``; ``days``, the first and the last of the release; the ε
        of its unit that is ``spent``, so far and with the release, and ``all_days``, what all days
        of the cube spend, without a budget None;
        ``others``, which releases elsewhere count its days, empty without any;
        ``releases``, their number, and ``person``, ε and δ for one person who is in all of them,
        infinite if nothing bounds that, both by when: so far, with the release, and a year of it if
        that is stated; and ``refused``, why it cannot be published.

    Raises
    ------
    ClusterscaleError
        If the ledger cannot be read, or is not that of the plan.
    """
    series, budget = Series(plan, cube.calendar.timezone, cube=cube.uri), plan.budget
    entry, refused = describe_entry(plan, cube, series, ""), ""
    try:
        series.check(entry)
    except (ExistsError, RefusedError) as error:
        refused = str(error)
    before = [*zip(series.entries, series.mechanisms, strict=True)]
    new, delta = (entry, plan.mechanism), budget.delta if budget else 0.0
    cases = {"so far": before, "with this release": [*before, new]}
    if plan.per_year:
        cases["a year"] = [new] * plan.per_year
    first, last = int(cube.calendar.days()[0]), int(cube.calendar.days(ends=True)[-1])
    return {
        "name": plan.series,
        "folder": series.uri,
        "budget": budget and budget.model_dump(mode="json"),
        "days": [date.fromordinal(day).isoformat() for day in (entry.first_day, entry.last_day)],
        "spent": (series.spent(), series.spent(entry)) if budget else (),
        "others": series.describe_others(entry, plan.mechanism),
        "all_days": series.spend_on_days(entry, range(first, last + 1)) if budget else None,
        "releases": {when: len(several) for when, several in cases.items()},
        "person": {when: spent_on_person(several, delta) for when, several in cases.items()},
        "refused": refused,
    }


def make_release(
    plan: PublishPlan,
    cube: TraceCube,
    counted: Counted,
    values: Values,
    entry: LedgerEntry,
    uri: str,
) -> RawRelease:
    """Return the table of the release to be at ``uri``, with its metadata and its sealed entry."""
    mechanism = _bind(plan, cube)
    rois, epochs = _cells(plan, cube, len(values))
    zone = ZoneInfo(cube.calendar.timezone)
    fields: dict[str, Any] = {"observed": plan.period.observed} if plan.period.observed else {}
    size, among = plan.group_size, plan.among
    if entry.epsilon is None:  # only then numbers of people may follow from the data
        size = size or counted.n_users
        among = among or (cube.n_users if counted.n_users < cube.n_users else None)
    fields |= {key: n for key, n in (("group_size", size), ("population", among)) if n}
    fields |= {key: text for key in STATED if (text := getattr(plan, key))}
    if guarantee := state_guarantee(plan, entry):
        fields["guarantee"] = guarantee
    own = all(type(step).__module__.startswith("clusterscale.") for step in steps_of(mechanism))
    if own and (margin := mechanism.widen(Margin())) is not None:  # others' word is not published
        share = floor(1e6 * margin.share) / 1e6
        noise, most = margin.scale, margin.size
        fields["accuracy"] = Accuracy(noise=noise, margin=most, share=share, one_sided=True)
    metadata = ReleaseMetadata(
        rows="public" if rows_are_public(plan, cube) else "records",
        mechanism=mechanism,
        start=datetime.fromtimestamp(entry.start, zone).isoformat(),
        epochs=plan.period.epochs,
        null_roi=plan.null_roi,
        series=plan.series,
        time_zone=cube.calendar.timezone,
        **fields,
    )
    local, at = cube.calendar.timezone, _centres(plan, cube, rois)
    release = RawRelease(values, rois, epochs, metadata=metadata, timezone=local, centres=at)
    entry = entry.model_copy(update={"content": release.digest})
    # Built anew, so that the entry is among the fields that are set, and written.
    about = {name: getattr(metadata, name) for name in metadata.model_fields_set}
    release = replace(release, metadata=ReleaseMetadata(**about, ledger=entry))
    texts = digest_texts(uri.rpartition("/")[2], release)
    entry = entry.model_copy(update={"explained": texts}).sealed()
    return replace(release, metadata=ReleaseMetadata(**about, ledger=entry))


def _centres(plan: PublishPlan, cube: TraceCube, rois: tuple[str, ...]) -> Values | None:
    """Return the centres of places, if they are public and known, shape (roi, 2); NaN of others.

    They are those of the list of places, never those of the cube on it, which may tell who came.
    """
    import pandas as pd

    if plan.places is not None:
        listed = read_frame(storage.read_file(plan.places), plan.places)
        if not {"name", *CENTRE} <= {*listed}:
            return None
        names = listed["name"].astype(str).str.strip()
        lat, lon = (pd.to_numeric(listed[key], errors="coerce") for key in CENTRE)
    else:
        names, lat, lon = cube.regions.names, cube.regions.lat, cube.regions.lon
    at = dict(zip(names, zip(lat, lon, strict=True), strict=True))
    centres = np.array([at.get(name, (np.nan, np.nan)) for name in rois])
    is_public = plan.places is not None or "places" in cube.public
    return centres if is_public and np.isfinite(centres).any() else None


def _cells(
    plan: PublishPlan, cube: TraceCube, n_rois: int
) -> tuple[tuple[str, ...], NDArray[np.datetime64]]:
    """Return the names of the places and the beginnings of the epochs, after trace steps."""
    (first, stop), steps = plan.span, plan.mechanism.trace_steps
    frames = _frames(plan, cube)
    n_places, n_epochs = n_rois - plan.null_roi, len(frames[-1].days)
    numbers = np.broadcast_to(np.arange(float(n_epochs)), (n_places, n_epochs))
    begins = np.unique(expand(numbers, steps, frames)[0], return_index=True)[1]
    names = row_names(plan, cube)
    if _merges_places(plan):  # merged places have no names, and keep their order
        names = tuple(f"{i:0{len(str(n_places))}}" for i in range(n_places))
    names = (*names, NULL_ROI) if plan.null_roi else names
    return names, cube.calendar.seconds()[first:stop][begins].astype("datetime64[s]")


@contextmanager
def staged_release(release: RawRelease, name: str, form: str) -> Iterator[tuple[str, LedgerEntry]]:
    """Write a release into the memory of this process; yield its address there, and its entry.

    What is not published never reaches a disk.

    Raises
    ------
    InputError
        If the format cannot contain the release.
    """
    folder = f"memory://publish-{secrets.token_hex(8)}"
    uri = f"{folder}/{name}{plans.ENDINGS[form]}"
    entry = release.metadata.ledger
    assert entry is not None  # each release of a series has one
    try:
        # First with zeros for the digest of all bytes and for the seal, as `digest_files` has them.
        empty = entry.model_copy(update={"stored": "0" * 32, "seal": "0" * 32})
        digest = digest_files(_write(uri, release, empty), empty)
        entry = entry.model_copy(update={"stored": digest}).sealed()
        same = digest_files(_write(uri, release, entry), entry) == digest
        kept = choose_format(uri).read(uri)
        if not (same and kept.is_as_published and kept.metadata.ledger == entry):
            raise InputError(
                f"publish.format: {form} does not keep such a release: choose zarr or netcdf"
            )
        if form != "zarr":  # a Zarr group is a folder of arrays only, and has it as an attribute
            page = explain_release(uri.rpartition("/")[2], release)
            storage.put(f"{uri}{README}", page.encode())
        yield uri, entry
    finally:
        storage.remove(folder)


def _write(uri: str, release: RawRelease, entry: LedgerEntry) -> dict[str, bytes]:
    """Write a release with an entry, and return the content of its files."""
    about = release.metadata.model_copy(update={"ledger": entry})
    choose_format(uri).write(uri, replace(release, metadata=about))
    files = files_of(uri)
    if "/zarr.json" in files:
        inside = {path.removeprefix("/"): content for path, content in files.items()}
        files["/zarr.json"] = consolidate(inside)
        storage.put(f"{uri}/zarr.json", files["/zarr.json"])
    return files
