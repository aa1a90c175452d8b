"""Verdicts on releases: of a catalogue, and of one run under a policy."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from clusterscale import reauditing
from clusterscale.analyses.publish import PublishPlan
from clusterscale.analyses.publish.analysis import count_users
from clusterscale.analyses.publish.release import describe_series, row_names
from clusterscale.api.execution import open_executor, show_progress
from clusterscale.api.reports import check_page, gather, page_of
from clusterscale.config import Config, ReleasesConfig, load_either, load_policy, load_releases
from clusterscale.contracts import hash_of
from clusterscale.cube import TraceCube
from clusterscale.errors import ClusterscaleError, InputError
from clusterscale.html_tables import grid
from clusterscale.phrases import argument, option
from clusterscale.reauditing import Outcome, Policy, Reaudit
from clusterscale.reauditing.policy_evaluation import mark_unknown, verdict_of
from clusterscale.redaction import clean
from clusterscale.reporting import Run, describe, render_sign_off, write_report
from clusterscale.reporting.audit.model import AuditReport
from clusterscale.reporting.coverage import ReleaseScope
from clusterscale.runtime import Cluster
from clusterscale.schema import RAW_COUNTS, find_mechanism
from clusterscale.storage import put
from clusterscale.study import Tell
from clusterscale.study.execution import Executor
from clusterscale.study.identity import require_same_code

_AUDIT_FIRST = (
    ": this is advice. Add what it advises to `audit.mechanisms` of its config,\n  {}\n"
    "then run `clusterscale audit CONFIG --output FOLDER`, and this again on FOLDER"
)


@dataclass(frozen=True, slots=True)
class Gate:
    """Verdict on a run before a release.

    Attributes
    ----------
    verdict
        ``pass``, ``warn``, ``fail``, or ``error`` if a rule of the policy could not be applied.
    mechanism
        Label of the mechanism that was evaluated.
    reasons
        Results of all checks, as plain values: ``check``, ``level``, ``measured``, ``limit`` and
        ``text``.
    """

    verdict: str
    mechanism: str
    reasons: tuple[dict[str, Any], ...]

    def _repr_html_(self) -> str:
        """Return the verdict and its reasons as a table for notebooks."""
        rows = [[str(reason[key]) for key in ("level", "check", "text")] for reason in self.reasons]
        return grid(f"{self.verdict}: {self.mechanism}", ("level", "check", "reason"), rows)


def gate(
    results: str | Path | Run,
    policy: Policy | str | Path | None = None,
    mechanism: str | None = None,
    group_size: int | None = None,
    release: str | Path | None = None,
) -> Gate:
    """Evaluate a run against a policy before anything is released.

    Parameters
    ----------
    results
        Folder of a finished run, or a :class:`clusterscale.reporting.Run`.
    policy
        A :class:`clusterscale.reauditing.Policy`, or a YAML file of one or of a catalogue that has
        one. None: the verdict *exposed* fails, and an inconclusive run warns.
    mechanism
        Label or id of the mechanism to evaluate; needed if the run has several besides raw counts.
    group_size
        Number of people that the release counts, unless the policy states it. A run passes only if
        its groups have that size.
    release
        YAML file of the config of the release: a run of other data, days, people or sizes never
        passes. None: the verdict says that these are not known.

    Returns
    -------
    Gate
        The verdict, with its reasons.

    Raises
    ------
    InputError
        If the run has no audit, its tasks failed, or the mechanism is not clear.
    MissingError, DamagedError
        If nothing has finished, or a part of the results is missing.
    ConfigError
        If the policy is not valid.

    Warns
    -----
    UserWarning
        If an analysis in the folder is left out.
    """
    run = gather(results) if isinstance(results, str | Path) else results
    name, rules = run.name or "the run", _read(policy)
    if run.audit is None:
        advised = str(run.others["advise"].attrs["yaml"]) if "advise" in run.others else ""
        how = _AUDIT_FIRST.format(advised) if advised else ""
        raise InputError(f"{name}: there is no audit to evaluate{how}")
    require_same_code(name.rstrip("/").removesuffix("/results.zarr"))
    label = _pick(run.audit, mechanism)
    run = reauditing.of_size(run, group_size or rules.group_size)
    stated, scope = {"`group_size`": group_size}, None
    if release is not None:
        scope = scope_of(*_read_release(replace(run, chosen=label), release))
    _, _, reasons = reauditing.evaluate_audit(
        rules, run, label, reauditing.known_part(run), stated, release=scope
    )
    reasons = mark_unknown(reasons)
    return Gate(
        verdict_of(reasons),
        label,
        tuple(reauditing.json_safe(asdict(reason)) for reason in reasons),
    )


def scope_of(plan: PublishPlan, cube: TraceCube) -> ReleaseScope:
    """Return what the release of a plan is of, to be compared with what results are of."""
    changes = {}
    if {*row_names(plan, cube)} != {*cube.regions.names}:
        changes["data"] = "its places are those of a list, and not those of the audit"
    if plan.choose_cap is not None:
        changes["mechanism"] = "its cap is chosen from the records when it is published"
    about: Any = {"n_people": count_users(plan, cube), "group_size": plan.group_size}
    about |= {"null_roi": plan.null_roi, "changes": changes}
    return ReleaseScope(cube.known_fingerprint, plan.span, plan.mechanism.id, **about)


def sign_off(
    results: str | Path | Run,
    output: str | Path | None = None,
    *,
    policy: Policy | str | Path | None = None,
    mechanism: str | None = None,
    group_size: int | None = None,
    release: str | Path | None = None,
    force: bool = False,
) -> str:
    """Write the page to sign before a release, and a JSON file with the same content beside it.

    Parameters
    ----------
    results
        Folder of a finished run, or a :class:`clusterscale.reporting.Run`.
    output
        HTML file to write, a local path or fsspec URL. None: ``sign-off.html`` in the folder.
    policy, mechanism, group_size
        As for :func:`gate`.
    release
        YAML file of the config of the release, whose series the page adds up. None: the page says
        that the series was not examined.
    force
        Replace files that are not earlier ones of the same run.

    Returns
    -------
    str
        Location of the page.

    Raises
    ------
    InputError
        As :func:`gate`, or if ``output`` is missing and ``results`` is not a folder; or if the
        release has another mechanism.
    MissingError, DamagedError, ConfigError
        As :func:`gate`.
    StoreError
        If a file cannot be written.
    ExistsError
        If there is another file at ``output``.

    Warns
    -----
    UserWarning
        If an analysis in the folder is left out.
    """
    run = gather(results) if isinstance(results, str | Path) else results
    output = page_of(results, output, "sign-off.html")
    beside = f"{output.removesuffix('.html')}.json"
    check_page([output, beside], run, force=force)
    rules = _read(policy)
    found = gate(run, rules, mechanism, group_size, release)
    changed = rules.model_dump_json(exclude_defaults=True)
    digest = hash_of(rules.model_dump(mode="json"))
    name = str(policy) if isinstance(policy, str | Path) else "given" if policy else "none"
    size = group_size or rules.group_size
    outcome = asdict(found) | {
        "policy": f"{name}; settings that differ from the defaults: {changed}; digest {digest}",
        "group_size": size,
    }
    shown = reauditing.of_size(mark(run, rules, found.mechanism), size)
    scope = None if release is None else scope_of(*_read_release(shown, release))
    facts = reauditing.json_safe(describe(shown, outcome, _examine_series(shown, release), scope))
    facts["digest"] = hash_of(facts)
    put(beside, json.dumps(facts, indent=1).encode())
    put(output, render_sign_off(shown, facts).encode())
    return output


def _examine_series(run: Run, release: str | Path | None) -> dict[str, Any]:
    """Return what the series of a release spends with the chosen mechanism of a run.

    It is ``not_examined``, with the reason, if the release is not named or its ledger not read.
    """
    if release is None:
        return {"not_examined": f"the release is not named: give its config, {option('release')}"}
    plan, cube = _read_release(run, release)
    try:
        return describe_series(plan, cube)
    except ClusterscaleError as error:
        return {"not_examined": clean(str(error))}


def _read_release(run: Run, release: str | Path) -> tuple[PublishPlan, TraceCube]:
    """Return the plan of a release with the chosen mechanism of a run, and its cube."""
    assert run.audit is not None
    chosen = AuditReport(run.audit).mechanisms.get(run.chosen)
    if chosen is None:
        raise InputError(f"{run.chosen} is of a package that is not installed")
    config = load_either(release, mechanism=lambda _: chosen.model_dump(mode="json"))
    if not isinstance(config, Config) or config.the_publication().mechanism.id != chosen.id:
        raise InputError(f"{release} should be the config of a release with {run.chosen}")
    return config.the_publication(), config.cube.open()


def mark(run: Run, policy: Policy | str | Path | None, mechanism: str | None) -> Run:
    """Return a run whose picture marks a mechanism, and has the limits of a policy on mean loss."""
    limit = _read(policy).mean_privacy_loss
    losses = {} if limit is None else limit.model_dump(exclude_none=True)
    aucs = {f"policy: {level} above": (1 + loss) / 2 for level, loss in losses.items()}
    chosen = "" if mechanism is None or run.audit is None else _pick(run.audit, mechanism)
    return replace(run, chosen=chosen, limits=aucs)


def _read(policy: Policy | str | Path | None) -> Policy:

    return load_policy(Path(policy)) if isinstance(policy, str | Path) else policy or Policy()


def _pick(audit: xr.Dataset, wanted: str | None) -> str:
    """Return the label of the mechanism to evaluate; ``wanted`` is a label, a title or an id."""
    raw_counts, labels = find_mechanism(audit, RAW_COUNTS), list(map(str, audit.mechanism.values))
    if wanted is not None:
        titles = map(str, audit.get("mechanism_title", audit.mechanism).values)
        named = [label for label, title in zip(labels, titles, strict=True) if title == wanted]
        return find_mechanism(audit, wanted) or (named[0] if len(named) == 1 else wanted)
    candidates = [label for label in labels if label != raw_counts] or labels
    if len(candidates) > 1:
        raise InputError(
            f"the run has {len(candidates)} mechanisms: choose one, e.g. "
            f"{argument('mechanism', candidates[0])}"
        )
    return candidates[0]


def reaudit(
    catalogue: str | Path | ReleasesConfig,
    output: str | Path | None = None,
    executor: Executor | Cluster | None = None,
    *,
    memory: int | None = None,
    progress: bool | Tell = True,
) -> xr.Dataset:
    """Audit every new or changed release of a catalogue, and add its verdict to the ledger.

    Parameters
    ----------
    catalogue
        YAML file with releases, audit and policy, or its parsed
        :class:`clusterscale.config.ReleasesConfig`. Its ``cluster`` is not used.
    output
        Folder of the ledger; None: the catalogue's ``output``.
    executor, memory, progress
        As for :func:`~clusterscale.api.audit`.

    Returns
    -------
    xr.Dataset
        Over ``release``, all of the catalogue: the fields of its
        :class:`~clusterscale.reauditing.Verdict` under the present settings, ``new`` (whether this
        call evaluated it), and ``error``. A release that could not be evaluated has the verdict
        ``error``, even if it had another before. ``attrs["page"]`` is the page with the trend,
        empty if nothing was new.

    Raises
    ------
    LeaseHeldError
        If another process works on the same folder.
    InputError, ConfigError, MissingError
        If the catalogue is not valid, or no release is found.
    ClusterError, StoreError
        If the cluster or a store fails; finished work is kept, and the same call resumes it.

    Warns
    -----
    UserWarning
        If the verdicts could not be posted to the webhook.
    """
    chosen = load_releases(str(catalogue)) if isinstance(catalogue, str | Path) else catalogue
    if chosen.releases is None:
        raise InputError("`releases` is missing in the catalogue")
    folder = str(output or chosen.output).rstrip("/")
    opened: list[Reaudit] = []

    def scan() -> Reaudit:
        opened.append(open_catalogue(chosen, folder))
        return opened[0]

    with open_executor(executor) as (runner, usable):
        outcome = reauditing.audit_new(
            scan,
            folder,
            partial(_with_progress, runner, progress),
            memory=usable if memory is None else memory,
            announcement=reauditing.Announcement(None, None, chosen.webhook),
            write_page=write_page,
        )
    if outcome.not_posted:
        warnings.warn(f"not posted: {outcome.not_posted}", UserWarning, stacklevel=2)
    return _verdicts(opened[0], outcome)


def open_catalogue(chosen: ReleasesConfig, folder: str) -> Reaudit:
    """Return the re-audit of a catalogue, whose ledger is in ``folder``."""
    entries = chosen.entries()  # before a preset is written
    cube = None if chosen.cube is None else chosen.cube.open().uri
    listed = reauditing.Catalogue(entries, cube, f"{folder}/listed.json")
    return Reaudit(chosen.plan, listed, folder)


def write_page(folder: str, open_run: Callable[[str], Run] = gather) -> None:
    """Write the page of a run to its folder; ``open_run`` says what is left out."""
    write_report(open_run(folder), f"{folder}/report.html")


@contextmanager
def _with_progress(
    executor: Executor, progress: bool | Tell, has_tasks: bool
) -> Iterator[tuple[Executor, Tell]]:
    with show_progress(progress and has_tasks, "reaudit") as tell:
        yield executor, tell


def _verdicts(work: Reaudit, outcome: Outcome) -> xr.Dataset:
    """Return the verdict on each release of a catalogue under its present settings."""
    errors = {problem.name: clean(str(problem.error)) for problem in outcome.problems}
    listed = {release.name for release in work.releases}
    rows = [*work.current(), *(None for name in errors if name not in listed)]
    labels = [*(release.name for release in work.releases), *(errors.keys() - listed)]
    lost = "there is no verdict under these settings"
    why = [errors.get(name, "" if row else lost) for name, row in zip(labels, rows, strict=True)]
    new = {row.number for row in outcome.verdicts}
    columns: dict[str, list[Any]] = {
        field.name: [getattr(row, field.name, None) for row in rows]
        for field in fields(reauditing.Verdict)
    }
    columns["verdict"] = [
        "error" if text or not row else row.verdict for text, row in zip(why, rows, strict=True)
    ]
    columns["new"] = [row is not None and row.number in new for row in rows]
    columns |= {"release": labels, "error": why}
    found = {name: ("release", _column(values)) for name, values in columns.items()}
    return xr.Dataset(found, attrs={"page": outcome.page})


def _column(values: Sequence[Any]) -> NDArray[Any]:
    """Return values as numbers or as text; None is NaN or empty."""
    if any(isinstance(value, str) for value in values) or all(value is None for value in values):
        return np.array(["" if value is None else value for value in values], object)
    return np.array([np.nan if value is None else value for value in values])
