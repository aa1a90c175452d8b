"""What defences leave of the cabs' counts, beside what POMACS20 tabulates: plain data.

All noise comes from a stream named after its row, so a row does not depend on the others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from oracles import pomacs20
from real.conventions import halved_fourier, middles, random_ties

from clusterscale import mechanisms, utility
from clusterscale.contracts import Bounds, Counts, Frame, Ints, Mechanism, Traces, Values
from clusterscale.cube import TraceCube, measure_bounds, with_null_roi
from clusterscale.groups import count_visits
from clusterscale.seeds import stream

FIRST_WEEK = (0, 168)
FLOOR, KAPPA = 0.1, 20
WHOLE = {"clip": True, "integers": "round"}  # what the papers' figures need of noisy counts

MEASURES = (
    utility.create("mean_relative_error", floor=FLOOR),
    utility.create("busiest_relative_error", floor=FLOOR),
    utility.create("hotspot_f1"),
    utility.create("hotspot_tau_listwise"),
    utility.create("jensen_shannon_distance"),
    utility.create("pearson"),
)


@dataclass(frozen=True)
class Crowd:
    """Groups of one size, and their counts (group, roi, epoch) over one week."""

    traces: Traces
    frame: Frame
    bounds: Bounds
    members: Ints
    counts: Counts

    @property
    def size(self) -> int:
        return self.members.shape[1]


@dataclass(frozen=True)
class Row:
    """One line of a table. ``found`` is ours by the convention that the paper seems to have used,
    not a number where none is known; ``error`` is the standard error of ours over the groups."""

    table: str
    setting: str
    ours: Sequence[float]
    error: Sequence[float]
    paper: Sequence[float]
    found: Sequence[float] = ()
    shrink: Sequence[float] = ()


def draw_crowd(
    cube: TraceCube, epochs: tuple[int, int], *, size: int, n_groups: int, null_roi: bool, seed: int
) -> Crowd:
    """Draw groups of cabs; of all cabs there is but one."""
    traces, frame = cube.traces(epochs=epochs), cube.frame(epochs)
    traces = with_null_roi(traces) if null_roi else traces
    rng = stream(seed, "groups", size)
    members = np.array(
        [np.sort(rng.choice(cube.n_users, size, replace=False)) for _ in range(n_groups)]
    )
    bounds = measure_bounds(traces, frame.days, frame.until)
    return Crowd(traces, frame, bounds, members, count_visits(traces, members))


def publish(crowd: Crowd, mechanism: Mechanism, rng: np.random.Generator) -> Values:
    """Release the groups' counts; coarse ones are put back on the cells they are made of."""
    counts, steps = crowd.counts, mechanism.trace_steps
    for step in steps:
        coarse, _ = step.apply(crowd.traces, crowd.frame, rng=rng)
        counts = count_visits(coarse, crowd.members)
    values = mechanism.release(counts, group_size=crowd.size, rng=rng)
    for step in steps:
        values = step.expand(values, crowd.frame)
    return values


