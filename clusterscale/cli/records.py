"""The verb that turns records into a cube."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from clusterscale.cli.options import Force, argument, option
from clusterscale.cli.show import out, progress, show_cube
from clusterscale.errors import InputError

if TYPE_CHECKING:
    from clusterscale.cube import Locator


def ingest(
    source: Annotated[str, argument("File, folder or URL of records.")],
    cube: Annotated[str, argument("Where to write the cube.")],
    start: Annotated[str, typer.Option(help="Beginning of epoch 0, ISO, in the time zone.")],
    epochs: Annotated[int, typer.Option(help="How many epochs.")],
    reader: Annotated[str, typer.Option(help="events, cabspotting, trips or geojson.")] = "events",
    column: Annotated[
        list[str] | None,
        typer.Option(help="A field of the reader, e.g. user=card_id; may be repeated."),
    ] = None,
    grid: Annotated[
        str | None, typer.Option(help="south,west,north,east/ROWSxCOLUMNS in degrees.")
    ] = None,
    points: Annotated[str | None, option("CSV of places: name,lat,lon.")] = None,
    cutoff: Annotated[
        float | None, typer.Option(help="Metres beyond which no point is near.")
    ] = None,
    h3: Annotated[
        str | None, typer.Option(help="south,west,north,east/RESOLUTION of H3 cells.")
    ] = None,
    epoch: Annotated[str, typer.Option(help="Length of an epoch: 15min, 1h, 1d.")] = "1h",
    timezone: Annotated[str, typer.Option(help="IANA name of the time zone.")] = "UTC",
    pseudonymise: Annotated[
        str | None, option("File with a secret key; user ids become keyed hashes.")
    ] = None,
    top_users: Annotated[
        int | None, typer.Option(help="Keep only so many users, those with most events.")
    ] = None,
    min_events: Annotated[int, typer.Option(help="Keep only users with so many events.")] = 1,
    force: Force = False,
) -> None:
    """Turn records of who was where and when into a cube; every dropped row is accounted for."""
    from clusterscale.cube import Calendar, TraceCube
    from clusterscale.ingest import READERS, read_key
    from clusterscale.ingest import ingest as build

    fields = dict(_pair(text) for text in column or ())
    chosen = READERS.create(reader, **fields)
    locator = _locator(grid, points, cutoff, h3)
    calendar = Calendar.parse(start, epoch, epochs, timezone)
    with progress() as bar:
        line = bar.add_task("ingest")

        def tell(stage: str, done: int, total: int) -> None:
            bar.update(line, description=stage, completed=done, total=total)

        report = build(
            source,
            cube,
            reader=chosen,
            locator=locator,
            calendar=calendar,
            pseudonymise=read_key(pseudonymise) if pseudonymise else None,
            top_users=top_users,
            min_events=min_events,
            force=force,
            on_progress=tell,
        )
    out.print(str(report), highlight=False)
    show_cube(TraceCube(cube))


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise InputError(f"--column {text!r} is not FIELD=NAME, e.g. user=card_id")
    return key, value


def _locator(
    grid: str | None, points: str | None, cutoff: float | None, h3: str | None
) -> Locator | None:
    from clusterscale.cube import Grid, Hexagons
    from clusterscale.ingest import read_points

    if sum(option is not None for option in (grid, points, h3)) > 1:
        raise InputError("give one of --grid, --points and --h3")
    if cutoff is not None and points is None:
        raise InputError("--cutoff goes with --points")
    if grid is not None:
        return Grid.parse(grid)
    if h3 is not None:
        return Hexagons.parse(h3)
    return None if points is None else read_points(points, cutoff)
