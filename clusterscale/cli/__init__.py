"""The command line: thin verbs over the package."""

import sys

from rich.markup import escape

from clusterscale.cli import records, screens, verbs
from clusterscale.cli.show import err
from clusterscale.errors import ClusterscaleError

__all__ = ["app", "main"]

app = verbs.app
app.command()(screens.screen)
app.command()(records.ingest)


def main() -> None:
    """Run the command line; exit 0 when done, 1 when tasks failed, 2 on bad input."""
    try:
        app()
    except ClusterscaleError as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
        sys.exit(2)
