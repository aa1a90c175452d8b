"""The engine and its peers side by side: seconds, and whether they find the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import papers
import peers
from clock import median_of
from ours import CLASSIFIERS, PHASES, Task, publish, run_attacks, select
from scaling import made_up
from scipy.sparse import csr_array
from show import at_least, at_most, out, print_table

from clusterscale.attacks.statistics import features
from clusterscale.contracts import Game, Scores
from clusterscale.metrics import auc
from clusterscale.priors.known_subset import KnownSubset

__all__ = ["compare_attacks", "compare_pipelines", "warm_up"]

RATIO_GOALS = {"papers'": 100, "careful": 3, "spectral": 50}  # how many times faster
AUC_GOAL, ERROR_GOAL = 0.005, 1e-9

Race = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of a target; statistics' errors are relative, AUCs are ours and theirs."""

    ours: dict[str, float]
    careful: dict[str, float]
    error: float
    n_kept: int
    n_other: int  # kept by us, dropped by scikit-learn
    aucs: dict[str, tuple[float, float]]
    estimate: papers.Estimate | None
    papers_error: float


def warm_up(papers_too: bool) -> None:
    """Run every peer once on a small crowd, so that all is loaded."""
    traces = made_up(200, 10)
    task = Task(traces, KnownSubset(alpha=0.5, training=20, challenges=10), 50, 0)
    _compare(task, peers.trace_matrix(traces), 1 if papers_too else None)
    game = task.set_up()
    peers.run_principal(game)
    peers.run_lasso(game)


def compare_pipelines(tasks: Sequence[Task], rfe_part: int | None) -> dict[str, float]:
    """Time four attacks on statistics: a careful pipeline at every target, the papers' at one.

    Returns how many times as long as ours each rival takes.
    """
    visits = peers.trace_matrix(tasks[0].traces)
    parts = [rfe_part, *[None] * (len(tasks) - 1)]
    found = [_compare(task, visits, part) for task, part in zip(tasks, parts, strict=True)]
    ratios = _show_seconds(found)
    if found[0].estimate is not None:
        _show_estimate(found[0].estimate)
    _show_agreement(found)
    return ratios


def _compare(task: Task, visits: csr_array, rfe_part: int | None) -> Comparison:
    game, training, challenge = task.listen()
    labels, n_epochs = game.adversary.training.labels, task.traces.n_epochs
    careful = peers.run_pipeline(visits, n_epochs, training, challenge, labels)
    published = publish(game)
    kept = select(published[0].training)
    scores = run_attacks(published, CLASSIFIERS)
    statistics = np.concatenate([features(published[0].training.release), features(published[1])])
    estimate, papers_error = None, np.nan
    if rfe_part is not None:
        members = np.concatenate([training, challenge])
        estimate = papers.extrapolate(visits, n_epochs, members, labels, careful, rfe_part)
        papers_error = _error(statistics[estimate.rows], estimate.statistics)
    return Comparison(
        task.time(),
        careful.seconds,
        _error(statistics, careful.statistics),
        len(kept),
        len(np.setdiff1d(kept, careful.kept)),
        {name: _aucs(game, scores[name], careful.scores[name]) for name in CLASSIFIERS},
        estimate,
        papers_error,
    )


