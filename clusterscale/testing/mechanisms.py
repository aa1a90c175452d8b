"""Checks of mechanisms."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import scipy

from clusterscale.analyses.dp_audit.dp_test import DPTestResult, VerdictPlan, try_guarantee
from clusterscale.analyses.dp_audit.neighbours import Design, Neighbours, RawTraces, count_nearby
from clusterscale.analyses.dp_audit.privacy_units import kind_of, survey_units
from clusterscale.contracts import (
    NO_NOISE,
    CellCoordinates,
    Counts,
    Guarantee,
    Ints,
    Mechanism,
    Stability,
    Support,
    Traces,
    TraceStep,
    Values,
    release_counts,
    stability_of,
)
from clusterscale.contracts.mechanism import ONLY_REPLACED, guarantee_fault
from clusterscale.cube import with_null_roi
from clusterscale.cube.bounds import bounds_before
from clusterscale.errors import InputError
from clusterscale.foreign import read_only
from clusterscale.mechanisms import user_level
from clusterscale.mechanisms.accounting import needs_equal_numbers
from clusterscale.mechanisms.declared_noise import noise_fault
from clusterscale.seeds import stream
from clusterscale.testing.checks import Check, expect, named, run
from clusterscale.testing.population import bounds, coordinates, traces

__all__ = ["check_mechanism", "checks_of_mechanism"]

_SIZE, _SHAPE = 20, (5, 12)


def check_mechanism(mechanism: Mechanism | type[Mechanism]) -> None:
    """Check a mechanism.

    Parameters
    ----------
    mechanism
        An object, or a class that needs no settings.

    Raises
    ------
    AssertionError
        Naming the first failed check, what is wrong and what would be right.
    """
    run(checks_of_mechanism(), mechanism)


def checks_of_mechanism() -> Iterator[tuple[str, Check]]:
    """List the checks of a mechanism.

    Yields
    ------
    tuple[str, Callable[..., None]]
        Name and function; the function takes a class or an object, and raises AssertionError.
    """
    yield from named(Mechanism, globals())


def _counts(*shape: int) -> Counts:
    return np.random.default_rng(1).integers(0, _SIZE, shape, dtype=np.int32)


def _release(mechanism: Mechanism, counts: Counts) -> Values:
    bound = mechanism.bind(bounds())
    bound.check(group_size=_SIZE, n_rois=_SHAPE[0], n_epochs=_SHAPE[1])
    sums = counts * np.float64(2.5)
    given, rng = (read_only(counts), read_only(sums)), stream(1, "noise")
    return release_counts(bound, *given, group_size=_SIZE, rng=rng)


def binds_once(mechanism: Mechanism) -> None:
    """A mechanism that has its sensitivity is not changed by ``bind``."""
    bound = mechanism.bind(bounds())
    expect(isinstance(bound, type(mechanism)), f"bind returns {type(bound).__name__}")
    expect(bound.bind(bounds()) == bound, "a second bind gives another mechanism")


def release_keeps_shape(mechanism: Mechanism) -> None:
    """Values have the shape of the counts, of one group (roi, epoch) or of several."""
    for shape in (_SHAPE, (3, *_SHAPE)):
        values = _release(mechanism, _counts(*shape))
        found = getattr(values, "shape", type(values).__name__)
        expect(found == shape, f"counts of shape {shape} give values of shape {found}")


def release_is_finite_float64(mechanism: Mechanism) -> None:
    """Values are float64, and none is NaN or infinite."""
    values = np.asarray(_release(mechanism, _counts(*_SHAPE)))
    expect(values.dtype == np.float64, f"values are {values.dtype}: use .astype(np.float64)")
    expect(np.isfinite(values).all(), "a value is NaN or infinite")


def release_repeats_with_its_generator(mechanism: Mechanism) -> None:
    """The same counts and the same state of ``rng`` give the same values.

    All randomness comes from ``rng``.
    """
    once, again = (_release(mechanism, _counts(*_SHAPE)) for _ in range(2))
    expect(np.array_equal(once, again), "two releases with the same rng differ")


def release_leaves_counts(mechanism: Mechanism) -> None:
    """Counts, which are read-only, are not changed, and values are in an array of their own."""
    counts = _counts(*_SHAPE)
    before = counts.copy()
    values = _release(mechanism, counts)
    expect(np.array_equal(counts, before), "release changes its argument counts")
    expect(not np.shares_memory(values, counts), "values share the memory of counts")


def guarantee_is_consistent(mechanism: Mechanism) -> None:
    """The guarantee has a reason, ε ≥ 0 and 0 ≤ δ ≤ 1; ε is infinite only with the unit none."""
    bound = mechanism.bind(bounds())
    fault = guarantee_fault(bound.guarantee, bound)
    expect(not fault, f"the guarantee {fault}")


def user_loss_agrees_with_guarantee(mechanism: Mechanism) -> None:
    """A mechanism without a guarantee states no privacy loss of a user, and losses are ≥ 0.

    A guarantee about replaced events or days is none for users, who have different numbers of them.
    """
    bound = mechanism.bind(bounds())
    if bound.guarantee.unit == "none" or needs_equal_numbers(bound):
        why = "it has no guarantee" if bound.guarantee.unit == "none" else ONLY_REPLACED
        loss = bound.user_privacy_loss(bounds())
        expect(loss is None, f"{why}, but user_privacy_loss returns one")
    user = user_level(bound, bounds())
    expect(
        all(epsilon >= 0 and 0 <= delta <= 1 for epsilon, delta in user.curve),
        "an ε of a user is negative, or a δ is not from 0 to 1",
    )


def unchanged_if_without_noise(mechanism: Mechanism) -> None:
    """A mechanism whose ``noise`` is ``NO_NOISE`` publishes the counts unchanged.

    Otherwise ``noise`` is None, or the distribution of independent noise.
    """
    if mechanism.bind(bounds()).noise == NO_NOISE:
        counts = _counts(*_SHAPE)
        same = np.array_equal(_release(mechanism, counts), counts)
        expect(same, "noise is NO_NOISE, but values differ from the counts")


def values_are_in_support(mechanism: Mechanism) -> None:
    """All published values are among those that ``support`` states for the counts."""
    support = mechanism.bind(bounds()).support(Support(0.0, float(_SIZE), 1.0), _SIZE)
    values = _release(mechanism, _counts(*_SHAPE))
    within = (values >= support.low - 1e-9) & (values <= support.high + 1e-9)
    expect(within.all(), f"values from {values.min():g} to {values.max():g} are not {support}")
    if support.step:
        rest = np.abs(values / support.step - np.rint(values / support.step))
        expect((rest < 1e-9).all(), f"some values are not {support}")


def noise_stays_in_scope(mechanism: Mechanism) -> None:
    """A count that changes, with the same noise, changes only values in the ``noise_scope``.

    Leave ``noise_scope = "release"``, or do not set ``noise_is_count_independent``, if it does.
    """
    if not mechanism.noise_is_count_independent or mechanism.noise_scope == "release":
        return
    counts = _counts(*_SHAPE)
    other = counts.copy()
    other[2, 3] = (other[2, 3] + _SIZE // 2) % _SIZE
    differ = _release(mechanism, counts) != _release(mechanism, other)
    differ[(2, 3) if mechanism.noise_scope == "cell" else 2] = False
    expect(not differ.any(), f"its scope is {mechanism.noise_scope}, but other values change")


def noise_is_as_declared(mechanism: Mechanism) -> None:
    """What ``release`` draws has the declared ``noise``, and is independent beyond ``noise_scope``.

    Noise that is drawn for another distribution, or used again, makes certificates too low.
    """
    fault = noise_fault(mechanism.bind(bounds()))
    expect(not fault, fault)


def guarantee_is_not_refuted(mechanism: Mechanism) -> None:
    """Nothing that is published shows more of one unit than the ε and δ of the guarantee allow.

    Releases with the unit and without it are compared by many functions of all values, for units
    that the stated sensitivity covers. A true guarantee is refuted with a probability of 1e-4.
    """
    steps, after, frames = mechanism.trace_steps, traces(), [coordinates()]
    for step in steps:
        after, frame = step.apply(after, frames[-1], rng=stream(1, "step"))
        frames.append(frame)
    most = bounds_before(steps, frames, after)
    bound = mechanism.bind(most)
    kind, stated = kind_of(bound), bound.guarantee
    if kind is None or bound.required_sensitivity(most) > stated.sensitivity * (1 + 1e-9):
        return
    design = Design(after.n_users, after.n_users, _SIZE, 2, 1, ("example", _SIZE))
    survey = survey_units(traces(), coordinates(), block=after.n_users)
    raw = RawTraces(steps, stability_of(steps, frames), lambda _: traces(), coordinates(), survey)
    nearby = count_nearby(design, [kind], after, frames[-1])
    neighbours = Neighbours(design, nearby, lambda _: after, frames[-1], raw)
    for trials in (2000, 20_000):  # most that are false show at once
        plan = VerdictPlan(trials=trials, confidence=0.99995)
        test = try_guarantee(bound, neighbours, plan, key=f"check {trials}")
        _expect_kept(test, kind, stated)


def _expect_kept(test: DPTestResult, kind: str, stated: Guarantee) -> None:
    expect(
        test.verdict != "broken",
        f"{test.seen_in or 'the changed counts'} show an ε of at least {test.epsilon_seen:.3g} for "
        f"one {kind.replace('_', ' ')}, not {stated.epsilon:.3g} with δ {stated.delta:.3g}",
    )


def trace_steps_repeat(mechanism: Mechanism) -> None:
    """A trace step gives the same traces for the same generator, and refuses a null ROI."""
    for step in mechanism.trace_steps:
        try:
            step.apply(with_null_roi(traces()), coordinates(), rng=stream(1, "step"))
        except InputError:
            pass
        else:
            raise AssertionError("a step takes traces with a null ROI: raise InputError")
        once, _ = step.apply(traces(), coordinates(), rng=stream(1, "step"))
        again, _ = step.apply(traces(), coordinates(), rng=stream(1, "step"))
        same = np.array_equal(once.cells, again.cells)
        same &= np.array_equal(once.offsets, again.offsets)
        expect(same, "two calls with the same rng differ")


def trace_steps_keep_their_stability(mechanism: Mechanism) -> None:
    """A trace step returns the coordinates of its cells, and changes no more than it states.

    Without ``stability``, it must not be followed by noise with a guarantee.
    """
    for step in mechanism.trace_steps:
        changed, after = step.apply(traces(), coordinates(), rng=stream(1, "step"))
        shape = len(after.lat), len(after.days)
        cells = changed.n_rois, changed.n_epochs
        expect(shape == cells, f"coordinates of {shape} ROIs and epochs, but traces of {cells}")
        fault = next(_find_unstable(step), "")
        expect(not fault, fault)


def trace_steps_expand(mechanism: Mechanism) -> None:
    """``expand`` gives each cell before the step a value of a cell of the same group after it."""
    for step in mechanism.trace_steps:
        changed, _ = step.apply(traces(), coordinates(), rng=stream(1, "step"))
        shape = (2, changed.n_rois + 1, changed.n_epochs)
        values = np.arange(np.prod(shape), dtype=float).reshape(shape)
        expanded = step.expand(values, coordinates())
        wanted = (2, traces().n_rois + 1, traces().n_epochs)
        expect(expanded.shape == wanted, f"the shape is {expanded.shape}, not {wanted}")
        expect(np.isin(expanded[1], values[1]).all(), "a value is of another group")


_FEW = 200  # draws for a user alone

_Cells = frozenset[int]
_Outcomes = Counter[_Cells]


def _find_unstable(step: TraceStep) -> Iterator[str]:
    """Yield what a step does that its stated stability excludes.

    Each event and each day of some users is removed. By Strassen's theorem, the draws with and
    without it can be paired so that few events change if and only if the pairs that are allowed
    match all draws, but for chance.
    """
    frame = coordinates()
    if (stated := stability_of((step,), (frame,))) is None:
        return
    before: _Outcomes = Counter()
    for size in range(64):  # more events than most users have on a day
        sizes = _sizes(_outcomes(step, _first_day()[:size], _FEW)[0])
        if size and _unmatched(sizes, before, lambda a, b: len(a ^ b) <= stated.event):
            yield f"the last of {size} events of a day changes more than {stated.event}"
        before = sizes
    for events in _examples(stated):
        alone: _Outcomes = Counter()
        for i in range(_FEW):
            alone += _outcomes(step, events, 1, i)[0]
        inside, after = _outcomes(step, events, _FEW)
        if _unmatched(inside, alone, lambda one, other: one == other):
            yield "what it does to a user depends on other users"
        inside, _ = _outcomes(step, events)
        for event in events[:: max(1, len(events) // 6)].tolist():
            outside, _ = _outcomes(step, events[events != event])
            if _unmatched(inside, outside, lambda one, other: len(one ^ other) <= stated.event):
                yield f"one event changes more than {stated.event}"
        days = frame.days[events % traces().n_epochs]
        for day in np.unique(days).tolist():
            outside, _ = _outcomes(step, events[days != day])
            few = _sizes(inside), _sizes(outside), lambda a, b: len(a ^ b) <= stated.user_day
            if _unmatched(*few) or _unmatched(inside, outside, _allows(stated, day, after)):
                yield f"one day changes more events than {stated}"


def _examples(stated: Stability) -> Iterator[Ints]:
    """Yield the events of some users, also of one with more on a day than may change."""
    for user in range(2):
        events = traces().trace(user)
        # 4: of a user: so few that each outcome is drawn often
        yield events[:: max(1, len(events) // 4)]
    cells = _first_day()
    for size in {3, 12, min(stated.user_day, len(cells)) + 1} - {len(cells) + 1}:
        yield cells[: int(size)]
    if len(cells) <= stated.user_day < np.inf:
        untested = f"whether one day changes at most {stated.user_day:g} events is not tested"
        warnings.warn(f"{untested}: the example has {len(cells)} cells a day", stacklevel=2)


def _first_day() -> Ints:
    """Return all cells of the first day."""
    cells: Ints = np.arange(traces().n_cells, dtype=np.int32)
    return np.asarray(cells[coordinates().days[cells % traces().n_epochs] == 0])


def _sizes(outcomes: _Outcomes) -> _Outcomes:
    """Return how often each number of events is left, as that many cells."""
    return sum((Counter({frozenset(range(len(one))): n}) for one, n in outcomes.items()), Counter())


def _outcomes(
    step: TraceStep, events: Ints, n: int = 2000, key: int = 0
) -> tuple[_Outcomes, CellCoordinates]:
    """Return how often each set of cells is left of a user's events, and where cells then are."""
    offsets = len(events) * np.arange(n + 1, dtype=np.int64)
    same = Traces(offsets, np.tile(events, n), traces().n_rois, traces().n_epochs)
    changed, after = step.apply(same, coordinates(), rng=stream(2, "step", key, *map(int, events)))
    return Counter(frozenset(changed.trace(user).tolist()) for user in range(n)), after


