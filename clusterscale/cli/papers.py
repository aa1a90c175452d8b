"""The ``reproduce`` command: compute the papers' figures and tables again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from clusterscale.cli import options as shared
from clusterscale.cli.console import err, out
from clusterscale.cli.running import report_status, running_cluster
from clusterscale.cli.tables import show_table
from clusterscale.errors import ClusterError, ClusterscaleError, InputError, StoreError
from clusterscale.validation_messages import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterscale.papers import Cubes, PaperStudy
    from clusterscale.reporting.papers import StudyReport
    from clusterscale.runtime import Cluster


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(show_default=False)] = None,
    cabs: shared.OptionalAddress = None,
    milan: shared.OptionalAddress = None,
    output: shared.Address = "runs/papers",
    cluster: str | None = None,
    workers: shared.Workers = None,
    memory: str | None = None,
    figures: shared.OptionalAddress = None,
    quick: Annotated[bool, typer.Option("--quick")] = False,
    only_list: shared.OnlyList = False,
) -> None:
    """Compute figures and tables of the papers again, and compare them with the published numbers.

    Finished work in the folder is not repeated. Exits with 1 if a study failed.

    Parameters
    ----------
    names
        Studies as in --list, papers such as ndss18, data such as cabs, or all.
    cabs
        The San Francisco cabs: a cube, their fixes as Parquet, or the original files.
    milan
        Milan's tweets instead of the preset: a cube, Parquet, or Social Pulse's GeoJSON.
    output
        Folder of all studies: path or URL.
    figures
        Folder for every figure as SVG, as for a paper of one's own.
    quick
        Ten targets, and fewer settings.
    only_list
        Only list the studies.
    """
    from clusterscale.config import find_studies, load_study
    from clusterscale.papers import Cubes
    from clusterscale.reporting import write_page
    from clusterscale.reporting.papers import draw_figures, render_reproduced
    from clusterscale.runtime import Local
    from clusterscale.storage import check_outputs

    if not (names or only_list):
        raise InputError(
            "name studies, for example `clusterscale reproduce ndss18`, or run all of them with "
            "`clusterscale reproduce all`; `clusterscale reproduce --list` lists them"
        )
    paths = find_studies(names or ["all"])
    studies = {name: load_study(path, quick=quick) for name, path in paths.items()}
    folder = output.rstrip("/")
    cubes = Cubes(f"{folder}/cubes", {"cabs": cabs, "milan": milan})
    if only_list:
        _list(studies, cubes)
        return
    home = f"{folder}/quick" if quick else folder
    name = "quick" if quick else "reproduced"
    own = [f"{folder}/{name}.html", *(f"{home}/{study}" for study in studies)]
    check_outputs([*own, figures and f"{figures}/figure.svg"], [cabs, milan])
    chosen_cluster = shared.pick_cluster(Local(), cluster, workers)
    reports, n_failed = _work(studies, cubes, home, chosen_cluster, memory)
    show_table(out, "reproduced", reports, share=_share, len=len)
    page = write_page(render_reproduced(reports), f"{folder}/{name}.html")
    out.print(f"page     {page}", soft_wrap=True)
    if figures:
        saved = [f.save(f"{figures.rstrip('/')}/{f.slug}.svg") for f in draw_figures(reports)]
        out.print(f"figures  {plural(len(saved), 'file')} in {figures}")
    if n_failed:
        raise typer.Exit(1)


def _list(studies: Mapping[str, PaperStudy], cubes: Cubes) -> None:
    rows = [
        (name, study, sum(1 for numbers in study.published for _ in numbers.figures()))
        for name, study in studies.items()
    ]
    show_table(out, "studies", rows, cubes=cubes, len=len)


def _work(
    studies: Mapping[str, PaperStudy],
    cubes: Cubes,
    folder: str,
    cluster: Cluster,
    memory: str | None,
) -> tuple[list[StudyReport], int]:
    """Run all studies whose data exist; return their reports and the number of failures."""
    from clusterscale.papers import REAL, report_without_results, reproduce
    from clusterscale.study import prefixed

    reports: list[StudyReport] = []
    n_failed, allowed = 0, shared.parse_memory(memory, cluster)
    with (
        report_status(folder, "reproduction") as status,
        running_cluster(cluster, "reproduce", status) as (executor, tell),
    ):
        for name, study in studies.items():
            if not cubes.has(study):
                why = f"it needs the {REAL[study.cube].users}: give their location with "
                reports.append(report_without_results(name, study, f"{why}--{study.cube}"))
                continue
            address = cubes, f"{folder}/{name}", executor
            try:
                report = reproduce(name, study, *address, memory=allowed, tell=prefixed(tell, name))
            except (ClusterError, StoreError):
                raise
            except ClusterscaleError as error:
                n_failed += 1
                err.print(f"[bold red]{name}[/]: {escape(str(error))}", soft_wrap=True)
                report = report_without_results(name, study, "it failed")
            reports.append(report)
    return reports, n_failed


def _share(part: int, whole: int) -> str:
    return f"{part:,}/{whole:,}" if whole else "–"
