"""Marginals estimated from releases, compared with those of the population (POPETS24 §4.3, A).

The zero-knowledge adversary estimates from one release how visits are spread over places and over
epochs, and how many a user makes. The paper draws these estimates as curves beside the true ones.
Here they are measured, for releases of random groups: by the total-variation distance, which is the
share of visits that an estimate puts elsewhere, and for the visits per user by Kolmogorov's
distance, the largest difference of two cumulative distributions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Strict

from clusterscale.analyses.audit.plan import Mechanisms, Periods, Sizes
from clusterscale.analyses.audit.settings import Period
from clusterscale.contracts import Bounds, ConfigModel, Count, Floats, Mechanism, Traces, names_of
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source, open_source, read_users
from clusterscale.errors import ConfigError
from clusterscale.groups import count_visits
from clusterscale.priors.zero_knowledge import (
    Constant,
    Exponential,
    Graph,
    LogNormal,
    SyntheticPopulation,
    VisitCounts,
    estimate_marginals,
    triangulate,
)
from clusterscale.priors.zero_knowledge.marginals import normalise
from clusterscale.schema import Variable, read_variables
from clusterscale.seeds import stream
from clusterscale.study import Analysis, Stage, Study
from clusterscale.utility import total_variation

ESTIMATES = ("true", "uncorrected", "corrected", "exponentiated", "matched")
"""True marginals; shares of a release's sums; after the paper's correction for the mechanism;
uncorrected ones after ``exp(x) − 1``, which the paper shows to be no correction (Fig. 5); and after
matching what the mechanism publishes on average, which the paper does not have."""

MARGINALS = ("space", "time")

LAWS = ("true", "constant", "exponential", "lognormal")
"""Distributions of the visits per user: true, or with the corrected mean."""

N_VISITS = [1, *(n * 10**k for k in range(4) for n in (2, 3, 5, 7, 10))]
"""Numbers of visits at which cumulative distributions are kept."""


_DRAWN = ("period", "group_size", "mechanism")  # the first group, as a figure shows it

SCHEMA: Mapping[str, Variable] = read_variables(Path(__file__).with_suffix(".md"))
"""Variables and coordinates of the dataset of marginals."""


class MarginalsPlan(ConfigModel):
    """Which releases marginals are estimated from.

    Attributes
    ----------
    seed
        Root seed of all random streams.
    periods
        Epochs of the releases.
    group_sizes
        Numbers of members of a group, e.g. ``[100, 1000]``.
    mechanisms
        How counts are published, e.g. ``[{name: suppress_small, up_to: 1}]``.
    groups
        Number of random groups of each size.
    """

    seed: Annotated[int, Strict()] = 0
    periods: Periods = (Period(name="first week"),)
    group_sizes: Sizes
    mechanisms: Mechanisms
    groups: Count = 10

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain values that may be shown to anyone."""
        return self.model_dump(mode="json")


@dataclass(frozen=True, slots=True)
class MarginalsTask:
    """The releases of one period and group size."""

    source: Source
    plan: MarginalsPlan
    period: Period
    group_size: int


@dataclass(frozen=True, slots=True, eq=False)
class _Population:
    """The users of a period; ``true`` has their marginals, ``visits`` the visits of each user."""

    traces: Traces
    bounds: Bounds
    graph: Graph
    true: SyntheticPopulation
    visits: NDArray[np.int64]


def measure(task: MarginalsTask) -> dict[str, Floats]:
    """Return the variables of a period and group size, without these two dimensions; pure.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read, is not the planned one, or has ROIs without a position.
    """
    plan, population = task.plan, _read(task)
    measured = [
        [_measure_one(task, population, group, mechanism) for mechanism in plan.mechanisms]
        for group in range(plan.groups)
    ]
    values = {
        name: np.array([[one[name] for one in group] for group in measured])
        for name in measured[0][0]
    }
    return {
        name: value[0] if SCHEMA[name].dims[:3] == _DRAWN else value
        for name, value in values.items()
    }


def _read(task: MarginalsTask) -> _Population:
    cube = open_source(task.source)
    (block,) = read_users(task.source, [(task.period.spans[-1], ())], (0, cube.n_users))
    traces, visits = block.traces, np.diff(block.traces.offsets)
    counts = np.bincount(traces.cells, minlength=traces.n_cells).reshape(traces.n_rois, -1)
    space, time = (normalise(counts.sum(axis=axis)) for axis in (1, 0))
    true = SyntheticPopulation(space, time, VisitCounts(float(visits.mean())))
    return _Population(traces, block.bounds, triangulate(block.frames[-1]), true, visits)


