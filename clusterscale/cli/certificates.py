"""The verb that makes certificates for a cluster that outlives a run."""

from pathlib import Path
from typing import Annotated

import typer

from clusterscale.cli.console import out


def certificates(
    folder: Annotated[Path, typer.Argument(help="Where to write ca.pem, cert.pem and key.pem.")],
    days: Annotated[int, typer.Option(min=1, help="For how long they are valid.")] = 365,
) -> None:
    """Make the TLS certificates of a long-lived cluster; whoever can read them can use it."""
    from clusterscale.runtime.security import make_certificates

    made = make_certificates(folder, days=days)
    for path in (made.ca, made.certificate, made.key):
        out.print(path, highlight=False, soft_wrap=True)
