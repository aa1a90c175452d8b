"""What ``init`` proposes from a cube: sizes of groups, periods, caps and numbers of targets."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Source, Span, block_size, ranges, read_block
from clusterscale.cube.calendar import Calendar, Step
from clusterscale.cube.describe import count_by_day, count_events
from clusterscale.errors import InputError

_DAY = 24 * 3600  # seconds
_SIZES = (20, 100, 300, 1000)
_PER_THIRD = (6, 9, 12, 15, 20, 30)  # numbers of targets; an audit takes as long as it has targets
_MOST_RELEASES = 4  # in one period: an audit of these and the first takes 2.2 times as long


def round_down(number: int) -> int:
    """Return a number with two significant digits, as releases may state it."""
    return number - number % int(10 ** max(0, len(str(number)) - 2))


def propose_sizes(cube: TraceCube, knows: str, n_counted: int | None) -> list[int]:
    """Return the number of people counted; sizes that leave enough users outside if not said."""
    if n_counted is not None:
        return [n_counted]
    pool = cube.n_users // (2 if knows == "users" else 1)
    return [size for size in _SIZES if size <= pool // 2] or [max(2, pool // 2)]


def split_releases(calendar: Calendar, length: Step) -> list[int]:
    """Return the first epoch of each whole release of a length, and the one after the last.

    Days, weeks and months are those of the calendar, as ``publish --days`` takes them: a week of
    hours has 167 or 169 where clocks change. Without a whole release, all epochs are one.
    """
    starts = calendar.begins(0, calendar.n_epochs + 1)
    n_most = calendar.n_epochs * calendar.step // length.seconds + 2  # clocks may add a release
    begins = length.begins(calendar.start, n_most, calendar.timezone)
    found = np.searchsorted(starts, begins[begins <= starts[-1]], side="right") - 1
    bounds: list[int] = np.unique(found).tolist()
    return bounds if len(bounds) > 1 else [0, calendar.n_epochs]


def propose_period(cube: TraceCube, bounds: list[int], *, observed: bool) -> dict[str, Any]:
    """Return the first release of a cube, or its last with those before, all equally long.

    ``bounds`` are those of :func:`split_releases`.
    """
    epochs = int(np.diff(bounds).min()) if observed else bounds[1]
    is_week = round(epochs * cube.calendar.step / _DAY, 1) == 7  # also where clocks change
    name = "week" if is_week else f"{epochs:,} epochs"
    if not observed:
        return {"name": f"first {name}", "first": 0, "epochs": epochs}
    *past, first, _ = bounds
    if not past:
        raise InputError(
            f"an adversary who knows the past needs at least two releases of {epochs:,} epochs; "
            f"{cube.uri} has {cube.n_epochs:,} of {cube.calendar.length}"
        )
    return {"name": f"last {name}", "first": first, "epochs": epochs, "observed": past}


class WholeStretch(NamedTuple):
    """All releases of the cube as one period; ``omitted`` says why it is not audited, if so."""

    period: dict[str, Any]
    omitted: str


def propose_whole(bounds: list[int], unit: str, *, certified: bool) -> WholeStretch | None:
    """Return all releases as one period, None if there are not several.

    ``bounds`` are those of :func:`split_releases`. ``unit`` is that of the guarantee, empty without
    one; ``certified``: whether what any adversary can do is limited.
    """
    n_releases, omitted = len(bounds) - 1, ""
    if n_releases < 2:
        return None
    if n_releases > _MOST_RELEASES:
        omitted = f"the audit would take more than {_MOST_RELEASES // 2} times as long"
    if certified:
        omitted = "certificates of all periods together would count the first release twice"
    if unit == "user":
        omitted = "the noise has the sensitivity of one release"
    period = {"name": f"all {n_releases} releases", "first": 0, "epochs": bounds[-1]}
    return WholeStretch(period, omitted)


def propose_caps(cube: TraceCube, span: Span, factor: int) -> list[int]:
    """Return how many events of a user's day may be kept, the usual number first.

    It is the least of 1, 2, 4, … that leaves 95 % of the days in a span as they are, or the largest
    that is not above the events of any day. Half of it and twice as many follow, within the same
    limits. ``factor``: epochs that are merged before.
    """
    from clusterscale.mechanisms.coarsening import CoarsenTime

    steps = (CoarsenTime(factor=factor),) if factor > 1 else ()
    source, days = Source.of(cube, null_roi=False, seed=0), Counter[int]()
    for users in ranges(0, cube.n_users, block_size(cube)):
        (block,) = read_block(source, [(span, steps)], *users)
        n_days = np.bincount(count_by_day(block.traces, block.frames[-1].days))
        days.update(dict(enumerate(n_days.tolist())))
    numbers = sorted(number for number in days if number and days[number]) or [1]
    below = np.cumsum([days[number] for number in numbers])
    usual = numbers[int(np.searchsorted(below, 0.95 * below[-1]))]
    cap = 1 << min((usual - 1).bit_length(), numbers[-1].bit_length() - 1)
    return [cap, *(other for other in (cap // 2, 2 * cap) if 1 <= other <= numbers[-1])]


class TargetCount(NamedTuple):
    """Targets of each third by mobility, and whether they are enough for a limit on mean loss."""

    per_third: int
    is_enough: bool


def count_targets(cube: TraceCube, span: Span, limit: float, prior: dict[str, Any]) -> TargetCount:
    """Return with how many targets a release passes whose mean privacy loss is half of the limit.

    In a sample of bad luck, six in ten people lose as much as the limit and the others nothing.
    Each loss is measured with the error of an AUC of the challenges of the prior, and the interval
    of the mean is that of policies. At most the people with an event in the span are attacked.
    """
    from scipy.special import ndtri

    from clusterscale.metrics import mean_interval
    from clusterscale.priors import PRIORS

    n_people = int((count_events(cube, (span,))[0] > 0).sum())
    n_pairs = PRIORS.create(**prior).n_challenges / 2
    error = ((2 * n_pairs + 1) / 3) ** 0.5 / n_pairs  # of 2 AUC − 1, at chance
    fits = [size for size in _PER_THIRD if 3 * size <= n_people] or [max(1, n_people // 3)]
    for size in fits:
        order = np.arange(3 * size)
        losses = limit * (order % 5 < 3) + error * ndtri((order + 0.5) / len(order))
        if mean_interval(losses.clip(0, 1))[1] <= limit:
            return TargetCount(size, is_enough=True)
    return TargetCount(fits[-1], is_enough=False)
