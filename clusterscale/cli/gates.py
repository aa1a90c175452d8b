"""The ``gate`` command: evaluate a run against a policy before a release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from clusterscale.cli.options import argument
from clusterscale.cli.releases import EXIT_CODES, show_reasons
from clusterscale.errors import ClusterscaleError


def gate(
    results: Annotated[str, argument("Folder of a finished run.")],
    policy: Annotated[
        Path | None, typer.Option(help="YAML file of a policy, or of a catalogue that has one.")
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Label or id of the mechanism to evaluate.")
    ] = None,
    group_size: Annotated[
        int | None,
        typer.Option(
            min=2, help="Number of people that the release counts, or set it in the policy."
        ),
    ] = None,
    to_json: Annotated[
        str | None, typer.Option("--json", help="File to write the verdict to.")
    ] = None,
) -> None:
    """Evaluate a run against a policy before anything is released.

    Exits with the verdict: 0 pass, 3 warn, 4 fail. Without a policy, the verdict exposed fails, and
    an inconclusive run warns, as does a run whose groups do not have the size of the release. A run
    that cannot be evaluated is an error, never a pass.
    """
    from clusterscale.redaction import clean
    from clusterscale.storage import put

    outcome: dict[str, object] = {"verdict": "error"}
    try:
        outcome = _evaluate(results, policy, mechanism, group_size)
    except ClusterscaleError as error:
        outcome["error"] = clean(str(error))
        raise
    finally:
        if to_json:
            put(to_json, json.dumps(outcome, indent=1).encode())
    raise typer.Exit(EXIT_CODES[str(outcome["verdict"])])


def _evaluate(
    results: str, policy: Path | None, mechanism: str | None, group_size: int | None
) -> dict[str, object]:
    """Print the verdict on a run, and return it with its reasons."""
    from clusterscale.api.releases import evaluate_run
    from clusterscale.cli.reports import gather

    found = evaluate_run(
        gather(results), results, policy=policy, mechanism=mechanism, group_size=group_size
    )
    show_reasons(found.mechanism, found.verdict, found.reasons)
    return {"verdict": found.verdict, "mechanism": found.mechanism, "reasons": found.reasons}
