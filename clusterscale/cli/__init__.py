"""The command line interface of the package."""

import signal
import sys
import traceback

from rich.markup import escape

from clusterscale.cli import (
    analyses,
    checks,
    guide,
    init,
    papers,
    records,
    releases,
    reports,
    tuning,
    watch,
)
from clusterscale.cli import main as verbs
from clusterscale.cli.console import err
from clusterscale.cli.failures import describe_failure, find_exit_code, shows_traceback
from clusterscale.cli.running import add_command
from clusterscale.errors import SignalExit

__all__ = ["app", "main"]


app = verbs.app
for verb in (
    verbs.audit,
    verbs.synth,
    verbs.pack,
    verbs.inspect,
    init.init,
    analyses.screen,
    analyses.certify,
    analyses.traits,
    analyses.recover,
    analyses.analyse,
    analyses.advise,
    reports.report,
    releases.gate,
    analyses.publish,
    checks.check,
    releases.reaudit,
    papers.reproduce,
    watch.watch,
    tuning.tune,
    watch.certificates,
    guide.guide,
    records.ingest,
):
    add_command(app, verb)
add_command(verbs.configs, verbs.check)
add_command(verbs.configs, verbs.show)
add_command(verbs.configs, verbs.print_schema, "schema")


def _end(number: int, _: object) -> None:
    raise SignalExit(128 + number)


def main() -> None:
    """Run the command line.

    Exits with 0 when done, 1 when tasks failed, 2 on bad input, 70 on an unexpected error, and 75
    when the cluster, a store, memory or another resource failed: the same command resumes the run.
    3 and 4 are the verdicts warn and fail of reaudit, gate and check; 4 is a refused release of
    publish.
    """
    # As an exception, so that files that are being written are removed.
    signal.signal(signal.SIGTERM, _end)
    try:
        app()
    except Exception as error:
        if (ended := find_exit_code(error)) is not None:
            sys.exit(ended)
        if shows_traceback():
            traceback.print_exc()
        message, code = describe_failure(error)
        err.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
        if "zarr" in sys.modules:
            from clusterscale.storage.groups import await_reads

            await_reads()
        sys.exit(code)
