"""The ``certificates`` command: certificates for a cluster that outlives a run."""

from pathlib import Path
from typing import Annotated

import typer

from clusterscale.cli.console import out


def certificates(
    folder: Annotated[Path, typer.Argument(help="Where to write ca.pem, cert.pem and key.pem.")],
    days: Annotated[int, typer.Option(min=1, help="Days for which they are valid.")] = 365,
) -> None:
    """Create TLS certificates for a long-lived cluster; anyone who can read them can use it."""
    from clusterscale.runtime.security import make_certificates

    tls = make_certificates(folder, days=days)
    for path in (tls.ca, tls.certificate, tls.key):
        out.print(path, highlight=False, soft_wrap=True)
