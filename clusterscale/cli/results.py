"""Print the results of an audit: a summary of one screen, or all cases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from clusterscale.cli import tables
from clusterscale.cli.console import out
from clusterscale.cli.tables import Key
from clusterscale.phrases import GUARANTEE_VERDICTS, LOOKS, NOT_SEEN, NOT_TESTED
from clusterscale.schema import with_labels
from clusterscale.validation_messages import find_ties

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.reporting.audit.cases import SummaryRow
    from clusterscale.reporting.audit.model import AuditReport

_AROUND = ("period", "prior")
_MECHANISMS = 8  # mechanisms in a summary,


_MEASURES = 6  # columns per table


_STYLES = {"good": "green", "middling": "yellow", "bad": "bold red"}


def guarantee_table(results: xr.Dataset, key: Key) -> Iterator[RenderableType]:
    """Yield a table of tests of the guarantee of every mechanism that declares one."""
    varied = [dim for dim in ("period", "group_size") if results.sizes[dim] > 1]
    dims = ("mechanism", "period", "group_size")
    every = product(*(results[dim].values for dim in dims))
    cases = [results.sel(dict(zip(dims, case, strict=True))) for case in every]
    if rows := [case for case in cases if np.isfinite(case["epsilon_seen"].item())]:
        yield from tables.declared_table("guarantees", rows, varied=varied, key=key, styled=_styled)


def count_guarantees(audit: AuditReport, key: Key, most: int) -> Iterator[str]:
    """Yield a line per worst verdict on guarantees: its mechanisms, at most ``most`` by name."""
    order = list(dict.fromkeys([*GUARANTEE_VERDICTS, *audit.tested.values()]))
    yield from _count(audit.tested, order, "guarantees ", key, most)


def count_exposures(audit: AuditReport, key: Key, most: int) -> Iterator[str]:
    """Yield a line per verdict on exposure: its mechanisms, at most ``most`` by name."""
    from clusterscale.reporting.findings import EXPOSURES

    worst = {mechanism: finding.exposure for mechanism, finding in audit.worst.items()}
    yield from _count(worst, EXPOSURES, "", key, most)
    if worst.get(raw := str(audit.defences.raw_counts)) == "inconclusive":
        yield f"{key.name(raw)}: {escape(audit.worst[raw].reason)}"
    epsilon = audit.results["guarantee_epsilon"].max("period").to_series()
    unseen = [one for one in worst if worst[one] == NOT_SEEN and not np.isfinite(epsilon[one])]
    if unseen:
        yield f"no guarantee, so other attacks may find people: {key.names(unseen, most)}"


def name_refused(audit: AuditReport, key: Key, most: int) -> Iterator[str]:
    """Yield which mechanisms ``publish`` refuses, at most ``most`` by name for each reason."""
    if audit.refused:
        yield "[yellow]publish refuses[/] " + "; ".join(
            f"{key.names(names, most)} ({escape(reason)})"
            for reason, names in audit.refused.items()
        )


def warn_of_float_noise(listed: str) -> Iterator[str]:
    """Yield a warning about the named mechanisms, which publish unrounded noise."""
    from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK

    if listed:
        yield f"[yellow]not safe to publish as floating-point numbers:[/] {listed}"
        yield f"{FLOAT_NOISE_RISK}; {FLOAT_NOISE_REMEDY}"


def _count(
    worst: Mapping[str, str], order: Sequence[str], subject: str, key: Key, most: int
) -> Iterator[str]:
    """Yield a line per verdict: the number and names of its mechanisms."""
    for word in order:
        labels = [label for label, verdict in worst.items() if verdict == word]
        if labels:
            yield f"{subject}{_styled(word)}: {len(labels)} ({key.names(labels, most)})"


def _styled(verdict: str) -> str:
    """Return a verdict in the style of its look."""
    style = _STYLES.get(LOOKS.get(verdict, ""))
    return f"[{style}]{verdict}[/]" if style else escape(verdict)


class _UtilityRow(NamedTuple):
    """Utility of a mechanism, and which measures are worse than those of a random guess."""

    mechanism: str
    released_share: float
    values: NDArray[np.float64]
    worse: NDArray[np.bool_]


def every_utility(audit: AuditReport, key: Key) -> Iterator[RenderableType]:
    """Yield the measures of every mechanism, period and group size."""
    results, defences = audit.results, audit.defences
    if not _has_utility(results):
        return
    for case in defences.cases():
        at, period = (case.period, case.size), (defences.periods[case.period],)
        names = [f"groups of {defences.table.group_sizes[case.size]:,}"]
        yield ", ".join(["utility", *names, *tables.several(results, ("period",), period, key)])
        columns = defences.released_share[at], defences.utility[at], defences.worse[at]
        rows = list(map(_UtilityRow, defences.mechanisms, *columns))
        yield from _tables(results, rows, defences.guess[at], key)


def worst_utility(audit: AuditReport, key: Key) -> Iterator[RenderableType]:
    """Yield the measures of every mechanism, each in its worst setting."""
    results, defences = audit.results, audit.defences
    if not _has_utility(results):
        return
    varied = any(results.sizes[dim] > 1 for dim in ("period", "group_size"))
    yield "utility" + (", worst case over all groups" if varied else "")
    rows = []
    for i, mechanism in enumerate(defences.mechanisms):
        least = float(np.fmin.reduce(defences.released_share[:, :, i], axis=None))
        values = defences.farthest(defences.utility[:, :, i])
        worse = defences.worse[:, :, i].max(axis=(0, 1))
        rows.append(_UtilityRow(mechanism, least, values, worse))
    yield from _tables(results, rows, defences.farthest(defences.guess), key)


def _tables(
    results: xr.Dataset, rows: Sequence[_UtilityRow], guess: NDArray[np.float64], key: Key
) -> Iterator[Table]:
    """Yield tables of measures by mechanism and of a random guess.

    Marked in red are mechanisms whose releases are nearly empty, and values worse than a guess.
    """
    from clusterscale.utility import emptiness

    titles = [
        f"{title}, best {best:g}"
        for title, best in zip(results.measure_title.values, results.ideal.values, strict=True)
    ]
    for start in range(0, len(titles), _MEASURES):
        part = slice(start, start + _MEASURES)
        table = tables.new_table("mechanism")
        tables.add_numbers(table, *map(key.letter, titles[part]))
        for row in rows:
            label = key.name(row.mechanism)
            if empty := emptiness(row.released_share):
                label += f" [bold red]({empty})[/]"
            table.add_row(label, *map(_measured_value, row.values[part], row.worse[part]))
        worse = " [bold red](* worse)[/]" if any(row.worse[part].any() for row in rows) else ""
        table.add_row(f"[italic]random guess[/]{worse}", *map(_measured_value, guess[part]))
        yield table


def _measured_value(value: float, worse: bool = False) -> str:
    if np.isnan(value):
        return "-"
    text = f"{value:z.3f}" if abs(value) < 1000 else f"{value:.3g}"
    return f"[bold red]{text}*[/]" if worse else text


def _has_utility(results: xr.Dataset) -> bool:
    return results.sizes["mechanism"] > 1 and bool(np.isfinite(results.utility.values).any())


def show_results(results: xr.Dataset, *, full: bool = False) -> None:
    """Print the results of an audit.

    ``full``: all cases, each guarantee at each group size, and all utility measures. Otherwise the
    most exposing case of each mechanism, in at most 35 lines of 80 columns.
    """
    from clusterscale.reporting.audit.model import AuditReport

    audit, key = AuditReport.of(with_labels(results, suffix="title")), Key()
    parts: Iterable[RenderableType] = _full(audit, key)
    if not full:
        parts, key = _summary(audit)
    for part in parts:
        out.print(part)
    key.show(out)


def _full(audit: AuditReport, key: Key) -> Iterator[RenderableType]:
    results = audit.results
    for around in product(*(results[dim].values for dim in _AROUND)):
        yield ", ".join(["mean over targets", *tables.several(results, _AROUND, around, key)])
        yield _case_table(audit, str(around[0]), str(around[1]), key)
    yield from _verdicts(audit, key, results.sizes["mechanism"], guarantee_table(results, key))
    yield from every_utility(audit, key)
    yield NOT_TESTED


def _verdicts(
    audit: AuditReport, key: Key, most: int, guarantees: Iterable[RenderableType]
) -> Iterator[RenderableType]:
    """Yield the verdicts on mechanisms, at most ``most`` by name, with those on guarantees."""
    yield from count_exposures(audit, key, most)
    if audit.empty:
        some = " for some group size or period" if len(list(audit.defences.cases())) > 1 else ""
        yield f"[bold red]nearly empty releases{some}:[/] {key.names(audit.empty)}"
    yield from _control_lines(audit)
    yield from map(escape, audit.absent)
    yield from guarantees
    yield from warn_of_float_noise(key.names(audit.float_noise, most))
    yield from name_refused(audit, key, most)


def _summary(audit: AuditReport) -> tuple[list[RenderableType], Key]:
    """Return what fits on a screen; drop utility first, then the least exposing mechanisms."""
    parts: list[RenderableType] = []
    key = Key()
    # 8: characters of labels in a table with many columns
    longest = tables.LONGEST if tables.fits(out, _strongest_table(audit, Key(), _MECHANISMS)) else 8
    n_all = audit.results.sizes["mechanism"]
    for n_mechanisms, with_utility, name in (
        (_MECHANISMS, True, tables.NAME),
        (_MECHANISMS, False, tables.NAME),
        (_MECHANISMS, True, longest),
        *((n, False, longest) for n in (8, 6, 4, 2, 1)),  # fewer if their labels are long
    ):
        key = Key(longest, name)
        parts = ["strongest case of each mechanism, mean over targets"]
        parts.append(_strongest_table(audit, key, n_mechanisms))
        if (n_left := n_all - n_mechanisms) > 0:
            parts.append(f"and {n_left:,} more, none with a higher AUC")
        guarantees = count_guarantees(audit, key, n_mechanisms)
        parts += [*_verdicts(audit, key, n_mechanisms, guarantees), NOT_TESTED]
        if with_utility:
            if n_all > n_mechanisms:
                continue
            parts += worst_utility(audit, key)
        # 31: lines of a summary, which leaves nine for errors, paths of results and ceilings
        if tables.lines_of(out, [*parts, key.table(out.width)]) <= 31:
            break
    return parts, key


def _strongest_table(audit: AuditReport, key: Key, n_rows: int) -> Table:
    """Return a table of the case with the highest mean AUC over targets, per mechanism."""
    from clusterscale.reporting.audit.gains import least_gains

    sizes, defences = audit.results.sizes, audit.defences
    dims = [dim for dim in (*_AROUND, "group_size") if sizes[dim] > 1] + ["attack"]
    defended = sizes["mechanism"] > 1
    gains = {str(defences.raw_counts): 0.0} | least_gains(defences)
    rows = []
    for mechanism in defences.mechanisms:
        lines = [line for line in audit.lines if line.setting.mechanism == mechanism]
        means = [line.mean for line in lines]
        if not np.isfinite(means).any():
            rows.append((np.inf, mechanism, ["-"] * (2 + defended) + ["-"] * len(dims)))
            continue
        best = lines[int(np.nanargmax(means))]
        ties = [lines[i] for i in find_ties(means)]
        cells = [_number(best.mean), _number(best.mean_loss)]
        cells += [_number(gains.get(mechanism, np.nan))] if defended else []
        cells += [_value_or_tie(ties, dim, best, key) for dim in dims]
        rows.append((best.mean, mechanism, cells))
    table = tables.new_table("mechanism")
    tables.add_numbers(table, "AUC", "privacy loss", *(["gain"] if defended else []))
    for dim in dims:
        table.add_column(dim.replace("_", " "), no_wrap=dim != "group_size", justify="left")
    # in the order of the plan; if not all fit, only the most exposing ones
    kept = np.argsort([-auc for auc, *_ in rows], kind="stable")[:n_rows]
    for number in sorted(kept.tolist()):
        _, mechanism, cells = rows[number]
        table.add_row(key.name(mechanism), *cells)
    return table


def _value_or_tie(ties: Sequence[SummaryRow], dim: str, best: SummaryRow, key: Key) -> str:
    """Return the value of a dimension, or the number of values that tie."""
    n_values = len({_value(line, dim) for line in ties})
    if n_values > 1:
        return f"tie of {n_values}"
    value = _value(best, dim)
    return f"{value:,}" if dim == "group_size" else key.short(value)


def _value(line: SummaryRow, dim: str) -> object:
    return getattr(line.setting if dim in _AROUND else line, dim)


def _case_table(audit: AuditReport, period: str, prior: str, key: Key) -> Table:
    """Return a table of all cases of a period and prior, by group size and mechanism."""
    results, defended = audit.results, audit.results.sizes["mechanism"] > 1
    table = tables.new_table(*(["mechanism"] if defended else []), "attack")
    tables.add_numbers(table, "AUC", "privacy loss", *(["gain"] if defended else []))
    table.add_column("controls", no_wrap=True)
    lines = {line.case: line for line in audit.lines}
    settings = {(s.period, s.prior, s.mechanism): s for s in audit.cases.settings}
    for size in results.group_size.values:
        table.add_section()
        table.add_row(f"[bold]groups of {size:,}[/]")
        for mechanism in audit.defences.mechanisms:
            gain = _number(audit.gains.get((period, prior, int(size), mechanism), np.nan))
            for number, attack in enumerate(audit.cases.attacks):
                line = lines[settings[period, prior, mechanism], int(size), attack]
                first = [key.name(mechanism) if number == 0 else ""] if defended else []
                cells = [_number(line.mean), _number(line.mean_loss)]
                cells += [gain if number == 0 else ""] if defended else []
                table.add_row(*first, key.short(attack), *cells, _controls(audit, line))
    return table


def _control_lines(audit: AuditReport) -> Iterator[RenderableType]:
    """Yield lines on controls off chance, and on attacks no better than the naive one."""
    controls, n_cases = audit.controls, len(audit.lines)
    for control, where in (
        (controls.shuffled, "with shuffled labels"),
        (controls.absent, "without the target"),
    ):
        if control.off:
            yield (
                f"[bold red]off chance {where}:[/] {len(control.off)} of {n_cases} cases; "
                "do not rely on these figures yet"
            )
    if controls.weak:
        yield (
            f"[bold red]no better than adding up all values:[/] {len(controls.weak)} of "
            f"{n_cases} cases; too weak an attack to show that anyone is safe"
        )
    if not np.isfinite(audit.cases.control).any():
        return
    sound = not controls.shuffled.off and not controls.absent.off
    yield (
        "controls: shuffled labels, target absent"
        + (", both at chance; " if sound else "; ")
        + "adding up all values"
    )


def _controls(audit: AuditReport, line: SummaryRow) -> str:
    """Return the means of the controls of a case over targets, in red where a control fails."""
    controls = audit.controls
    parts = (
        (line.control, controls.shuffled.off),
        (line.absent, controls.absent.off),
        (line.naive, controls.weak),
    )
    texts = [(_number(mean, 2), line.case in {o.case for o in off}) for mean, off in parts]
    return " ".join(f"[bold red]{text}[/]" if is_off else text for text, is_off in texts)


def _number(value: float, digits: int = 3) -> str:
    return "-" if np.isnan(value) else f"{value:z.{digits}f}"
