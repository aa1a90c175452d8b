"""The commands of analyses, and what they print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape

from clusterscale.cli.console import out
from clusterscale.cli.running import running_verb
from clusterscale.cli.tables import Key, add_numbers, new_table
from clusterscale.errors import ConfigError
from clusterscale.schema import with_labels

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.config import Config
    from clusterscale.study import Analysis, AnalysisPlan


_STRATEGIES = 4  # columns per table
_GAP = 0.02  # between mean AUCs: with less, the membership of the two groups is chance


def show_screen(screened: xr.Dataset) -> None:
    """Print the exposure of users in aggregate, one table per period and group size."""
    from clusterscale.reporting.screening import AUC_LEVELS, BY_SIZE, read_cases, shares_by_size
    from clusterscale.reporting.section import absent_users

    screened = with_labels(screened)
    for sentence in absent_users(screened):
        out.print(sentence, markup=False, highlight=False)
    key, cases = Key(), list(read_cases(screened))
    for case in cases:
        title = f"{case.n_users:,} users, {case.period}, groups of {case.group_size:,}"
        out.print(title, markup=False, highlight=False)
        table = new_table()
        table.add_column("mechanism", no_wrap=True)
        table.add_column("attack", no_wrap=True)
        add_numbers(table, "mean", "95 %", *(f"> {level:g}" for level in AUC_LEVELS), "±")
        for line in case.exposures:
            shares = (f"{100 * share:.1f} %" for share in line.above)
            numbers = (f"{line.mean:.3f}", f"{line.high:.3f}", *shares, f"{line.half:.3f}")
            table.add_row(key.short(line.mechanism), key.short(line.attack), *numbers)
        out.print(table)
        out.print(
            f"[dim]AUC of the attack with the highest mean; each user against {case.n_groups:,} "
            "groups (median), with the user and with another; ± half the 95 % interval[/]",
            highlight=False,
        )
    for period, sizes, by_mechanism in shares_by_size(cases):
        title = f"users with an AUC above {AUC_LEVELS[0]:g}, {period}, by group size"
        out.print(title, markup=False, highlight=False)
        table = new_table()
        table.add_column("mechanism", no_wrap=True)
        add_numbers(table, *(f"{size:,}" for size in sizes))
        for name, values in by_mechanism.items():
            table.add_row(key.short(name), *(f"{100 * share:.1f} %" for share in values))
        out.print(table)
        out.print(f"[dim]{BY_SIZE}[/]", highlight=False)
    key.show(out)


def show_certificates(certificates: xr.Dataset) -> None:
    """Print the ceilings of users in aggregate, one table per period and group size."""
    from clusterscale.reporting.certificates import (
        COVERS,
        NEIGHBOURS,
        read_ceilings,
        show_ceiling,
    )

    certificates = with_labels(certificates)
    key = Key()
    for case in read_ceilings(certificates):
        title = f"{case.n_users:,} users, {case.period}, groups of {case.group_size:,}"
        out.print(title, markup=False, highlight=False)
        table = new_table()
        table.add_column("mechanism", no_wrap=True)
        table.add_column("user is", no_wrap=True)
        rate = f"TPR {case.rate:g}"
        add_numbers(table, "median", "95 %", "worst", "accuracy", rate, "if found")
        for line in case.lines:
            numbers = (line.median, line.high, line.worst, line.accuracy, line.tpr)
            mark = "" if line.tight else "≤ "
            cells = [f"{mark}{show_ceiling(number)}" for number in numbers]
            cells.append(f"{mark}{line.posterior(case.prior, case.rate):.2f}")
            table.add_row(key.short(line.mechanism), NEIGHBOURS[line.neighbours], *cells)
        out.print(table)
        out.print(
            f"[dim]highest AUC of any adversary, who knows all but whether the user is inside: "
            f"over users; accuracy, and true positive rate at a false positive rate of "
            f"{case.rate:g}, of the worst user; if found: the probability that the worst user is "
            f"inside, if found at that rate, where one in {1 / case.prior:,.0f} is inside; ≤: "
            f"perhaps less. {COVERS}[/]",
            highlight=False,
        )
    key.show(out)


def show_recovery(recovery: xr.Dataset) -> None:
    """Print mean errors over users by prior and strategy, one table per mechanism."""
    recovery = with_labels(recovery)
    profiling = recovery.profiling_error.mean("user").compute()
    localization = recovery.localization_error.mean("user").compute()
    key = Key()
    errors = recovery.relative_error.values
    n_users = recovery.sizes["user"]
    for mechanism, error in zip(recovery.mechanism.values, errors, strict=True):
        title = f"{n_users:,} users, {key.short(mechanism)}, relative error {error:.3g}"
        out.print(title, highlight=False)
        for start in range(0, recovery.sizes["strategy"], _STRATEGIES):
            strategies = recovery.strategy.values[start : start + _STRATEGIES]
            table = new_table()
            table.add_column("prior", no_wrap=True)
            add_numbers(table, *(key.plain(strategy) for strategy in strategies))
            for prior in recovery.prior.values:
                cells = []
                for strategy in strategies:
                    at = {"mechanism": mechanism, "prior": prior, "strategy": strategy}
                    best = localization.sel(at).min().item()
                    cells.append(f"{profiling.sel(at).item():.2f} {best:.2f}")
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
    key = Key()
    names = "period", "prior", "group_size", "mechanism", "attack"
    setting = [str(comparison[f"compared_{name}"].item()) for name in names]
    title = ", ".join(key.plain(part) for part in (str(comparison.source.item()), *setting) if part)
    out.print(title, markup=False, highlight=False)
    high, low = comparison.auc_top.item(), comparison.auc_bottom.item()
    table = new_table()
    table.add_column("characteristic", min_width=14)
    add_numbers(table, "most", "least", "forest", "weight", "apart")
    for i, words in enumerate(comparison.characteristic_title.values):
        one = comparison.isel(characteristic=i)
        pairs = [_pair(one[f"{side}_mean"], one[f"{side}_sd"]) for side in ("top", "bottom")]
        numbers = (one[n].item() for n in ("forest_importance", "logistic_coefficient"))
        last = f"{one.separation.item():.2f}"
        table.add_row(escape(str(words)), *pairs, *(f"{number:z.2f}" for number in numbers), last)
    out.print(table)
    out.print(
        f"[dim]the {comparison.n_compared.item():,} most exposed, mean AUC {high:.3f}, and as many "
        f"least exposed, {low:.3f}: mean ± standard deviation; the forest classifies "
        f"{comparison.forest_accuracy.item():.0%} correctly; weight of a logistic regression; "
        "apart: probability that one of the most exposed has more[/]",
        highlight=False,
    )
    key.show(out)
    if high - low < _GAP:
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
    from clusterscale import api

    return api.screen.analysis(config.the_audit(), certificates=config.certify)


@running_verb
def certify(config: Config) -> Analysis:
    """State the best that any adversary can do against each user, under every mechanism.

    The adversary knows everything but whether the user is inside. Attacks show what some
    adversaries do; certificates bound all of them.
    """
    from clusterscale import api

    return api.certify.analysis(config.the_audit(), how=config.certify)


@running_verb
def recover(config: Config) -> Analysis:
    """Infer the locations of every user from the published aggregates, and write the report.

    Resumes an interrupted recovery. The `recovery` section of a config sets the adversary's prior
    knowledge, the published mechanisms and the epochs.
    """
    from clusterscale import api

    return api.recover.analysis(config.the_recovery())


@running_verb
def traits(config: Config) -> Analysis:
    """Report what the most exposed users of an audit or a screen have in common.

    Compares their mobility with that of the least exposed, and reports which locations and times
    the attack uses. The `traits` section of a config sets how they are compared.
    """
    from clusterscale import api

    return api.traits.analysis(config.the_audit(), how=config.traits)


def show_variables(results: xr.Dataset) -> None:
    """Print the variables of any dataset, and the mean of those that are numbers."""
    table = new_table()
    table.add_column("variable", no_wrap=True)
    table.add_column("what it is")
    add_numbers(table, "mean")
    for name, variable in results.data_vars.items():
        mean = f"{float(variable.mean()):.4g}" if variable.dtype.kind in "fiub" else ""
        table.add_row(escape(str(name)), escape(str(variable.attrs.get("long_name", ""))), mean)
    out.print(table)


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
