"""Write the format of a published table, and show how it is understood."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import typer

from clusterscale.cli.console import out
from clusterscale.cli.options import say_command
from clusterscale.errors import ConfigError, InputError
from clusterscale.redaction import one_line
from clusterscale.validation_messages import plural

if TYPE_CHECKING:
    from clusterscale.release import RawRelease
    from clusterscale.release.propose import Proposal

_CELLS = 10


def write_format(file: Path, table: str, settings: Sequence[str]) -> None:
    """Write the format that reads a table, and show ten cells; exit with 3 if it is in doubt.

    Asks where the table does not decide, if the terminal can answer. Raises InputError, and writes
    nothing, if the table is not read.
    """
    proposal = _propose(table, _parse(settings))
    if proposal.release is None:
        raise InputError(
            f"{table} is not read, and no format was written"
            + "".join(f"\n{doubt.key}: {doubt.question}" for doubt in proposal.doubts)
            + (f"\n{proposal.fault}" if proposal.fault else "")
            + (f"\nanswer with {_answers(proposal)}" if proposal.doubts else "")
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_as_yaml(proposal, table), encoding="utf-8")
    _show(proposal.release)
    out.print(f"wrote {file}", markup=False)
    for doubt in proposal.doubts:
        out.print(f"in doubt: {doubt.key}: {doubt.question}", markup=False)
    if proposal.doubts:
        out.print(f"overwrite it with --force {_answers(proposal)}", markup=False)
        raise typer.Exit(3)
    say_command("check", "check", table, "--format", str(file), "--method", "METHOD")


def _answers(proposal: Proposal) -> str:
    return " ".join(f"--setting {doubt.key}=ANSWER" for doubt in proposal.doubts)


def _propose(table: str, given: dict[str, Any]) -> Proposal:
    """Return the proposal for a table, after questions to the terminal if it can answer."""
    from clusterscale.release.propose import propose_format

    while True:
        proposal = propose_format(table, given)
        if not proposal.doubts or not sys.stdin.isatty():
            return proposal
        doubt = proposal.doubts[0]
        known = proposal.fields.get(doubt.key)
        typer.echo(doubt.question)
        answer = typer.prompt(doubt.key, default=None if known is None else str(known))
        kept = known is not None and answer == str(known)
        try:
            answered = {doubt.key: known} if kept else _parse([f"{doubt.key}={answer}"])
            tried = propose_format(table, given | answered)
            wrong = "" if tried.doubts else tried.fault
        except ConfigError as error:
            wrong = str(error)
        if wrong:
            typer.echo(f"{wrong}: answer again")
        else:
            given |= answered


def _parse(settings: Sequence[str]) -> dict[str, Any]:
    """Return settings of a format from texts KEY=VALUE, whose values are YAML."""
    import yaml

    from clusterscale.config.plain_yaml import content_of

    given = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise InputError(f"--setting {text!r} is not KEY=VALUE, e.g. timezone=Europe/London")
        try:
            yaml.compose(value)
            given[key] = content_of(value, f"--setting {key}")
        except yaml.YAMLError:
            given[key] = value
        if value.lower() == "none":
            given[key] = None
    return given


def _as_yaml(proposal: Proposal, table: str) -> str:
    from clusterscale.models import dump_yaml

    fields = dict(proposal.fields)
    if proposal.doubts:
        fields["in_doubt"] = [f"{doubt.key}: {doubt.question}" for doubt in proposal.doubts]
    shown = dump_yaml(fields, allow_unicode=True, width=200)
    return f"# How {one_line(table)} is read.\n{shown}"


def _show(release: RawRelease) -> None:
    """Print the size of a table, its first cells and its last one."""
    import numpy as np
    from rich.table import Table

    n_places, n_epochs = release.values.shape
    names = release.rois or tuple(str(i) for i in range(n_places))
    times: Any = release.epochs if release.epochs is not None else np.arange(n_epochs)
    zone = f", {release.timezone}" if times.dtype.kind == "M" else ""
    if zone:
        times = np.datetime_as_string(times, unit="m", timezone=ZoneInfo(release.timezone))
    gaps = np.zeros(release.values.shape, bool) if (one := release.not_covered) is None else one
    shown = Table("place", f"time{zone}", "value", box=None)
    n_cells = release.values.size
    for cell in [*range(min(_CELLS, n_cells) - 1), n_cells - 1]:
        place, epoch = cell % n_places, cell // n_places
        value = release.values[place, epoch]
        text = "hidden" if np.isnan(value) else f"{value:g}"
        shown.add_row(
            names[place], str(times[epoch]), "not covered" if gaps[place, epoch] else text
        )
    out.print(shown)
    hidden = int((np.isnan(release.values) & ~gaps).sum())
    numbers = plural(n_places, "place"), plural(n_epochs, "time"), plural(hidden, "value")
    out.print(f"{', '.join(numbers)} hidden")
    out.print(*release.notes, sep="\n", markup=False)
