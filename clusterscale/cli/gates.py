"""The ``gate`` command: evaluate a run against a policy before a release."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterscale.cli.options import argument
from clusterscale.cli.releases import EXIT_CODES, show_reasons
from clusterscale.errors import ClusterscaleError, InputError
from clusterscale.schema import RAW_COUNTS, find_mechanism

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["gate"]


def gate(
    results: Annotated[str, argument("Folder of a finished run.")],
    policy: Annotated[
        Path | None, typer.Option(help="YAML file of a policy, or of a catalogue that has one.")
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Label or id of the mechanism to evaluate.")
    ] = None,
    to_json: Annotated[
        str | None, typer.Option("--json", help="File to write the verdict to.")
    ] = None,
) -> None:
    """Evaluate a run against a policy before anything is released.

    Exits with the verdict: 0 pass, 3 warn, 4 fail. Without a policy, the verdict exposed fails, and
    an inconclusive run warns. A run that cannot be evaluated is an error, never a pass.
    """
    from clusterscale.redaction import clean
    from clusterscale.storage import put

    outcome: dict[str, object] = {"verdict": "error"}
    try:
        outcome = _evaluate(results, policy, mechanism)
    except ClusterscaleError as error:
        outcome["error"] = clean(str(error))
        raise
    finally:
        if to_json:
            put(to_json, json.dumps(outcome, indent=1).encode())
    raise typer.Exit(EXIT_CODES[str(outcome["verdict"])])


def _evaluate(results: str, policy: Path | None, mechanism: str | None) -> dict[str, object]:
    """Print the verdict on a run, and return it with its reasons."""
    from clusterscale.cli.reports import gather
    from clusterscale.config import load_policy
    from clusterscale.reaudit import (
        IntervalEstimate,
        Policy,
        evaluate_policy,
        exposures_of,
        json_safe,
        measure,
        verdict_of,
    )

    rules = load_policy(policy) if policy else Policy()
    run = gather(results)
    if run.audit is None:
        raise InputError(f"{results}: there is no audit to evaluate")
    label = _pick(run.audit, mechanism)
    exposures = exposures_of(run.audit, run.screen, label)
    metrics = measure(run.audit, exposures, label, exposed_above=rules.exposed_above)
    reasons = list(evaluate_policy(rules, metrics, IntervalEstimate()))
    verdict = verdict_of(reasons)
    why = [json_safe(asdict(reason)) for reason in reasons]
    show_reasons(label, verdict, why)
    return {"verdict": verdict, "mechanism": label, "reasons": why}


def _pick(audit: xr.Dataset, wanted: str | None) -> str:
    """Return the label of the mechanism to evaluate; ``wanted`` is a label or an id."""
    if wanted is not None:
        return find_mechanism(audit, wanted) or wanted
    raw_counts, labels = find_mechanism(audit, RAW_COUNTS), list(map(str, audit.mechanism.values))
    candidates = [label for label in labels if label != raw_counts] or labels
    if len(candidates) > 1:
        raise InputError(
            f"the run has {len(candidates)} mechanisms: choose one with --mechanism, "
            f"e.g. --mechanism {shlex.quote(candidates[0])}"
        )
    return candidates[0]
