"""The command line interface of the package."""

import sys
from inspect import getdoc

from rich.markup import escape

from clusterscale.cli import (
    analyses,
    gates,
    papers,
    records,
    releases,
    reports,
    tuning,
    watch,
)
from clusterscale.cli import (
    main as verbs,
)
from clusterscale.cli.console import err
from clusterscale.cli.options import in_flags
from clusterscale.errors import TEMPORARY, ClusterError, ClusterscaleError, StoreError
from clusterscale.redaction import clean

__all__ = ["app", "main"]

app = verbs.app
for verb in (
    analyses.screen,
    analyses.traits,
    analyses.recover,
    reports.report,
    gates.gate,
    releases.reaudit,
    papers.reproduce,
    watch.watch,
    tuning.tune,
    watch.certificates,
):
    paragraphs = (getdoc(verb) or "").split("\n\n")
    app.command(help="\n\n".join(" ".join(lines.split("\n")) for lines in paragraphs))(verb)
app.command(help=records.HELP)(records.ingest)


def main() -> None:
    """Run the command line.

    Exits with 0 when done, 1 when tasks failed, 2 on bad input, and 75 when the cluster or a store
    failed: the same command resumes the run. 3 and 4 are the verdicts warn and fail of reaudit and
    gate.
    """
    try:
        app()
    except ClusterscaleError as error:
        err.print(
            f"[bold red]error:[/] {escape(clean(in_flags(str(error))))}",
            soft_wrap=True,
            highlight=False,
        )
        sys.exit(TEMPORARY if isinstance(error, ClusterError | StoreError) else 2)
