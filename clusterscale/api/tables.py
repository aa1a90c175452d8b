"""Checks of published tables that need no traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
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
from clusterscale.release import TABLE_FORMATS, PublishedTotals, RawRelease, TableFormat
from clusterscale.release import checks as release_checks
from clusterscale.release.checks import Masked, TableFindings
from clusterscale.release.entry import inputs_of
from clusterscale.release.metadata import beside as described
from clusterscale.release.metadata import read_metadata
from clusterscale.release.publication import MARGINS, Follow
from clusterscale.release.text import TextTable
from clusterscale.runtime import Cluster
from clusterscale.storage import check_outputs, list_names
from clusterscale.storage.atomic import put_folder
from clusterscale.study import Progress, Tell
from clusterscale.study.execution import Executor

PUBLICATION = "publication.yaml"
"""Name of the file with the tables of a publication that was repaired."""

Table = str | ArrayLike | xr.DataArray | xr.Dataset
"""An address of a table, or its values."""


def check(
    tables: Table | Sequence[str] | Mapping[str, Table],
    mechanism: Mechanism | Mapping[str, Any] | str | None = None,
    group_size: int | None = None,
    *,
    beside: Table | Sequence[str] | Mapping[str, Table] = (),
    subset_of: Mapping[str, str | Sequence[str]] | None = None,
    form: TableFormat | Mapping[str, Any] | str | None = None,
    counts: ArrayLike | None = None,
    bounds: Bounds | None = None,
    seed: int = 0,
    executor: Executor | Cluster | None = None,
    progress: bool | Tell = True,
) -> list[TableFindings]:
    """Check published tables alone and against each other, without traces.

    :mod:`clusterscale.release.checks` lists what each check detects. No check shows that a table is
    safe: that takes an audit.

    Parameters
    ----------
    tables
        A table, or several: addresses, or values by name. Values are an array of shape (roi,
        epoch), visits, NaN = redacted; a DataArray with dimensions ``roi`` and ``epoch`` in any
        order; or a Dataset as :func:`read_table` returns, with a variable ``values`` and, if they
        were published, ``roi_total`` and ``epoch_total``, whose attributes may state metadata.
        Epochs without a coordinate are numbered from 0. Or one YAML file that lists the tables of a
        publication and how they are related, without any argument from ``mechanism`` to ``bounds``.
    mechanism
        What the publisher declares of all tables: an object, a name, or a mapping with a name and
        settings, such as ``{"name": "suppress_small", "up_to": 3}``; None: what each states itself.
    group_size
        Number of people in each table; None: what each states itself. A table of unknown size is
        not compared with others.
    beside
        Tables that were published with or before them, in the same forms.
    subset_of
        Names of the tables that count everyone whom a table counts, and others, by its name, e.g.
        ``{"residents.csv": "all.csv"}``, besides those that the table itself states.
    form
        Format of all tables; by default the one that the ending of each suggests.
    counts
        True counts of the table, if it is one, integers, shape (roi, epoch), visits; −1 where
        unknown. None: none is known.
    bounds
        The most that one unit of data changes the counts; the source of a sensitivity that the
        mechanism does not set. Without it, a mechanism of unknown sensitivity is not checked.
    seed
        Root seed of the checks that draw random numbers.
    executor, progress
        Where integer programs run, which find the ranges of cells that no sum gives alone: as for
        :func:`~clusterscale.api.audit`. None: in this process, if at most 10,000 counts of a
        publication are hidden. Findings do not depend on the number of workers.

    Returns
    -------
    list[TableFindings]
        One for each of ``tables``, with a ``verdict`` and the results of all checks: ``pass`` only
        if a check could decide, and no comparison with ``beside`` or ``counts`` is undecided. For a
        publication, one of what follows from all its tables, and then one for each.

    Raises
    ------
    MissingError, InputError, FormatError, ConfigError, DamagedError, StoreError
        If a table cannot be read, an array has the wrong shape, a count is out of range, how a
        table was published is not known, or ``subset_of`` names a table that is not given.
    UnknownNameError
        If there is no such mechanism.
    """
    checks = release_checks.create_checks()
    if (uri := publication_of(tables)) is not None:
        others = None if isinstance(beside, Sequence) and not beside else beside
        stated = (others, mechanism, group_size, subset_of or None, form, counts, bounds)
        if any(one is not None for one in stated):
            raise InputError(f"{uri}: a publication states all of its tables in the file")
        plan, name = load_publication(uri), _name_of(uri)
        with show_progress(progress, "check") as tell, open_map(executor, tell, "check") as run:
            return release_checks.relate_tables(
                plan, name, checks, seed=seed, run=run, follow=_follow(tell)
            )
    layout, declared = _format_of(form), None
    if mechanism is not None:
        declared = make(MECHANISMS, mechanism)
        declared = declared if bounds is None else declared.bind(bounds)
    given = _read_all(tables, layout)
    read = _named_apart([*given, *_read_all(beside, layout)])
    if counts is not None and len(given) != 1:
        raise InputError(f"counts are those of one table, but {len(given)} are given")
    releases = [one.release for one in read]
    findings = release_checks.compare_tables(
        releases[: len(given)],
        releases[len(given) :],
        checks,
        mechanism=declared,
        group_size=group_size,
        subset_of={
            part: (wholes,) if isinstance(wholes, str) else wholes
            for part, wholes in (subset_of or {}).items()
        },
        counts=None if counts is None else _whole(counts),
        seed=seed,
    )
    with open_map(executor, progress, "check") as run:
        return [
            release_checks.relate_alone(found, *one, declared, group_size, run)
            for found, one in zip(findings, read, strict=False)
        ]


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
        As for :func:`~clusterscale.api.check`.

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
            *((table, described(table)) for table in tables)
        )
    if others := sorted({*names} - known):
        raise ExistsError(f"{folder} has {others[0]}, which no repair wrote: name another folder")


def publication_of(tables: object) -> str | None:
    """Return the address of a file with the tables of a publication; None for other tables."""
    uri = tables[0] if isinstance(tables, list | tuple) and len(tables) == 1 else tables
    is_file = isinstance(uri, str) and uri.lower().endswith((".yaml", ".yml"))
    return str(uri) if is_file else None


def _format_of(form: TableFormat | Mapping[str, Any] | str | None) -> TableFormat | None:
    return None if form is None else make(TABLE_FORMATS, form)


def _name_of(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2] or uri


class _Read(NamedTuple):
    """A table that was read: its address or name, its format, and what it has."""

    uri: str
    form: TableFormat
    release: RawRelease


def _read_all(tables: Any, form: TableFormat | None) -> list[_Read]:
    """Return what tables at addresses have, or those of values."""
    if isinstance(tables, Mapping) and not isinstance(tables, xr.Dataset):
        return [_read(table, form, name) for name, table in tables.items()]
    if isinstance(tables, list | tuple) and all(isinstance(one, str) for one in tables):
        return [_read(uri, form, _name_of(uri)) for uri in tables]
    return [_read(tables, form, _name_of(tables) if isinstance(tables, str) else "table")]


def _named_apart(tables: Sequence[_Read]) -> list[_Read]:
    """Return tables of which those with the name of another one are named by their address."""
    names = [one.release.name for one in tables]
    return [
        one if names.count(one.release.name) == 1
        else one._replace(release=replace(one.release, name=one.uri))
        for one in tables
    ]  # fmt: skip


def _read(table: Any, form: TableFormat | None, name: str) -> _Read:
    """Return a table at an address, or that of values."""
    if isinstance(table, str):
        read = replace(release.read_table(table, form), name=name)
        return _Read(table, form or release.choose_format(table), read)
    attributes: Mapping[str, Any] = {}
    totals: dict[str, Any] = {}
    if isinstance(table, xr.Dataset):
        if "values" not in table:
            raise InputError(f"the dataset has no variable `values`, but {list(table)}")
        for dim in ("roi", "epoch"):
            if (total := table.get(f"{dim}_total")) is not None:
                totals[dim] = np.asarray(total, np.float64)
        table, attributes = table["values"], table.attrs
    axes: Mapping[str, Any] = {}
    if isinstance(table, xr.DataArray):
        if set(table.dims) != {"roi", "epoch"}:
            raise InputError(f"values have dimensions {table.dims}, but should have (roi, epoch)")
        table = table.transpose("roi", "epoch")
        axes = {str(dim): axis.to_numpy() for dim, axis in table.coords.items()}
    values = np.asarray(table, np.float64)
    if values.ndim != 2:
        raise InputError(f"{name}: values have shape {values.shape}, but should be (roi, epoch)")
    read = RawRelease(
        values=values,
        rois=tuple(map(str, axes["roi"])) if "roi" in axes else None,
        epochs=axes.get("epoch", np.arange(values.shape[1])),
        totals=PublishedTotals(**totals),
        metadata=read_metadata(attributes, name)[0],
        changes=(attributes["changes"],) if "changes" in attributes else (),
        name=name,
    )
    return _Read(name, TABLE_FORMATS.create("arrays"), read)


def _whole(counts: ArrayLike) -> NDArray[np.int32]:
    """Return whole numbers as int32; raises InputError if they are none, or too large."""
    given = np.asarray(counts)
    if given.dtype.kind not in "iu" or (given.size and given.min() < -1):
        raise InputError(f"counts are {given.dtype}, but should be whole numbers of at least −1")
    if given.size and given.max() > np.iinfo(np.int32).max:
        raise InputError(f"counts of up to {given.max()} are too large")
    return given.astype(np.int32)
