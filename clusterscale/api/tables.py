"""Checks of published tables that need no traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from clusterscale import release
from clusterscale.api.arrays import make
from clusterscale.api.execution import open_map, show_progress
from clusterscale.config import load_publication
from clusterscale.config.plain_yaml import content_of, read_text
from clusterscale.contracts import Bounds, Mechanism
from clusterscale.errors import ExistsError, InputError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.models import dump_yaml
from clusterscale.release import TABLE_FORMATS, TableFormat
from clusterscale.release import checks as release_checks
from clusterscale.release.checks import CheckResult, Masked, PublishedTable, TableFindings
from clusterscale.release.entry import inputs_of
from clusterscale.release.metadata import beside
from clusterscale.release.publication import MARGINS, Follow
from clusterscale.release.text import TextTable
from clusterscale.runtime import Cluster
from clusterscale.storage import check_outputs, list_names
from clusterscale.storage.atomic import put_folder
from clusterscale.study import Progress, Tell
from clusterscale.study.execution import Executor

PUBLICATION = "publication.yaml"
"""Name of the file with the tables of a publication that was repaired."""


def check(
    values: ArrayLike | xr.DataArray | xr.Dataset,
    mechanism: Mechanism | Mapping[str, Any] | str,
    group_size: int,
    *,
    counts: ArrayLike | None = None,
    roi_totals: ArrayLike | None = None,
    epoch_totals: ArrayLike | None = None,
    bounds: Bounds | None = None,
    others: Sequence[PublishedTable] = (),
    subset_of: Sequence[str] = (),
    first_epoch: int = 0,
    name: str = "table",
    seed: int = 0,
) -> xr.Dataset:
    """Check that a published table matches its declared mechanism and discloses nothing else.

    :mod:`clusterscale.release.checks` lists what each check detects. No check shows that a table is
    safe: that takes an audit.

    Parameters
    ----------
    values
        Published values, shape (roi, epoch), visits; NaN = redacted. An array, a DataArray with
        dimensions ``roi`` and ``epoch`` in any order, or a Dataset with a variable ``values`` and,
        if they were published, ``roi_total`` and ``epoch_total``.
    mechanism
        What the publisher declares: an object, a name, or a mapping with a name and settings, such
        as ``{"name": "suppress_small", "up_to": 3}``.
    group_size
        Number of people counted.
    counts
        True counts, integers, shape (roi, epoch), visits; −1 where unknown. None: none is known.
    roi_totals, epoch_totals
        Published totals, shapes (roi,) and (epoch,), visits; NaN = redacted.
    bounds
        The most that one unit of data changes the counts; the source of a sensitivity that the
        mechanism does not set. Without it, a mechanism of unknown sensitivity is refused.
    others
        Tables published earlier or together with this one, to be compared with it.
    subset_of
        Names of those of them that count everyone whom this table counts.
    first_epoch
        Number of the epoch of the first column, on the same calendar as that of ``others``.
    name
        Name of the table in messages.
    seed
        Root seed of the checks that draw random numbers.

    Returns
    -------
    xr.Dataset
        Over ``check``: ``level`` (consistent, inconsistent, or unknown where a check cannot
        decide), ``measured`` and ``expected`` (NaN where unknown), ``n_cells``, and ``text``, a
        sentence. ``attrs["level"]`` is that of the table, as by ``clusterscale check``: consistent
        only if a check could decide, and no comparison with ``others`` or ``counts`` is undecided.

    Raises
    ------
    InputError
        If an array has the wrong shape, or a count is out of range.
    ConfigError, UnknownNameError
        If there is no such mechanism, it cannot be applied to the table, or its sensitivity is not
        known.
    """
    array, totals = _values_of(values)
    declared = make(MECHANISMS, mechanism)
    if bounds is not None:
        declared = declared.bind(bounds)
    table = PublishedTable(
        name=name,
        values=array,
        group_size=group_size,
        mechanism=declared,
        first_epoch=first_epoch,
        counts=np.full(array.shape, -1, np.int32) if counts is None else _whole(counts),
        roi_totals=_floats(totals.get("roi_total") if roi_totals is None else roi_totals),
        epoch_totals=_floats(totals.get("epoch_total") if epoch_totals is None else epoch_totals),
        subset_of=tuple(subset_of),
    )
    checks = release_checks.create_checks()
    results = release_checks.check_table(table, others, checks, seed=seed)
    changes = getattr(values, "attrs", {}).get("changes")
    undecided = [
        *release_checks.open_comparison(checks, results),
        *([] if changes is None else [changes]),
    ]
    return _dataset(results, name, undecided)


def read_table(uri: str, form: TableFormat | Mapping[str, Any] | str | None = None) -> xr.Dataset:
    """Read a published table of any format.

    Parameters
    ----------
    uri
        A file, a folder of files or a Zarr group, a local path or fsspec URL.
    form
        Its format: an object, a name, or a mapping with a name and settings, such as ``{"name":
        "long", "place": "zone"}``; by default the one that its ending suggests.

    Returns
    -------
    xr.Dataset
        ``values`` over (roi, epoch), float64, NaN where hidden; ``roi_total`` and ``epoch_total``
        if they were published; ``flag``, str, if the format states flags or statuses of values. As
        :func:`check` takes it. ``attrs["changes"]`` says what reading has added up or merged, and
        what is not covered, if anything: such a table is never consistent.

    Raises
    ------
    MissingError
        If nothing is stored there.
    InputError, FormatError, ConfigError
        If it does not fit the format; names file, row and column.
    DamagedError, StoreError
        If it cannot be read.
    """
    layout = _format_of(form)
    found = release.read_table(uri, layout)
    names: dict[str, Any] = {"roi": found.rois, "epoch": found.epochs}
    coords = {name: axis for name, axis in names.items() if axis is not None}
    variables: dict[str, Any] = {"values": (("roi", "epoch"), found.values)}
    totals = {"roi": found.totals.roi, "epoch": found.totals.epoch}
    variables |= {f"{dim}_total": (dim, one) for dim, one in totals.items() if one is not None}
    if isinstance(layout, TextTable) and (flags := layout.read_flags(uri)) is not None:
        variables["flag"] = (("roi", "epoch"), flags)
    attributes = found.metadata.model_dump(mode="json", include=found.metadata.model_fields_set)
    if changes := (*found.changes, *found.notes):
        attributes["changes"] = "; ".join(changes)
    return xr.Dataset(
        variables, {dim: np.asarray(axis) for dim, axis in coords.items()}, attributes
    )


def check_tables(
    uris: Sequence[str],
    *,
    beside: Sequence[str] = (),
    mechanism: Mechanism | Mapping[str, Any] | str | None = None,
    group_size: int | None = None,
    subset_of: Mapping[str, str | Sequence[str]] | None = None,
    form: TableFormat | Mapping[str, Any] | str | None = None,
    seed: int = 0,
    executor: Executor | Cluster | None = None,
    progress: bool | Tell = True,
) -> list[TableFindings]:
    """Check published tables alone and against each other, without traces.

    :mod:`clusterscale.release.checks` lists what each check detects. No check shows that a table is
    safe: that takes an audit.

    Parameters
    ----------
    uris
        The tables to check; or one YAML file that lists the tables of a publication and how they
        are related, without any argument from ``beside`` to ``form``.
    beside
        Tables that were published with or before them.
    mechanism
        What the publisher declares of all tables; None: what each states itself.
    group_size
        Number of people in each table; None: what each states itself. A table of unknown size is
        not compared with others.
    subset_of
        Names of the tables that count everyone whom a table counts, and others, by its name, e.g.
        ``{"residents.csv": "all.csv"}``, besides those that the table itself states.
    form
        Format of all tables; by default the one that the ending of each suggests.
    seed
        Root seed of the checks that draw random numbers.
    executor, progress
        Where integer programs run, which find the ranges of cells that no sum gives alone: as for
        :func:`~clusterscale.api.audit`. None: in this process, if at most 10,000 counts of a
        publication are hidden. Findings do not depend on the number of workers.

    Returns
    -------
    list[TableFindings]
        One for each of ``uris``, with a ``verdict`` and the results of all checks. For a
        publication, one of what follows from all its tables, and then one for each.

    Raises
    ------
    MissingError, InputError, FormatError, ConfigError, DamagedError, StoreError
        If a table cannot be read, how it was published is not known, or ``subset_of`` names a
        table that is not given.
    """
    if is_publication(uris):
        if any(one is not None and len(one) for one in (beside, subset_of)) or any(
            one is not None for one in (mechanism, group_size, form)
        ):
            raise InputError(f"{uris[0]}: a publication states all of its tables in the file")
        plan = load_publication(uris[0])
        with show_progress(progress, "check") as tell, open_map(executor, tell, "check") as run:
            return release_checks.check_publication(
                plan,
                _name_of(uris[0]),
                release_checks.create_checks(),
                seed=seed,
                run=run,
                follow=_follow(tell),
            )
    read = [
        replace(release.read_table(uri, _format_of(form)), name=_name_of(uri))
        for uri in (*uris, *beside)
    ]
    names = [one.name for one in read]
    read = [
        one if names.count(one.name) == 1 else replace(one, name=uri)
        for one, uri in zip(read, (*uris, *beside), strict=True)
    ]
    declared = None if mechanism is None else make(MECHANISMS, mechanism)
    findings = release_checks.check_together(
        read[: len(uris)],
        read[len(uris) :],
        release_checks.create_checks(),
        mechanism=declared,
        group_size=group_size,
        subset_of={
            part: (wholes,) if isinstance(wholes, str) else wholes
            for part, wholes in (subset_of or {}).items()
        },
        seed=seed,
    )
    forms = [_format_of(form) or release.choose_format(uri) for uri in uris]
    with open_map(executor, progress, "check") as run:
        return [
            release_checks.add_levels(found, uri, one, declared, group_size, run)
            for found, uri, one in zip(findings, uris, forms, strict=True)
        ]


def repair_tables(
    uri: str,
    folder: str,
    *,
    cost: Literal["count", "value"] = "count",
    executor: Executor | Cluster | None = None,
    progress: bool | Tell = True,
) -> Masked:
    """Hide further cells of tables that are published together, so that nothing follows from them.

    ``folder`` then has all tables, with these cells hidden, and the files of parents; their
    publication, which can be checked and moved with them; and ``mask.csv`` with the cells and the
    reason for each.

    Parameters
    ----------
    uri
        A YAML file that lists the tables of a publication and how they are related.
    folder
        Folder to write to. One that a repair has written is replaced; others are refused, if they
        have files.
    cost
        Whether as few cells as possible are hidden (``count``), or cells with as few people
        (``value``).
    executor, progress
        As for :func:`~clusterscale.api.check_tables`.

    Returns
    -------
    Masked
        What was hidden and why, and what follows whatever is hidden.

    Raises
    ------
    MissingError, InputError, FormatError, ConfigError, DamagedError, StoreError
        If a table cannot be read or written, no counts fit what is published, a name would be
        computed by a spreadsheet, or the folder contains a table to repair.
    ExistsError
        If the folder has other files than those of a repair.
    """
    plan, content = load_publication(uri), content_of(read_text(uri), uri)
    check_outputs([folder], [*(one for each in plan.addresses for one in inputs_of(each)), uri])
    _check_replaceable(folder)
    declared = bool(plan.model_fields_set & MARGINS)
    if not declared:  # it is enough that no count is determined
        plan, content = plan.model_copy(update={"within": 0}), {"within": 0, **content}
    with open_map(executor, progress, "repair") as run:
        masked = release_checks.mask_publication(plan, by_value=cost == "value", run=run)
    if not declared:
        left = "no margin is declared, so counts may still be known within ± 1 (`within: 0`)"
        masked = replace(masked, summary=f"{masked.summary}; {left}")
    for entry, changes in zip(content["tables"], masked.tables, strict=True):
        entry |= changes
    text = dump_yaml(content, allow_unicode=True, width=88)
    put_folder(folder, {**masked.files, PUBLICATION: text.encode()}, last=PUBLICATION)
    return masked


def _follow(tell: Tell) -> Follow:
    """Return a function that yields items, and tells how many are done."""

    def follow(stage: str, items: Sequence[Any]) -> Iterator[Any]:
        for n_done, item in enumerate(items):
            tell(Progress(stage, len(items), n_done))
            yield item
        tell(Progress(stage, len(items), len(items)))

    return follow


def _check_replaceable(folder: str) -> None:
    """Check that all files of a folder, if there is one, are those of an earlier repair."""
    if not (names := list_names(folder)):
        return
    known = set[str]()
    if {release_checks.MASK, PUBLICATION} <= {*names}:
        tables = map(_name_of, load_publication(f"{folder}/{PUBLICATION}").addresses)
        known = {release_checks.MASK, PUBLICATION}.union(
            *((table, beside(table)) for table in tables)
        )
    if others := sorted({*names} - known):
        raise ExistsError(f"{folder} has {others[0]}, which no repair wrote: name another folder")


def is_publication(uris: Sequence[str]) -> bool:
    """Return whether an address is that of a file with the tables of a publication."""
    return len(uris) == 1 and uris[0].lower().endswith((".yaml", ".yml"))


def _format_of(form: TableFormat | Mapping[str, Any] | str | None) -> TableFormat | None:
    return None if form is None else make(TABLE_FORMATS, form)


def _name_of(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2] or uri


def _values_of(values: Any) -> tuple[NDArray[np.float64], Mapping[str, Any]]:
    """Return the published values as (roi, epoch), and the totals beside them, if any."""
    totals: Mapping[str, Any] = {}
    if isinstance(values, xr.Dataset):
        if "values" not in values:
            raise InputError(f"the dataset has no variable `values`, but {list(values)}")
        totals = {key: values[key] for key in ("roi_total", "epoch_total") if key in values}
        values = values["values"]
    if isinstance(values, xr.DataArray):
        if set(values.dims) != {"roi", "epoch"}:
            raise InputError(f"values have dimensions {values.dims}, but should have (roi, epoch)")
        values = values.transpose("roi", "epoch")
    return np.asarray(values, np.float64), totals


def _floats(totals: Any) -> NDArray[np.float64] | None:
    return None if totals is None else np.asarray(totals, np.float64)


def _whole(counts: ArrayLike) -> NDArray[np.int32]:
    """Return integers as int32.

    Raises
    ------
    InputError
        If they are not whole numbers, or too large.
    """
    given = np.asarray(counts)
    if given.dtype.kind not in "iu" or (given.size and given.min() < -1):
        raise InputError(f"counts are {given.dtype}, but should be whole numbers of at least −1")
    if given.size and given.max() > np.iinfo(np.int32).max:
        raise InputError(f"counts of up to {given.max()} are too large")
    return given.astype(np.int32)


def _dataset(results: Sequence[CheckResult], name: str, undecided: Sequence[object]) -> xr.Dataset:

    texts = dict.fromkeys(("check", "level", "text"), object)
    table = pd.DataFrame(list(results)).astype(texts).set_index("check")
    attributes = {"table": name, "level": release_checks.worst_level(results, undecided)}
    return xr.Dataset.from_dataframe(table).assign_attrs(attributes)
