"""The ``report`` command: write results as a page or as tables."""

from __future__ import annotations

import webbrowser
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clusterscale.cli import options as shared
from clusterscale.cli.console import err, out
from clusterscale.cli.tables import Key, show_table
from clusterscale.errors import ExistsError, InputError
from clusterscale.phrases import at_most

if TYPE_CHECKING:
    from clusterscale.reporting import Run
    from clusterscale.reporting.certificates import BracketCase


def report(
    results: shared.AddressArguments,
    output: shared.OptionalAddress = None,
    form: Annotated[Literal["html", "csv", "parquet", "netcdf"], typer.Option("--format")] = "html",
    full: shared.Full = False,
    show: Annotated[bool, typer.Option("--open")] = False,
    sign_off: Annotated[bool, typer.Option("--sign-off")] = False,
    policy: Path | None = None,
    mechanism: str | None = None,
    group_size: shared.GroupSize = None,
    release: Path | None = None,
    force: shared.Force = False,
) -> None:
    """Write the audit, screen, traits and recovery of a run as one HTML page.

    Several runs share one page, one below the other. With --format the numbers become tables. With
    --sign-off the page is for who decides: it prints on two sheets, and is evaluated by a policy.

    Parameters
    ----------
    results
        Folders of runs, or of one analysis.
    output
        Output: an HTML file, or a folder for tables.
    form
        A page, or tables.
    full
        Print all cases of the audit, and write nothing.
    show
        Open the page in a browser.
    sign_off
        Write the page to sign, and its JSON beside it.
    policy
        YAML file of a policy, whose limits the page shows.
    mechanism
        Title, label or id of the mechanism to be published.
    group_size
        With --sign-off, people that the release counts.
    release
        With --sign-off, config of the release: adds up its series.
    force
        Overwrite a page that is not an earlier one of the same run.
    """
    from clusterscale.api import releases, reports
    from clusterscale.cli.results import show_results
    from clusterscale.reporting import write_tables
    from clusterscale.storage import check_outputs
    from clusterscale.study.identity import results_in

    if full:
        for folder in results:
            if (audit := gather(folder).audit) is None:
                what = "there is no audit to show; run `clusterscale audit` first"
                raise InputError(f"{folder}: {what}")
            show_results(audit, full=True)
        return
    if len(results) > 1 and output is None:
        raise InputError("these are several runs: give the file or folder to write with --output")
    name = "sign-off.html" if sign_off else "report.html" if form == "html" else "tables"
    page = reports.page_of(results[0], output, name)
    facts = f"{page.removesuffix('.html')}.json" if sign_off else None
    check_outputs([page, facts], [policy, release, *chain(*map(results_in, results))])
    runs = [gather(folder) for folder in results]
    if sign_off and (len(runs) > 1 or form != "html"):
        raise InputError("--sign-off is a page of one run: give one folder, and no --format")
    if form == "html":
        if sign_off:
            how: Any = {"policy": policy, "mechanism": mechanism, "group_size": group_size}
            releases.sign_off(runs[0], page, **how, release=release, force=force)
        else:
            reports.report(
                [releases.mark(run, policy, mechanism) for run in runs], page, force=force
            )
        out.print(page, soft_wrap=True)
        if show and "://" in page:
            raise InputError(f"{page} is not on this machine: download it to open it")
        if show:
            webbrowser.open(Path(page).resolve().as_uri())
        return
    for number, run in enumerate(runs, 1):
        target = f"{page}/{number}" if len(runs) > 1 else page
        for path in write_tables(run, target, form):
            out.print(path, soft_wrap=True)


def gather(folder: str) -> Run:
    """Return the run in a folder, as ``open_run``, and print its notes."""
    from clusterscale.reporting import open_run

    run, notes = open_run(folder)
    for note in notes:
        err.print(f"[yellow]note:[/] {note}", soft_wrap=True)
    return run


def write_page(folder: str) -> None:
    """Write the page of all finished analyses in the folder of a run, and print its path.

    A file of its name that is not an earlier page of the run stays as it is, which is printed.

    Raises
    ------
    typer.Exit
        With 4, if an attack did better than any adversary can under what a mechanism states.
    """
    from clusterscale.api.reports import check_page
    from clusterscale.reporting import write_report

    run, page = gather(folder), f"{folder}/report.html"
    try:
        check_page([page], run, force=None)
    except ExistsError as other:
        err.print(f"[bold]no page is written:[/] {other}", soft_wrap=True)
    else:
        out.print(f"report   {write_report(run, page)}", soft_wrap=True)
    if _show_brackets(run):
        err.print(
            "[bold red]ceiling exceeded:[/] an attack did better than any adversary can if the "
            "mechanism does what it states; do not publish with it"
        )
        raise typer.Exit(4)


def _show_brackets(run: Run) -> bool:
    """Print lower limits and ceilings, a row per mechanism; return whether one is exceeded."""
    from clusterscale.analyses.certify.comparison import ERROR_RATE
    from clusterscale.reporting.certificates import read_brackets
    from clusterscale.reporting.render import entitle

    worst: dict[tuple[str, str], BracketCase] = {}
    for case in read_brackets(*entitle([run])):
        before = worst.setdefault((case.mechanism, case.kind), case)
        most = max(before, case, key=lambda one: (one.bracket.is_violated, one.bracket.low))
        worst[case.mechanism, case.kind] = most
    if not worst:
        return False
    about = {"key": (key := Key()), "ceiling": at_most, "error": ERROR_RATE}
    show_table(out, "brackets", worst.values(), **about)
    key.show(out)
    return any(one.bracket.is_violated for one in worst.values())
