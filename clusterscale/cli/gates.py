"""The verb that judges a run before anything is released."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from clusterscale.cli.options import argument
from clusterscale.cli.releases import CODES, show_reasons
from clusterscale.errors import InputError

__all__ = ["gate"]


def gate(
    results: Annotated[str, argument("Folder of a finished run.")],
    config: Annotated[
        Path | None, typer.Option(help="YAML file of a catalogue, whose policy is taken.")
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Label of the mechanism that is to be used.")
    ] = None,
    to_json: Annotated[str | None, typer.Option("--json", help="Write the verdict here.")] = None,
) -> None:
    """Judge a run by a policy before anything is released.

    Exits with the verdict: 0 pass, 3 warn, 4 fail.
    """
    from clusterscale.cli.reports import gather
    from clusterscale.config import load_releases
    from clusterscale.cube.storage import put
    from clusterscale.reaudit import (
        Estimate,
        Policy,
        exposures_of,
        judge,
        measure,
        plain,
        verdict_of,
    )

    policy = load_releases(config).policy if config else Policy()
    run = gather(results)
    if run.audit is None:
        raise InputError(f"{results}: there is no audit to judge by")
    if (run.audit.status == "failed").any():
        raise InputError(f"{results}: tasks of this audit failed; run it again first")
    label = _pick(list(map(str, run.audit.mechanism.values)), mechanism)
    exposures = exposures_of(run.audit, run.screen, label)
    found = measure(run.audit, exposures, label, exposed_above=policy.exposed_above)
    reasons = list(judge(policy, found, Estimate()))
    verdict = verdict_of(reasons)
    why = [plain(asdict(each)) for each in reasons]
    told = {"verdict": verdict, "mechanism": label, "reasons": why}
    show_reasons(label, verdict, why)
    if to_json:
        put(to_json, json.dumps(told, indent=1).encode())
    raise typer.Exit(CODES[verdict])


def _pick(labels: list[str], wanted: str | None) -> str:
    if wanted is not None:
        return wanted
    ways = [label for label in labels if label != "exact"] or labels
    if len(ways) > 1:
        raise InputError(
            f"the run has {len(ways)} ways to publish: say with --mechanism which is to be used, "
            f"e.g. --mechanism '{ways[0]}'"
        )
    return ways[0]