def _allows(
    stated: Stability, day: int, after: CellCoordinates
) -> Callable[[_Cells, _Cells], bool]:
    """Return whether removing a day may turn the first cells into the second."""
    on = (after.days <= day) & (day <= after.last_days)
    only = on & (after.days == after.last_days)

    def allows(inside: _Cells, outside: _Cells) -> bool:
        few = len(inside ^ outside) <= stated.user_day
        if not stated.confined:
            return few
        lost = all(on[cell % len(on)] for cell in inside - outside)
        left = any(only[cell % len(on)] for cell in outside)
        return few and lost and not left and outside <= inside

    return allows


def _unmatched(
    inside: _Outcomes, outside: _Outcomes, allowed: Callable[[_Cells, _Cells], bool]
) -> bool:
    """Return whether more draws than by chance are left without a partner."""
    n, n_draws = len(inside) + len(outside) + 2, inside.total()
    if n > 100:  # too many to tell chance from change
        return False
    capacity = np.zeros((n, n), np.int32)
    capacity[0, 1 : len(inside) + 1] = list(inside.values())
    capacity[len(inside) + 1 : -1, -1] = list(outside.values())
    for i, one in enumerate(inside, start=1):
        for k, other in enumerate(outside, start=len(inside) + 1):
            capacity[i, k] = n_draws * allowed(one, other)
    flow = scipy.sparse.csgraph.maximum_flow(scipy.sparse.csr_array(capacity), 0, n - 1)
    by_chance = np.sqrt(n_draws * n / (2 * np.pi)) + 4 * np.sqrt(n_draws)
    return bool(n_draws - flow.flow_value > by_chance)