def _error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the greatest difference, relative where values are above 1."""
    return float((np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1)).max())


def _aucs(game: Game, ours: Scores, theirs: Scores) -> tuple[float, float]:
    return auc(game.challenge.labels, ours), auc(game.challenge.labels, theirs)


def _show_seconds(found: Sequence[Comparison]) -> dict[str, float]:
    ours = {name: _median([each.ours[name] for each in found]) for name in (*PHASES, "whole")}
    careful = {name: _median([each.careful[name] for each in found]) for name in PHASES}
    careful["whole"] = _median([sum(each.careful.values()) for each in found])
    rivals, estimate = {"careful": careful}, found[0].estimate
    if estimate is not None:
        rivals["papers'"] = {**estimate.seconds, "whole": sum(estimate.seconds.values())}
    rows = []
    for name, mine in ours.items():
        times = [rival[name] for rival in rivals.values()]
        pairs = [(f"{theirs:,.2f}", f"{theirs / mine:,.1f}") for theirs in times]
        rows.append((name, f"{mine:.3f}", *(text for pair in pairs for text in pair)))
    print_table(
        "A whole target: known_subset, four attacks on statistics; seconds",
        ("", "ours", *(title for rival in rivals for title in (rival, "ratio"))),
        rows,
        "Ours: the median of 3 runs after one more; whole: run in one go. Careful (SciPy, NumPy, "
        "RFE(step=.1), scikit-learn): one run. Both: the median over targets. Papers' (dense "
        "counts, tsfresh, RFE(step=1), the same models): extrapolated, see below. Ours draws the "
        "groups as well; the peers are given them, and the traces as a matrix.",
    )
    ratios = {rival: seconds["whole"] / ours["whole"] for rival, seconds in rivals.items()}
    for rival, ratio in ratios.items():
        at_least(f"Pipeline, {rival} / ours", ratio, RATIO_GOALS[rival], "x")
    return ratios


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))


def _show_estimate(estimate: papers.Estimate) -> None:
    n_timed, n_groups = len(estimate.rows), estimate.n_groups
    groups = {"dense counts of a group": "draw and count", "tsfresh on a group": "statistics"}
    rows = [
        _piece(name, n_timed, estimate.per_group[phase], n_groups, estimate.seconds[phase])
        for name, phase in groups.items()
    ]
    rows += [
        (f"fit on {size:,} features", str(estimate.n_timed_fits), f"{seconds:.3f}", "", "")
        for size, seconds in estimate.per_fit.items()
    ]
    total = estimate.seconds["elimination"]
    rows.append(_piece("fit, interpolated", 0, total / estimate.n_fits, estimate.n_fits, total))
    print_table(
        "What the papers' pipeline is extrapolated from (first target)",
        ("", "timed", "seconds each", "how often", "seconds"),
        rows,
        "RFE(step=1) fits once for every number of features down to those kept; the time of a fit "
        "is interpolated linearly between the numbers above. The features at each of these are "
        "those that the careful pipeline's elimination leaves.",
    )


def _piece(name: str, n_timed: int, each: float, n: int, total: float) -> tuple[str, ...]:
    return name, str(n_timed or ""), f"{each:.3f}", f"{n:,}", f"{total:,.1f}"


def _show_agreement(found: Sequence[Comparison]) -> None:
    print_table(
        "Do they find the same?  AUC on the challenges, mean over targets",
        ("attack", "ours", "careful", "greatest difference"),
        (_auc_row(name, [each.aucs[name] for each in found]) for name in CLASSIFIERS),
        "Forests and perceptrons start from the same seeds; our perceptron is in single precision. "
        "Each trains on the features that its own pipeline keeps.",
    )
    at_most("Statistics, ours and NumPy's", max(each.error for each in found), ERROR_GOAL)
    if found[0].estimate is not None:
        at_most("Statistics, ours and tsfresh's", found[0].papers_error, ERROR_GOAL)
    for each in found:
        out.print(f"Features kept: {each.n_kept}, of which scikit-learn drops {each.n_other}")


def _auc_row(name: str, pairs: Sequence[tuple[float, float]]) -> tuple[str, ...]:
    ours, theirs = np.array(pairs).T
    worst = np.abs(ours - theirs).max()
    return name, f"{ours.mean():.4f}", f"{theirs.mean():.4f}", f"{worst:.4f}"


def compare_attacks(tasks: Sequence[Task]) -> float:
    """Time the attacks on whole releases against scikit-learn, from the same counts.

    Returns how many times as long scikit-learn takes for ``spectral``.
    """
    games = [task.set_up() for task in tasks]
    spectral = [_race(game, "spectral", peers.run_principal) for game in games]
    cells = [_race(game, "cells", peers.run_lasso) for game in games]
    print_table(
        "Attacks on whole releases, from the counts: seconds, medians over targets",
        ("attack", "ours", "theirs", "ratio", "AUC", "theirs", "greatest difference"),
        (_race_row("spectral", spectral), _race_row("cells", cells)),
        "Training and scoring. Theirs of spectral: PCA(svd_solver='full'), then liblinear; of "
        "cells: LogisticRegression(l1_ratio=1, solver='liblinear'). Ours: median of 3 runs after "
        "one more; theirs: one run a target, from float64 that is converted beforehand, where ours "
        "takes the counts. Ours also chooses a threshold for cells.",
    )
    ours, theirs, *aucs = np.array(spectral).T
    ratio = float(np.median(theirs) / np.median(ours))
    at_least("Spectral: theirs / ours", ratio, RATIO_GOALS["spectral"], "x")
    at_most("Spectral: greatest difference of AUC", np.abs(aucs[0] - aucs[1]).max(), AUC_GOAL)
    return ratio


def _race(game: Game, name: str, peer: Callable[[Game], tuple[float, Scores]]) -> Race:
    """Return seconds, ours and theirs, and AUCs."""
    ours = median_of(lambda: run_attacks(publish(game), (name,)))
    scores = run_attacks(publish(game), (name,))[name]
    theirs, their_scores = peer(game)
    return ours, theirs, *_aucs(game, scores, their_scores)


def _race_row(name: str, races: Sequence[Race]) -> tuple[str, ...]:
    ours, theirs, *aucs = np.array(races).T
    left, right = np.median(ours), np.median(theirs)
    times = (f"{left:.3f}", f"{right:.2f}", f"{right / left:,.1f}")
    means, worst = [f"{each.mean():.4f}" for each in aucs], np.abs(aucs[0] - aucs[1]).max()
    return name, *times, *means, f"{worst:.4f}"
