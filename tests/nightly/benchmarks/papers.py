"""The papers' pipeline: tsfresh on every group, elimination of one feature at a time.

The whole of it takes the better part of an hour a target, so a part of every slow phase is timed
and extrapolated. Its four classifiers are those of the careful pipeline.
"""

import importlib.util
import warnings
from dataclasses import dataclass

import numpy as np
from clock import Stopwatch
from peers import Outcome
from scipy.sparse import csr_array
from sklearn.feature_selection import RFE
from sklearn.linear_model import LogisticRegression

from clusterscale.contracts import Labels, Members

__all__ = ["Estimate", "extrapolate", "load_tsfresh"]

STATISTICS = (
    "variance",
    "minimum",
    "maximum",
    "median",
    "mean",
    "standard_deviation",
    "sum_values",
)
N_POINTS = 5  # of the elimination's path
N_GROUPS = 5

Floats = np.ndarray


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds by phase, and what they were extrapolated from."""

    seconds: dict[str, float]
    per_group: dict[str, float]
    n_groups: int
    per_fit: dict[int, float]  # by number of features
    n_timed_fits: int  # at each of these numbers
    n_fits: int
    rows: np.ndarray  # the groups that were timed
    statistics: Floats  # of these


def load_tsfresh() -> None:
    """Import tsfresh, or say what to do.

    Raises
    ------
    SystemExit
        If it is not installed.
    """
    if importlib.util.find_spec("tsfresh") is None:
        raise SystemExit("tsfresh is needed for the papers' pipeline: pip install tsfresh")
    with warnings.catch_warnings(action="ignore"):
        import tsfresh  # noqa: F401


def extrapolate(
    visits: csr_array,
    n_epochs: int,
    members: Members,
    labels: Labels,
    careful: Outcome,
    n_eliminations: int,
) -> Estimate:
    """Time parts of the pipeline, and add up what the whole would take.

    ``members`` are those of all groups, training first; ``labels`` of the training groups.
    """
    rows = np.linspace(0, len(members) - 1, N_GROUPS).astype(int)
    per_group, statistics = _time_groups(visits, n_epochs, members[rows])
    per_fit = _time_fits(careful, labels, n_eliminations)
    sizes = np.arange(min(per_fit), max(per_fit) + 1)
    fits = np.interp(sizes, list(per_fit), list(per_fit.values()))
    seconds = {name: each * len(members) for name, each in per_group.items()}
    return Estimate(
        {**careful.seconds, **seconds, "elimination": float(fits.sum())},
        per_group,
        len(members),
        per_fit,
        n_eliminations + 1,
        len(sizes),
        rows,
        statistics,
    )


def _time_groups(
    visits: csr_array, n_epochs: int, members: Members
) -> tuple[dict[str, float], Floats]:
    """Return seconds a group and the statistics; the groups are run twice, the first warms up."""
    for _ in range(2):
        watch, found = Stopwatch(), []
        for row in members:
            traces = visits[row].toarray()
            counts = watch.of("draw and count", lambda traces=traces: _add_up(traces))
            series = counts.reshape(-1, n_epochs)
            found.append(watch.of("statistics", lambda series=series: _extract(series)))
    per_group = {name: seconds / len(members) for name, seconds in watch.seconds.items()}
    return per_group, np.stack(found)


def _add_up(traces: np.ndarray) -> np.ndarray:
    """Add the members' dense matrices, one by one."""
    total = np.zeros(traces.shape[1], np.int32)
    for trace in traces:
        total += trace
    return total


def _extract(series: np.ndarray) -> Floats:
    """Return tsfresh's statistics of one group, in the engine's order."""
    import pandas as pd
    from tsfresh import extract_features

    n_rois, n_epochs = series.shape
    frame = pd.DataFrame(
        {
            "roi": np.repeat(np.arange(n_rois), n_epochs),
            "epoch": np.tile(np.arange(n_epochs), n_rois),
            "count": series.ravel().astype(np.float64),
        }
    )
    found = extract_features(
        frame,
        column_id="roi",
        column_sort="epoch",
        column_value="count",
        default_fc_parameters=dict.fromkeys(STATISTICS),
        n_jobs=0,
        disable_progressbar=True,
    )
    names = [f"count__{name}" for name in STATISTICS]
    return found.loc[np.arange(n_rois), names].to_numpy().ravel()


def _time_fits(careful: Outcome, labels: Labels, n_eliminations: int) -> dict[int, float]:
    """Return the seconds a fit takes, elimination included, by number of features, increasing.

    The features that are left at some point of the path are taken from the careful pipeline's
    order of elimination. The shortest piece, the first, is run before as a warm-up.
    """
    inputs = careful.statistics[: len(labels)]
    order = np.argsort(careful.ranking, kind="stable")
    n_kept, n_features = len(careful.kept), inputs.shape[1]
    sizes = np.unique(np.linspace(n_kept, n_features, N_POINTS).round().astype(int))
    per_fit = {}
    for size in (sizes[0], *sizes):
        left = np.ascontiguousarray(inputs[:, np.sort(order[:size])])
        n_drop = min(n_eliminations, size - 1)
        model = LogisticRegression(solver="liblinear")
        part = RFE(model, n_features_to_select=int(size) - n_drop, step=1)
        watch = Stopwatch()
        watch.of("fit", lambda part=part, left=left: part.fit(left, labels))
        per_fit[int(size)] = watch.seconds["fit"] / (n_drop + 1)  # a last fit follows
    return per_fit
