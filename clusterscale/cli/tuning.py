"""The ``tune`` command: choose hyperparameters as a real adversary could."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from clusterscale.cli import options as shared
from clusterscale.cli.console import out
from clusterscale.cli.running import running_cluster
from clusterscale.cli.tables import Key, show_table
from clusterscale.study import Progress, Tell

if TYPE_CHECKING:
    from clusterscale.analyses.tuning import TuningCase, TuningResult
    from clusterscale.contracts import Attack, Values
    from clusterscale.study.execution import Executor


def tune(
    config: shared.ConfigFile = None,
    targets: Annotated[int, typer.Option(min=1)] = 5,
    folds: Annotated[int, typer.Option(min=2, max=10)] = 3,
    output: shared.OptionalAddress = None,
    cluster: str | None = None,
    workers: shared.Workers = None,
    memory: str | None = None,
) -> None:
    """Choose hyperparameters of the config's learned attacks by cross-validation.

    The adversary searches a small grid (cost of logistic; neighbours of nearest; trees and depth of
    forest; width of perceptron) on its own training groups, never on a challenge, for the first
    targets of the config in every setting. Prints lines to paste into the config.

    Parameters
    ----------
    targets
        Number of the config's targets to use.
    folds
        Folds of the training groups.
    """
    from clusterscale.analyses.audit.analysis import choose_targets
    from clusterscale.analyses.tuning import choose, list_cases, tunable
    from clusterscale.runtime.learning import cross_validate
    from clusterscale.study.foreign_code import Probe, packages_of

    chosen = shared.load_config(config)
    plan = chosen.the_audit()
    attacks = tunable(plan)
    chosen_cluster = shared.pick_cluster(chosen.cluster, cluster, workers)
    allowed = shared.parse_memory(memory, chosen_cluster)
    folder = (output or chosen.output).rstrip("/")
    cube = chosen.cube.open()
    plan.check(cube)
    with running_cluster(chosen_cluster, "tune") as (executor, tell):
        who = choose_targets(plan, cube, folder, executor, memory=allowed, on_progress=tell)
        cases = list(list_cases(plan, cube, who, targets))
        executor.preflight(Probe(cases[0].task.source, packages_of(plan)))
        variants = [attack.variants() for attack in attacks]
        # the variants of all attacks together, so that they share computations
        how: Any = {"executor": executor, "n_folds": folds, "seed": plan.seed}
        search = partial(cross_validate, attacks=tuple(chain.from_iterable(variants)), **how)
        scores = np.stack(_score(cases, "cross-validation", search, tell))
        targets_of = np.array([case.task.target for case in cases])
        parts = np.split(scores, np.cumsum([len(grid) for grid in variants])[:-1], axis=1)
        pairs = zip(variants, parts, strict=True)
        choices = [choose(grid, part, targets_of) for grid, part in pairs]
        fresh = _evaluate(choices, cases, executor, plan.seed, tell)
    _show(choices, fresh, len({case.task.target for case in cases}), len(cases))
    _print_lines(plan.attacks, {choice.given: choice.chosen for choice in choices})


def _evaluate(
    choices: list[TuningResult], cases: list[TuningCase], executor: Executor, seed: int, tell: Tell
) -> dict[Attack, float]:
    """Return the mean AUC on fresh groups of each attack, as given and as chosen.

    The mean is over cases whose prior has fresh groups; NaN if there are none.
    """
    from clusterscale.runtime.learning import evaluate_on_fresh_groups

    attacks = tuple(
        dict.fromkeys(attack for choice in choices for attack in (choice.given, choice.chosen))
    )
    how: Any = {"executor": executor, "seed": seed}
    score = partial(evaluate_on_fresh_groups, attacks=attacks, **how)
    scores = _score(cases, "fresh groups", score, tell)
    tell(Progress("done", len(cases), len(cases)))
    finite = np.array([row for row in scores if np.isfinite(row).all()])
    means = finite.mean(axis=0) if len(finite) else np.full(len(attacks), np.nan)
    return dict(zip(attacks, means.tolist(), strict=True))


def _score(
    cases: list[TuningCase], stage: str, score: Callable[..., Values], tell: Tell
) -> list[Values]:
    """Return the scores of each case, and report progress."""
    scores = []
    for i, case in enumerate(cases):
        tell(Progress(stage, len(cases), i))
        scores.append(score(case.form, path=case.path))
    return scores


def _show(
    choices: list[TuningResult], fresh: dict[Attack, float], n_targets: int, n_cases: int
) -> None:
    key = Key()
    rows: list[tuple[Attack, float, float | None, float | None]] = []
    for choice in choices:
        rows.append((choice.given, choice.given_auc, None, None))
        if choice.chosen != choice.given:
            gain = choice.auc - choice.given_auc
            rows.append((choice.chosen, choice.auc, gain, choice.spread))
    about = {"key": key, "fresh": fresh, "number": _number}
    show_table(out, "hyperparameters", rows, n_targets=n_targets, n_cases=n_cases, **about)
    key.show(out)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:z.3f}" if np.isfinite(value) else "-"


def _print_lines(attacks: tuple[Attack, ...], chosen: dict[Attack, Attack]) -> None:
    """Print the attacks of a plan as lines of a config, with the chosen hyperparameters."""
    from clusterscale.models import dump_yaml

    print("attacks:")
    distinct: Any = dict.fromkeys(chosen.get(attack, attack) for attack in attacks)
    for tuned in distinct:
        fields = {"name": tuned.name, **tuned.model_dump(mode="json", exclude_unset=True)}
        line = dump_yaml(fields, default_flow_style=True, width=1000)
        print(f"  - {line.strip()}")
