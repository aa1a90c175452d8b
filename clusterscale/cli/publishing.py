"""The ``publish`` command: make a release, with its entry in the ledger of its series."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from clusterscale.cli.console import out
from clusterscale.cli.options import (
    ClusterName,
    ConfigFile,
    Explain,
    Force,
    Memory,
    Output,
    Workers,
    say_command,
)
from clusterscale.cli.releases import EXIT_CODES, VERDICT_STYLES
from clusterscale.cli.running import RunOptions, run_verb
from clusterscale.cli.tables import show_pairs
from clusterscale.errors import InputError, RefusedError
from clusterscale.redaction import clean

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.analyses.publish import PublishPlan


GatePolicy = Annotated[
    Path | None,
    typer.Option(
        "--gate", help="YAML file of a policy; the release is published only if it passes."
    ),
]
AllowWarn = Annotated[
    bool, typer.Option("--allow-warn", help="With --gate, the verdict warn is enough.")
]
WithoutGuarantee = Annotated[
    bool,
    typer.Option(
        "--without-guarantee", help="Publish without a guarantee and without the audit of --gate."
    ),
]


def publish(
    config: ConfigFile = None,
    output: Output = None,
    cluster: ClusterName = None,
    workers: Workers = None,
    memory: Memory = None,
    gate: GatePolicy = None,
    allow_warn: AllowWarn = False,
    without_guarantee: WithoutGuarantee = False,
    explain: Explain = False,
    force: Force = False,
) -> None:
    """Make the release of the `publish` section of a config, and enter it in its ledger.

    Counts all users or those of a list, draws noise from the operating system's source, and stores
    the release and its ledger entry: both or neither. Repeated, it resumes, and publishes once.

    Exits with 4 if the budget or the policy of --gate does not allow the release, or if its
    difference from an earlier one of the series shows few people.
    """
    from clusterscale import api
    from clusterscale.config import load_gate
    from clusterscale.reauditing import Gate

    if allow_warn and gate is None:
        raise InputError("--allow-warn is for the policy of --gate, which is missing")
    options = RunOptions(config, output, cluster, workers, memory, force, explain)
    plan, rules = options.config.the_publication(), None
    if gate is not None:
        rules = Gate(plan=load_gate(gate, options.config.audit), allow_warnings=allow_warn)
    try:
        analysis = api.publish.analysis(plan, gate=rules, without_guarantee=without_guarantee)
        run_verb(analysis, options, partial(_show, plan), page=False)
    except RefusedError as refused:
        text = f"[{VERDICT_STYLES['fail']}]refused[/]  {escape(clean(str(refused)))}"
        out.print(text, highlight=False, soft_wrap=True)
        raise typer.Exit(EXIT_CODES["fail"]) from None


def _show(plan: PublishPlan, release: xr.Dataset) -> None:
    """Print what was published, and what is spent."""
    from clusterscale.phrases import NO_GUARANTEE
    from clusterscale.study import describe_bytes

    about = release.attrs
    budget = "none"
    if about["budget"] >= 0:
        budget = f"ε {about['spent']:.6g} of {about['budget']:g} is spent"
    n_hidden = int(release["counts"].isnull().sum())
    n_values = f"{release['counts'].size:,}, of which {n_hidden:,} are hidden"
    where = f"{plan.folder}/{about['release'].rpartition('/')[2]}"
    rows = {
        "release": where,
        "period": about["period"],
        "values": f"{n_values}; {describe_bytes(about['bytes'])}",
        "guarantee": about.get("guarantee") or NO_GUARANTEE,
        "budget": budget,
    }
    if about.get("elsewhere"):
        what = "in one row" if plan.other_places == "one_row" else "dropped"
        n_elsewhere = f"{about['elsewhere']:,} visits {what}"
        rows["other places"] = f"{n_elsewhere}; this number depends on the data, keep it"
    if about.get("undecided"):
        rows["not compared"] = about["undecided"]
    if about["verdict"]:
        rows["gate"] = about["verdict"]
        reasons = json.loads(about["reasons"])
        rows["audited"] = next((why["text"] for why in reasons if why["check"] == "scope"), "–")
    show_pairs(out, f"published: release {about['number']} of series {about['series']}", rows)
    say_command("check it", "check", where)