def measure(counts: Counts, released: Values) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the six figures, means over groups, and their standard errors."""
    pairs = zip(counts, released, strict=True)
    figures = np.array([[each.measure(*pair) for each in MEASURES] for pair in pairs])
    error = figures.std(axis=0) / np.sqrt(max(1, len(figures) - 1))
    return tuple(figures.mean(axis=0)), tuple(error)


# POMACS20: a mechanism for each table and value of its parameter.


def _coarse_space(side: float, bounds: Bounds) -> Mechanism:
    return mechanisms.create("coarsen_space", factor=int(10 // side))


def _coarse_time(hours: float, bounds: Bounds) -> Mechanism:
    return mechanisms.create("coarsen_time", factor=int(hours))


def _simple(name: str, parameter: str, **others: object) -> Callable[[float, Bounds], Mechanism]:
    return lambda value, bounds: mechanisms.create(name, **{parameter: value}, **others)


def _fourier(epsilon: float, bounds: Bounds) -> Mechanism:
    norm = float(np.sqrt(bounds.user))
    return mechanisms.create(
        "fourier", epsilon=epsilon, coefficients=KAPPA, l2_sensitivity=norm, **WHOLE
    )


def _sampled(then: Callable[[Bounds], Mechanism]) -> Callable[[float, Bounds], Mechanism]:
    return lambda remove, bounds: mechanisms.create(
        "chain", steps=[mechanisms.create("sample_events", remove=remove), then(bounds)]
    )


POMACS: dict[int, tuple[str, Callable[[float, Bounds], Mechanism]]] = {
    6: ("coarsen_space, cells a side", _coarse_space),
    8: ("coarsen_time, hours", _coarse_time),
    10: ("fixed_ranges, size", _simple("fixed_ranges", "size")),
    12: ("adaptive_ranges, ranges", _simple("adaptive_ranges", "ranges")),
    14: ("suppress_small, below", _simple("suppress_small", "below")),
    16: ("suppress_unpopular, fraction", _simple("suppress_unpopular", "fraction")),
    18: ("sample_events, remove", _simple("sample_events", "remove")),
    20: ("perturb_small, epsilon .1, below", _simple("perturb_small", "below", epsilon=0.1)),
    22: ("fourier, κ 20, epsilon", _fourier),
    24: (
        "sample_events + perturb_small (below 20, epsilon .1), remove",
        _sampled(lambda bounds: mechanisms.create("perturb_small", below=20, epsilon=0.1)),
    ),
    26: (
        "sample_events + fourier (κ 20, epsilon 10), remove",
        _sampled(lambda bounds: _fourier(10.0, bounds)),
    ),
}
TIED = {(10, 50), (10, 100), (10, 250), (14, 40), (14, 80), (14, 160)}


def pomacs_rows(
    cube: TraceCube, *, n_groups: int = 20, seed: int = 0, tables: Sequence[int] = tuple(POMACS)
) -> list[Row]:
    """Return the tables of POMACS20's appendix, all mechanisms on the same groups of 250."""
    crowd = draw_crowd(cube, FIRST_WEEK, size=250, n_groups=n_groups, null_roi=False, seed=seed)
    rows = []
    for number in tables:
        title, make = POMACS[number]
        for value, paper in pomacs20.TABLES[number].items():
            rng = stream(seed, "noise", number, str(value))
            released = publish(crowd, make(value, crowd.bounds), rng)
            ours, error = measure(crowd.counts, released)
            found = _found(crowd, number, value, released, rng)
            rows.append(Row(f"{number}: {title}", f"{value:g}", ours, error, paper, found))
    rng = stream(seed, "guess")
    guess = utility.random_guess(crowd.counts, group_size=crowd.size, rng=rng)
    ours, error = measure(crowd.counts, guess)
    return [*rows, Row("4: a guess", "0 … 250", ours, error, pomacs20.RANDOM_GUESS)]


def _found(
    crowd: Crowd, number: int, value: float, released: Values, rng: np.random.Generator
) -> tuple[float, ...]:
    """Return the figures by the convention that the paper seems to have used."""
    if (number, value) in TIED:
        pairs = zip(crowd.counts, released, strict=True)
        f1, tau = np.mean([random_ties(raw, out, rng) for raw, out in pairs], axis=0)
        return (np.nan, np.nan, f1, tau, np.nan, np.nan)
    if number == 10 and value % 2:  # x // 2, as whole numbers divide in Python 2
        return measure(crowd.counts, released - 0.5)[0]
    if number == 12 and value <= 2:
        return measure(crowd.counts, middles(crowd.counts.astype(float), int(value)))[0]
    if number not in (22, 26):
        return ()
    counts, epsilon, norm = crowd.counts.astype(float), value, crowd.bounds.user
    if number == 26:  # less data, less sensitivity (§4.2.4)
        counts, epsilon = rng.binomial(crowd.counts, 1 - value).astype(float), 10.0
        norm = norm * (1 - value)
    values = halved_fourier(
        counts, np.sqrt(KAPPA * norm) / epsilon, coefficients=KAPPA, most=crowd.size, rng=rng
    )
    return measure(crowd.counts, values)[0]
