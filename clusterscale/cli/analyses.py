"""The commands of analyses, and what they print."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
import yaml
from rich.markup import escape

from clusterscale import api
from clusterscale.api import openers
from clusterscale.cli import options as shared
from clusterscale.cli.console import out
from clusterscale.cli.releases import EXIT_CODES, VERDICT_STYLES, say_opendp
from clusterscale.cli.running import RunOptions, run_verb, running_verb, with_options
from clusterscale.cli.tables import NAME, Key, add_numbers, new_table, show_pairs, show_table
from clusterscale.errors import ConfigError, InputError, RefusedError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.phrases import NO_GUARANTEE, at_most, round_up
from clusterscale.redaction import clean
from clusterscale.schema import with_labels
from clusterscale.storage import exists
from clusterscale.storage.manifest import read_sealed
from clusterscale.study import Analysis, AnalysisPlan, describe_bytes

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.analyses.publish import PublishPlan
    from clusterscale.config import Config

_STRATEGIES = 4  # columns per table


_ROWS = 12  # candidates that are shown; the page lists all


@dataclass(frozen=True)
class PublishOptions(RunOptions):
    """The same, and the run whose mechanism is published."""

    from_run: Annotated[str | None, typer.Option("--from")] = None
    mechanism: str | None = None
    days: str | None = None

    @cached_property
    def loaded(self) -> Config:
        """The config, with the mechanism of the run, and another period and folder by its days."""
        if self.from_run is None and self.mechanism is not None:
            raise InputError("--mechanism is for the run of --from, which is missing")
        made = _read_run(self.from_run, self.mechanism)[0] if self.from_run else None
        config = shared.load_config(self.config, mechanism=made)
        return config if self.days is None else _at_days(config, self.days)


def _at_days(config: Config, days: str) -> Config:
    """Return a config that publishes these days of the cube, in a folder of its own."""
    from clusterscale.analyses.audit import Period

    text, colon, until = days.partition(":")
    try:
        first, last = map(date.fromisoformat, (text, until if colon else text))
    except ValueError:
        raise InputError(
            f"--days {days!r}: give the first and the last day, e.g. 2026-10-12:2026-10-18"
        ) from None
    start, stop = config.cube.open().calendar.span_of_days(first, last)
    period = Period(name=f"{first} to {last}", first=start, epochs=stop - start)
    plan = config.the_publication().model_copy(update={"period": period})
    return config.model_copy(update={"publish": plan, "output": f"{config.output}-{first}"})


def _read_run(run: str, title: str | None) -> tuple[Mapping[str, Any], xr.Dataset]:
    """Return the settings of a mechanism of a finished audit or advice, and its results."""
    run = run.rstrip("/")
    if read_sealed(f"{run}/audit.json") is not None and exists(f"{run}/results.zarr"):
        results = openers.open_results(run)
        several: Sequence[Mapping[str, Any]] = json.loads(results.attrs["plan"])["mechanisms"]
    else:
        results = openers.open_advice(run)
        several = yaml.safe_load(str(results.attrs["yaml"])) or []
        if not several:
            raise InputError(f"{run}: no mechanism was advised, so none is taken over")
    made = [MECHANISMS.create(**settings) for settings in several]
    fits = [title in (None, one.title, one.label, one.id) for one in made]
    if sum(fits) != 1:
        known = ", ".join(one.title or one.label for one in made)
        asked = "name one with --mechanism" if title is None else f"none is {title!r}"
        raise InputError(f"{run} has the mechanisms {known}: {asked}")
    return several[fits.index(True)], results


def _require_coverage(options: PublishOptions, enough: bool) -> None:
    """Print what of the release the run of --from does not cover; refuse it unless that is enough.

    A gate audits the release itself.
    """
    from clusterscale.api.releases import scope_of
    from clusterscale.reporting.coverage import state_coverage

    assert options.from_run is not None
    results, plan = (
        _read_run(options.from_run, options.mechanism)[1],
        options.loaded.the_publication(),
    )
    found = state_coverage(results, scope_of(plan, options.cube), {})
    missing = [f"its {one.name}: {one.text}" for one in found if one.level != "covered"]
    text = "; ".join([f"{options.from_run} is not of this release", *missing])
    if missing and not enough:
        raise RefusedError(
            f"{text}\naudit this release by --gate POLICY, or publish what was not examined with "
            "--allow-warn"
        )
    if missing:
        out.print(f"not examined: {text}", markup=False, soft_wrap=True)


@with_options
def publish(
    options: PublishOptions,
    gate: Path | None = None,
    allow_warn: Annotated[bool, typer.Option("--allow-warn")] = False,
    without_guarantee: Annotated[bool, typer.Option("--without-guarantee")] = False,
) -> None:
    """Make the release of the `publish` section of a config, and enter it in its ledger.

    Counts all users or those of a list, draws noise from the operating system's source, and stores
    the release and its ledger entry: both or neither. Repeated, it resumes, and publishes once.

    Exits with 4 if the budget or the policy of --gate does not allow the release, or if its
    difference from an earlier one of the series shows few people.

    With --from, the mechanism is that of a finished audit or advice, and the config states none.
    What these do not cover of the release is printed, and refused unless --gate audits it.

    Parameters
    ----------
    from_run
        Finished audit or advice whose mechanism is published, path or URL.
    mechanism
        With --from, title, label or id of its mechanism.
    days
        First and last day to publish, e.g. 2026-10-12:2026-10-18.
    gate
        YAML file of a policy; the release is published only if it passes.
    allow_warn
        With --gate, the verdict warn is enough; with --from, also an audit of something else.
    without_guarantee
        Publish without a guarantee and without the audit of --gate.
    """
    from clusterscale.config import load_gate
    from clusterscale.reauditing import Gate

    if allow_warn and gate is None and options.from_run is None:
        raise InputError("--allow-warn is for --gate or --from, and both are missing")
    plan, rules = options.loaded.the_publication(), None
    if gate is not None:
        rules = Gate(plan=load_gate(gate, options.loaded.audit), allow_warnings=allow_warn)
    try:
        analysis = api.publish.analysis(plan, gate=rules, without_guarantee=without_guarantee)
        if options.from_run is not None:
            _require_coverage(options, enough=allow_warn or rules is not None)
        run_verb(analysis, options, partial(_show, plan), page=False)
    except RefusedError as refused:
        text = f"[{VERDICT_STYLES['fail']}]refused[/]  {escape(clean(str(refused)))}"
        out.print(text, soft_wrap=True)
        raise typer.Exit(EXIT_CODES["fail"]) from None


def _show(plan: PublishPlan, release: xr.Dataset) -> None:
    """Print what was published, and what is spent."""
    about = release.attrs
    budget = "none"
    if about["budget"] >= 0:
        spent = f"ε {round_up(about['spent']):.6g} of {about['budget']:g} is spent"
        budget = about.get("spent_on", spent)  # runs of earlier versions do not say on whom
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
    if about.get("other_series"):
        rows["other series"] = about["other_series"]
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
    shared.say_command("check it", "check", where)


@with_options
def advise(
    options: RunOptions,
    on: shared.OptionalAddress = None,
    confirm: shared.OptionalAddress = None,
    policy: Path | None = None,
    coarsen: Annotated[bool, typer.Option("--coarsen")] = False,
) -> None:
    """Search for the mechanism that serves a goal within limits, confirm it, and explain why.

    The `advise` section of a config sets the goal, the limits and the candidates; its `audit`
    section says how they are attacked. The advice is confirmed on users and groups that the search
    has not touched. Exits with 4 if no mechanism could be confirmed.

    Parameters
    ----------
    on
        Cube to search on in place of the config's, e.g. a synthetic one.
    confirm
        Cube to confirm on; by default that of the config.
    policy
        YAML file of a policy, whose limits hold in addition.
    coarsen
        Search coarser cells and larger groups if none is left.
    """
    from clusterscale.cube import TraceCube

    plan, wanted = options.loaded.the_audit(), options.loaded.advise
    if coarsen:
        wanted = wanted.model_copy(update={"coarsen": True})
    other = TraceCube(confirm) if confirm else options.cube if on else None
    analysis = api.advise.analysis(plan, wanted=wanted, policy=policy, confirm=other)
    results = run_verb(analysis, options, cube=TraceCube(on) if on else None)
    if results is not None and results.verdict != "advised":
        raise typer.Exit(4)


def show_advice(advice: xr.Dataset) -> None:
    """Print the answer, what was confirmed, and the leading candidates with why they fell out."""
    from clusterscale.analyses.publish.plan import find_faults
    from clusterscale.reporting.advice import answer, leading, summarise

    for line in answer(advice):
        out.print(line, markup=False)
    if text := str(advice.attrs["yaml"]):
        out.print(f"\n{text}\n", markup=False, soft_wrap=True)
        advised = [MECHANISMS.create(**settings) for settings in yaml.safe_load(text)]
        for fault in (each for one in advised for each in find_faults(one, null_roi=False)):
            out.print(f"publish refuses it: {fault}", markup=False, soft_wrap=True)
        say_opendp(advised)
    for finding in json.loads(advice.attrs["findings"]):
        for line in textwrap.wrap(f"confirmed: {finding}", out.width - 2, subsequent_indent="  "):
            out.print(f"  {line}", markup=False)
    key, rows = Key(), leading(advice, _ROWS)
    titles = sorted(map(str, advice.mechanism_title.values), key=len, reverse=True)

    def shorten(reason: str) -> str:
        for title in (title for title in titles if len(title) > NAME and title in reason):
            reason = reason.replace(title, key.letter(title))
        return escape(reason)

    show_table(out, "candidates", rows.itertuples(), key=key, shorten=shorten)
    key.show(out)
    out.print(summarise(advice), markup=False)
    out.print(str(advice.attrs["price"]), markup=False)


def show_screen(screened: xr.Dataset) -> None:
    """Print the exposure of users in aggregate, one table per period and group size."""
    from clusterscale.reporting.screening import AUC_LEVELS, BY_SIZE, read_cases, shares_by_size
    from clusterscale.reporting.section import absent_users

    screened = with_labels(screened, suffix="title")
    for sentence in absent_users(screened):
        out.print(sentence, markup=False)
    key, cases = Key(), list(read_cases(screened))
    for case in cases:
        show_table(out, "screen", case.exposures, key=key, case=case, levels=AUC_LEVELS)
    for period, sizes, by_mechanism in shares_by_size(cases):
        title = f"users with an AUC above {AUC_LEVELS[0]:g}, {period}, by group size"
        out.print(title, markup=False)
        table = new_table("mechanism")
        add_numbers(table, *(f"{size:,}" for size in sizes))
        for name, values in by_mechanism.items():
            table.add_row(key.name(name), *(f"{100 * share:.1f} %" for share in values))
        out.print(table)
        out.print(f"[dim]{BY_SIZE}[/]")
    key.show(out)


def show_certificates(certificates: xr.Dataset) -> None:
    """Print the ceilings of users in aggregate, one table per period and group size."""
    from clusterscale.reporting.certificates import COVERS, NEIGHBOURS, read_ceilings

    certificates = with_labels(certificates, suffix="title")
    key = Key()
    how = {"key": key, "ceiling": at_most, "covers": COVERS, "neighbours": NEIGHBOURS}
    for case in read_ceilings(certificates):
        first = {line.mechanism: line for line in reversed(case.lines)}
        show_table(out, "certificates", case.lines, case=case, first=first, **how)
    key.show(out)


def show_recovery(recovery: xr.Dataset) -> None:
    """Print mean errors over users by prior and strategy, one table per mechanism."""
    recovery = with_labels(recovery, suffix="title")
    profiling = recovery.profiling_error.mean("user").compute()
    localization = recovery.localization_error.mean("user").min("reading").compute()
    key = Key()
    errors = recovery.relative_error.values
    n_users = recovery.sizes["user"]
    for mechanism, error in zip(recovery.mechanism.values, errors, strict=True):
        title = f"{n_users:,} users, {escape(str(mechanism))}, relative error {error:.3g}"
        out.print(title)
        for start in range(0, recovery.sizes["strategy"], _STRATEGIES):
            strategies = recovery.strategy.values[start : start + _STRATEGIES]
            table = new_table("prior")
            add_numbers(table, *(key.plain(strategy) for strategy in strategies))
            for prior in recovery.prior.values:
                at = {"mechanism": mechanism, "prior": prior, "strategy": strategies}
                pairs = zip(profiling.sel(at).values, localization.sel(at).values, strict=True)
                cells = (f"{error:.2f} {best:.2f}" for error, best in pairs)
                table.add_row(key.short(prior), *cells)
            out.print(table)
    out.print("[dim]mean errors: profiling, and localization by the better decision rule[/]")
    key.show(out)


def show_traits(results: xr.Dataset) -> None:
    """Print how the two groups differ, by the strongest attack of each source."""
    results = with_labels(results)
    for source in ("audit", "screen"):
        at = np.flatnonzero(results.source.values == source)
        if len(at):
            exposed = (results.auc_top + results.auc_bottom).values[at]
            _show_comparison(results.isel(comparison=int(at[np.argmax(exposed)])))
    if not results.sizes["comparison"]:
        out.print("too few users were attacked to compare the most exposed with the least exposed")


def _show_comparison(comparison: xr.Dataset) -> None:
    names = "period", "prior", "group_size", "mechanism", "attack"
    setting = [str(comparison[f"compared_{name}"].item()) for name in names]
    title = ", ".join(part for part in (str(comparison.source.item()), *setting) if part)
    out.print(title, markup=False)
    high, low = comparison.auc_top.item(), comparison.auc_bottom.item()
    rows = (comparison.isel(characteristic=i) for i in range(comparison.sizes["characteristic"]))
    show_table(out, "characteristics", rows, one=comparison, pair=_pair)
    # 0.02: between mean AUCs: with less, the membership of the two groups is chance
    if high - low < 0.02:
        out.print("[bold]both groups are about equally exposed[/]: the comparison explains little")


def _pair(mean: xr.DataArray, sd: xr.DataArray) -> str:
    digits = 1 if mean.item() >= 10 else 2 if mean.item() >= 1 else 3
    return f"{mean.item():,.{digits}f} ± {sd.item():,.{digits}f}"


@running_verb
def screen(config: Config) -> Analysis:
    """Score every user of the cube under every mechanism, or resume an interrupted screen.

    Certifies all users first, and uses only attacks without training; with `targets:
    {most_exposed: …}` in a config, an audit runs the others on the most exposed users.
    """
    return api.screen.analysis(config.the_audit(), certificates=config.certify)


@running_verb
def certify(config: Config) -> Analysis:
    """State the best that any adversary can do against each user, under every mechanism.

    The adversary knows everything but whether the user is inside. Attacks show what some
    adversaries do; certificates bound all of them.
    """
    return api.certify.analysis(config.the_audit(), how=config.certify)


@running_verb
def recover(config: Config) -> Analysis:
    """Infer the locations of every user from the published aggregates, and write the report.

    Resumes an interrupted recovery. The `recovery` section of a config sets the adversary's prior
    knowledge, the published mechanisms and the epochs.
    """
    return api.recover.analysis(config.the_recovery())


@running_verb
def traits(config: Config) -> Analysis:
    """Report what the most exposed users of an audit or a screen have in common.

    Compares their mobility with that of the least exposed, and reports which locations and times
    the attack uses. The `traits` section of a config sets how they are compared.
    """
    return api.traits.analysis(config.the_audit(), how=config.traits)


def show_variables(results: xr.Dataset) -> None:
    """Print the variables of any dataset, and the mean of those that are numbers."""
    show_table(out, "variables", results.data_vars.items())


@running_verb
def analyse(config: Config) -> Sequence[Analysis]:
    """Run the analyses of other packages that a config names in `analyses`, one after another."""
    if not config.analyses:
        raise ConfigError("analyses: missing; name at least one, e.g. analyses: [{name: …}]")
    return [plan.analysis() for plan in config.analyses]


def verb_of(plan: type[AnalysisPlan]) -> Callable[..., None]:
    """Return the command of an analysis of another package, which a config names by ``name``."""
    name = str(plan.model_fields["name"].default)

    def make(config: Config) -> Sequence[Analysis]:
        found = [one.analysis() for one in config.analyses if isinstance(one, plan)]
        if not found:
            raise ConfigError(f"analyses: has no {name}; add it, e.g. analyses: [{{name: {name}}}]")
        return found

    make.__name__, make.__doc__ = name, (plan.__doc__ or "").partition("\n\n")[0]
    return running_verb(make)
