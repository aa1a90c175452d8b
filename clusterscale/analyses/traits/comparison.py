"""Compare the most with the least exposed users of one attack in one setting."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict
from threadpoolctl import threadpool_limits

from clusterscale import storage
from clusterscale.analyses.traits.exposure import TargetAUCs
from clusterscale.analyses.traits.importance import Importance, importance
from clusterscale.contracts import ConfigModel, Count, Ints, Traces, Values
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source, Span, open_source
from clusterscale.seeds import stream


class TraitsPlan(ConfigModel):
    """How the most and the least exposed are compared (POMACS20 §3).

    The ``share`` of the users with the highest AUC is compared with as many with the lowest, among
    others by a random forest with ``trees`` trees. For at most ``targets`` random targets, the
    ``components`` principal components with the largest weights are reported.

    Attributes
    ----------
    share
        Share of users on each side of the comparison.
    components
        Number of principal components that are reported.
    trees
        Number of trees of the random forest.
    targets
        Largest number of targets whose attacks are analysed.
    """

    share: Annotated[float, Strict(), Field(gt=0, le=0.5)] = 0.1
    components: Count = 5
    trees: Annotated[int, Strict(), Field(ge=50, le=100_000)] = 500
    targets: Count = 150


WHO = ("all", "top", "bottom")
"""Sets of users in results: all with an AUC, the most and the least exposed."""

_USERS = 1 << 14  # users read at once


@dataclass(frozen=True, slots=True)
class CompareTask:
    """A comparison of exposed users; ``values`` is the store of their characteristics.

    ``period`` is the index of the period in that store, and ``span`` its epochs.
    """

    source: Source
    values: str
    period: int
    span: Span
    exposure: TargetAUCs
    plan: TraitsPlan


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonResult:
    """Result of a comparison; ``frequency`` is float64, shape (who, epoch), see :data:`WHO`."""

    n_compared: int
    auc_top: float
    auc_bottom: float
    importance: Importance
    frequency: Values


def compare(task: CompareTask) -> ComparisonResult:
    """Return the result of a comparison; pure except for reading stores."""
    exposed = task.exposure.read()
    users, auc = exposed.users, exposed.auc
    top, bottom = exposed.sides(task.plan.share)
    rng = stream(task.source.seed, "traits", *task.span, *task.exposure.path)
    pair = (_read(task.values, task.period, users[side]) for side in (top, bottom))
    with threadpool_limits(limits=1):
        result = importance(*pair, trees=task.plan.trees, rng=rng)
    visits = count_visits(open_source(task.source), users, task.span, {1: top, 2: bottom})
    means = float(auc[top].mean()), float(auc[bottom].mean())
    shares = np.stack([share_out(row) for row in visits])
    return ComparisonResult(len(top), *means, result, shares)


def frequency(traces: Traces) -> Values:
    """Return the share of all visits of some users in each epoch (POMACS20 Fig. 4).

    Parameters
    ----------
    traces
        Events of these users over a period; the null ROI does not count.

    Returns
    -------
    float64, shape (epoch,)
        Sums to 1; NaN if there are no visits.
    """
    return share_out(np.bincount(traces.cells % traces.n_epochs, minlength=traces.n_epochs))


def share_out(visits: Ints) -> Values:
    """Return counts as shares of their sum, NaN if the sum is 0."""
    total = visits.sum()
    return np.asarray(visits / total if total else np.full(len(visits), np.nan))


def count_visits(
    cube: TraceCube, users: Ints, span: Span, groups: dict[int, Ints]
) -> NDArray[np.int64]:
    """Return the visits of all users and of groups of them in each epoch, (1 + group, epoch).

    ``groups`` has the indices into ``users`` of each group, by its row.
    """
    group = np.zeros(len(users), np.int64)
    for number, members in groups.items():
        group[members] = number
    n_epochs = span[1] - span[0]
    total = np.zeros((1 + len(groups), n_epochs), np.int64)
    for first in range(0, len(users), _USERS):
        some = slice(first, first + _USERS)
        traces = cube.traces(users[some], span)
        row = np.repeat(group[some], np.diff(traces.offsets))
        keys = row * n_epochs + traces.cells % n_epochs
        total += np.bincount(keys, minlength=total.size).reshape(total.shape)
    total[0] = total.sum(axis=0)
    return total


def _read(uri: str, period: int, users: Ints) -> NDArray[np.float32]:
    """Return the characteristics of some users, float32, shape (user, characteristic)."""
    array = storage.open_group(uri)["value"]
    values = np.empty((len(users), array.shape[2]), np.float32)
    size = array.chunks[0]
    chunk = users // size
    for number in np.unique(chunk).tolist():
        here, start = np.flatnonzero(chunk == number), number * size
        rows = np.asarray(array[start : start + size, period])
        values[here] = rows[users[here] - start]
    return values