def _measure_one(
    task: MarginalsTask, population: _Population, group: int, mechanism: Mechanism
) -> dict[str, Any]:
    """Publish one group by one mechanism, and compare what can be estimated with the truth."""
    m, path = task.group_size, ("marginals", task.period.id, task.group_size, group)
    rng, traces = stream(task.plan.seed, *path), population.traces
    members = np.sort(rng.choice(len(population.visits), m, replace=False))
    counts = count_visits(traces, members[None])
    rng, bound = stream(task.plan.seed, *path, mechanism.id), mechanism.bind(population.bounds)
    release = bound.release(counts, group_size=m, rng=rng)[0]
    uncorrected, corrected = (
        estimate_marginals(release, m, bound, graph=population.graph, correction=how, rng=rng)
        for how in ("none", "paper")
    )
    activity = _compare_activity(population.visits, corrected.activity.mean, rng)
    matched = estimate_marginals(
        release, m, bound, graph=population.graph, correction="matched", rng=rng
    )
    exponentiated = uncorrected._replace(
        space=normalise(np.expm1(uncorrected.space)), time=normalise(np.expm1(uncorrected.time))
    )
    estimates = (population.true, uncorrected, corrected, exponentiated, matched)
    pairs = [(one.space, one.time) for one in estimates]
    true, even = pairs[0], [np.ones_like(shares) for shares in pairs[0]]
    order = np.argsort(-population.true.space, kind="stable")
    return {
        "distance": [list(map(_distance, true, pair)) for pair in pairs],
        "unevenness": [list(map(_distance, even, pair)) for pair in pairs],
        "mean_visits": [one.activity.mean for one in estimates],
        "space_share": [one.space[order] for one in estimates],
        "time_share": [one.time for one in estimates],
        **activity,
    }


def _distance(true: Floats, estimated: Floats) -> float:
    return total_variation(true[:, None], estimated[:, None])


def _compare_activity(
    visits: NDArray[np.int64], mean: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Compare the visits per user with laws of this mean; the lognormal one has the best sigma."""
    sigma = float(np.clip(np.log(np.maximum(visits, 1)).std(), 0.01, 5))
    laws = Constant(), Exponential(), LogNormal(sigma=sigma)
    # 20_000: of each law: the error of a distance is below .01 with 95 % probability
    samples = [np.sort(visits), *(np.sort(law.draw(mean, 20_000, rng=rng)) for law in laws)]
    return {
        "activity_distance": [
            scipy.stats.ks_2samp(visits, sample, method="asymp").statistic for sample in samples
        ],
        "activity_share": [
            np.searchsorted(sample, N_VISITS, side="right") / len(sample) for sample in samples
        ],
    }


class MarginalsAnalysis(Analysis):
    """Comparison of marginals that are estimated from releases with the true ones.

    Parameters
    ----------
    plan
        Which releases.
    """

    plan: MarginalsPlan
    kind: ClassVar[str] = "marginals"
    schema: ClassVar[Mapping[str, Variable]] = SCHEMA
    null_roi: bool = False  # the paper has none

    def __init__(self, plan: MarginalsPlan) -> None:
        self.plan = plan
        self.seed = plan.seed

    def check(self, cube: TraceCube, memory: int) -> None:
        """Raise :class:`ConfigError`, naming the keys, if ``cube`` cannot answer the plan."""
        plan = self.plan
        for i, size in enumerate(plan.group_sizes):
            if size > cube.n_users:
                raise ConfigError(
                    f"marginals.group_sizes.{i}: {size:,} members, but the cube has "
                    f"{cube.n_users:,} users"
                )
        for i, period in enumerate(plan.periods):
            if period.spans[-1][1] > cube.n_epochs:
                raise ConfigError(
                    f"marginals.periods.{i}: ends after epoch {cube.n_epochs - 1}, the last of the "
                    "cube"
                )
        for i, mechanism in enumerate(plan.mechanisms):
            if mechanism.trace_steps or mechanism.uses_weights:
                raise ConfigError(
                    f"marginals.mechanisms.{i}: {mechanism.label} does not publish counts of the "
                    "cube's cells: choose a mechanism without trace steps and weights"
                )

    def stages(self, job: Study) -> Iterator[Stage[Any, Any]]:
        """Yield the stage that measures all releases of each period and group size."""
        plan = self.plan
        last = max(period.spans[-1][1] for period in plan.periods)
        columns: dict[str, Any] = {
            "period": [period.name for period in plan.periods],
            "group_size": plan.group_sizes,
            "group": range(plan.groups),
            **names_of("mechanism", plan.mechanisms),
            "estimate": ESTIMATES,
            "marginal": MARGINALS,
            "law": LAWS,
            "n_visits": N_VISITS,
            "rank": range(job.cube.n_rois),
            "epoch": range(last),
        }
        together = {dim: len(values) for dim, values in columns.items() if dim not in _DRAWN[:2]}
        table = self.table(job, columns, together)

        def write(task: MarginalsTask, values: dict[str, Floats]) -> None:
            period, size = plan.periods.index(task.period), plan.group_sizes.index(task.group_size)
            for name, value in values.items():
                where = slice(*task.period.spans[-1]) if name == "time_share" else slice(None)
                table.array(name)[period, size, ..., where] = value

        tasks = {
            f"{period.id}-{size}": MarginalsTask(job.source, plan, period, size)
            for period, size in product(plan.periods, plan.group_sizes)
        }
        yield Stage.fill("measure", measure, tasks, table, write)
        table.finish()
