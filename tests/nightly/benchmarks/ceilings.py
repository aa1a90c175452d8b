"""Compare ceilings with the exact best test of each mechanism, by enumeration of what it publishes.

``PYTHONPATH=tests python tests/nightly/benchmarks/ceilings.py [cubes]``: cubes of eight or nine
users, twelve mechanisms of others and sampled traces; each user is added, and replaced by a user
drawn from all, from half of them, or from lists. Every published value is a count or a sum with
two-sided geometric noise, or one of few values, so the likelihood ratio is summed over all
outcomes. None may be above its ceiling; tight is a difference of at most .001 in accuracy and AUC.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from typing import Literal

import numpy as np
from conftest import write_cube
from show import print_table, sum_up

from clusterscale import study
from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.audit.plan import certification_of
from clusterscale.analyses.certify import CertifyAnalysis
from clusterscale.contracts import Guarantee
from clusterscale.mechanisms import create
from clusterscale.mechanisms.base import BaseMechanism
from clusterscale.mechanisms.noise import DiscreteLaplaceNoise
from clusterscale.runtime import SerialExecutor

N_ROIS, N_EPOCHS, N_DAYS = 2, 30, 2  # the calendar begins at midnight, so 24 + 6 hours
TOLERANCE, TIGHT = 1e-6, 1e-3
_FAR = 200  # values of geometric noise that are enumerated on each side of a shift


def geometric(epsilon, shift):
    """Return the likelihoods (with, without) of a value with that noise which moves by a shift."""
    values = np.arange(-_FAR, _FAR + 1)
    weight = np.tanh(epsilon / 2)
    return tuple(weight * np.exp(-epsilon * abs(values - s)) for s in (shift, 0))


class Plugin(BaseMechanism):
    """Adds noise to sums of counts; ``parts`` says which counts share noise."""

    epsilon: float = 0.4
    stage = "noise"

    def release(self, counts, *, group_size, rng):
        raise NotImplementedError

    def stated(self, unit, *, delta=0.0, neighbours="add_remove", sensitivity=1.0):
        return Guarantee(unit, self.epsilon, delta, neighbours, "stated", sensitivity)

    @property
    def guarantee(self):
        return self.stated("event")

    def parts(self, counts):
        """Return the sums that are published, each with noise of its own, shape (part,)."""
        raise NotImplementedError

    def pairs(self, inside, outside):
        """Return the likelihoods of each independent published value."""
        changes = self.parts(inside) - self.parts(outside)
        return [geometric(self.rate, int(change)) for change in changes if change]

    @property
    def rate(self):
        return self.epsilon


class SharedTotal(Plugin):
    name: Literal["shared_total"] = "shared_total"

    def parts(self, counts):
        return np.array([counts.sum()])


class SignedTotal(Plugin):
    """A sum in which some cells count for it and others against: a substitute moves it further."""

    name: Literal["signed_total"] = "signed_total"
    plus: tuple[int, ...] = ()

    def parts(self, counts):
        signs = np.full(counts.size, -1)
        signs[list(self.plus)] = 1
        return np.array([signs @ counts.ravel()])


class UserTotal(SharedTotal):
    """A total for which one user changes at most twelve visits."""

    name: Literal["user_total"] = "user_total"

    @property
    def guarantee(self):
        return self.stated("user", sensitivity=12.0)

    @property
    def rate(self):
        return self.epsilon / 12


class LeakyTotal(SharedTotal):
    """With probability δ, the total without noise."""

    name: Literal["leaky_total"] = "leaky_total"
    delta: float = 0.02

    @property
    def guarantee(self):
        return self.stated("event", delta=self.delta)

    def pairs(self, inside, outside):
        found = []
        for one, other in super().pairs(inside, outside):
            mine, theirs = ((1 - self.delta) * side for side in (one, other))
            found.append((np.append(mine, [self.delta, 0]), np.append(theirs, [0, self.delta])))
        return found


class Alarm(Plugin):
    """Whether the total is large, by a logistic rule: one value for everything."""

    name: Literal["alarm"] = "alarm"

    def pairs(self, inside, outside):
        yes = [1 / (1 + np.exp(-self.epsilon * (c.sum() - 12.0))) for c in (inside, outside)]
        return [tuple(np.array([p, 1 - p]) for p in yes)]


class DailyTotals(Plugin):
    name: Literal["daily_totals"] = "daily_totals"

    def parts(self, counts):
        return np.array([counts[:, :24].sum(), counts[:, 24:].sum()])


class DailyUnits(DailyTotals):
    """For all of a user on one day, who changes at most eight visits."""

    name: Literal["daily_units"] = "daily_units"

    @property
    def guarantee(self):
        return self.stated("user_day", sensitivity=8.0)

    @property
    def rate(self):
        return self.epsilon / 8


class PlaceTotals(Plugin):
    """For all of a user at one place, at most six visits; places have noise of their own."""

    name: Literal["place_totals"] = "place_totals"
    noise_scope = "series"

    @property
    def guarantee(self):
        return self.stated("roi_series", sensitivity=6.0)

    def parts(self, counts):
        return counts.sum(axis=1)

    @property
    def rate(self):
        return self.epsilon / 6


class PlaceEvents(PlaceTotals):
    """The same noise as of an event, and nothing stated about places."""

    name: Literal["place_events"] = "place_events"
    noise_scope = "release"

    @property
    def guarantee(self):
        return self.stated("event")

    @property
    def rate(self):
        return self.epsilon


class KnownTotal(Plugin):
    """The total as it is, which a visit that is replaced leaves, and that of a place with noise."""

    name: Literal["known_total"] = "known_total"

    @property
    def guarantee(self):
        return self.stated("event", neighbours="replace")

    def parts(self, counts):
        return np.array([counts[0].sum()])

    def pairs(self, inside, outside):
        if inside.sum() != outside.sum():
            return [(np.array([1.0, 0.0]), np.array([0.0, 1.0]))]
        return super().pairs(inside, outside)


class Cells(Plugin):
    """Independent noise on each count, by its guarantee alone."""

    name: Literal["cells"] = "cells"

    def parts(self, counts):
        return counts.ravel()


class KnownCells(Cells):
    """The same, and it states its noise."""

    name: Literal["known_cells"] = "known_cells"
    noise_scope = "cell"

    @property
    def noise(self):
        return DiscreteLaplaceNoise(1 / self.epsilon)


PLUGINS = (SharedTotal, UserTotal, LeakyTotal, Alarm, DailyTotals, DailyUnits, PlaceTotals)
PLUGINS += (PlaceEvents, KnownTotal, Cells, KnownCells)


class Sampled:
    """The law of a mechanism after each visit was kept with a probability, one draw for a user."""

    def __init__(self, kept, inner=None):
        self.kept, self.inner = kept, inner
        step = {"name": "sample_traces", "remove": 1 - kept}
        self.mechanism = create("chain", steps=[step, inner]) if inner else create(**step)

    def pairs(self, inside, outside):
        if isinstance(self.inner, SharedTotal):  # the number kept is binomial
            n = int((inside - outside).sum())
            ways = np.array([self.kept**k * (1 - self.kept) ** (n - k) for k in range(n + 1)])
            ways = ways * [np.prod(range(n - k + 1, n + 1)) / np.prod(range(1, k + 1))
                           for k in range(n + 1)]  # fmt: skip
            sides = [geometric(self.inner.rate, k) for k in range(n + 1)]
            return [(sum(w * s[0] for w, s in zip(ways, sides, strict=True)), sides[0][1])]
        found = []
        for _ in range(int((inside != outside).sum())):
            one, other = geometric(self.inner.epsilon, 1) if self.inner else ([1, 0], [0, 1])
            one, other = np.array(one, float), np.array(other, float)
            found.append((self.kept * one + (1 - self.kept) * other, other))
        return found


def atoms(pairs):
    """Return the probabilities, with and without, of outcomes, merged where ratios are equal."""
    own, other = np.ones(1), np.ones(1)
    for one, two in pairs:
        own, other = np.outer(own, one).ravel(), np.outer(other, two).ravel()
        own, other = merged(own, other)
    return own, other


def merged(own, other):
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((own == 0) & (other == 0), 0.0, np.round(np.log(own / other), 9))
    values, index = np.unique(ratio, return_inverse=True)
    return tuple(np.bincount(index, side, len(values)) for side in (own, other))


def best(own, other):
    """Return the accuracy and the AUC of the likelihood ratio."""
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where((own == 0) & (other == 0), 1.0, own / other))
    own, other = own[order], other[order]
    tpr, fpr = (np.concatenate([[0.0], np.cumsum(side), [1.0]]) for side in (own, other))
    return 0.5 + np.maximum(own - other, 0).sum() / 2, np.trapezoid(tpr, fpr)


def added(law, trace, base):
    return best(*atoms(law.pairs(base + trace, base)))


def replaced(law, trace, others, base):
    """Return the best test if a substitute, known to the adversary, is drawn with some chances."""
    sides = [atoms(law.pairs(base + trace, base + other)) for other, _ in others]
    own = np.concatenate([share * one for (one, _), (_, share) in zip(sides, others, strict=True)])
    two = np.concatenate([share * one for (_, one), (_, share) in zip(sides, others, strict=True)])
    return best(own, two)


def draw_traces(n_users, rng):
    """Return traces of at most six visits at a place and eight on a day."""
    traces = np.zeros((n_users, N_ROIS, N_EPOCHS), bool)
    for trace in traces:
        cells = rng.choice(trace.size, int(rng.integers(1, 11)), replace=False)
        trace.ravel()[cells] = True
        for roi in trace:
            roi[np.flatnonzero(roi)[5:]] = False
    return traces


def pools(n_users, user, rng):
    """Yield ways to draw a substitute: the fields of a plan, and the users with their chances."""
    rest = np.delete(np.arange(n_users), user)
    yield "all", {}, dict.fromkeys(rest, 1 / len(rest))
    half = rng.permutation(rest)[: n_users - max(1, round(0.5 * n_users))]
    known = {"name": "known_subset", "alpha": 0.5, "training": 4, "challenges": 4}
    yield "half", {"priors": [known]}, dict.fromkeys(half, 1 / len(half))
    shares = defaultdict(float)
    for members in (range(n_users - 1), range(1, n_users)):
        mates = [one for one in members if one != user]
        for one in mates:
            shares[one] += 1 / len(mates) / 2
    lists = [[f"row {i}" for i in members] for members in (range(n_users - 1), range(1, n_users))]
    yield "lists", {"groups": lists}, dict(shares)


def certificates(cube, mechanisms, fields, folder):
    plan = AuditPlan(
        seed=1, null_roi=False, group_sizes=[4], mechanisms=mechanisms, targets={"random": 2},
        periods=[{"name": "all", "first": 0, "epochs": N_EPOCHS}],
        attacks=[{"name": "projection"}],
        **{"priors": [{"name": "perfect", "groups": 4}], **fields},
    )  # fmt: skip
    done = study.run(CertifyAnalysis(certification_of(plan)), cube, folder, SerialExecutor())
    return done.load().isel(period=0, group_size=0)


def compare(seed, table):
    """Compare all users of one cube; add (too low, difference) to the table by case."""
    rng = np.random.default_rng(seed)
    n_users = int(rng.integers(8, 10))
    traces = draw_traces(n_users, rng)
    dense = traces.astype(np.uint8)
    laws = [one(epsilon=float(rng.choice([0.1, 0.3, 0.8]))) for one in PLUGINS]
    laws.append(SignedTotal(epsilon=0.1, plus=tuple(np.flatnonzero(dense[0]).tolist())))
    samples = [Sampled(0.5), Sampled(0.4, KnownCells()), Sampled(0.4, SharedTotal())]
    mechanisms = [*laws, *(one.mechanism for one in samples)]
    with tempfile.TemporaryDirectory() as folder:
        cube, found = write_cube(f"{folder}/cube.zarr", dense), {}
        for user in (0, n_users - 1):
            base = dense[1:4].sum(axis=0, dtype=int)  # the others, whom the adversary knows
            for pool, fields, shares in pools(n_users, user, rng):
                if pool not in found:
                    run = f"{folder}/{pool}"
                    found[pool] = certificates(cube, mechanisms, fields, run)
                others = [(dense[k].astype(int), p) for k, p in shares.items()]
                for law, mechanism in zip([*laws, *samples], mechanisms, strict=True):
                    own = found[pool].sel(user=user, mechanism=mechanism.id)
                    trace = dense[user].astype(int)
                    case = getattr(law, "name", mechanism.label)
                    if pool == "all":
                        note(table, case, "added", own, added(law, trace, base))
                    if isinstance(law, Plugin):
                        truth = replaced(law, trace, others, base)
                        note(table, case, f"replaced, {pool}", own, truth)


def note(table, case, how, own, truth):
    stated = own.sel(neighbours="add_remove" if how == "added" else "replace")
    gaps = np.array([stated.accuracy.item() - truth[0], stated.auc.item() - truth[1]])
    table[case, how].append(((gaps < -TOLERANCE).any(), (gaps < TIGHT).all(), gaps[0]))


def main(n_cubes):
    table = defaultdict(list)
    for seed in range(n_cubes):
        compare(seed, table)
    rows = [
        (f"{case}, {how}", len(found), sum(low for low, _, _ in found),
         f"{np.mean([tight for _, tight, _ in found]):.0%}",
         f"{np.mean([gap for *_, gap in found]):.3f}")
        for (case, how), found in sorted(table.items())
    ]  # fmt: skip
    print_table("Ceilings against enumeration", ("case", "compared", "too low", "tight", "excess"),
                [tuple(map(str, row)) for row in rows])  # fmt: skip
    every = [one for found in table.values() for one in found]
    low, tight = sum(one[0] for one in every), np.mean([one[1] for one in every])
    sum_up("ceilings", f"{len(every):,} comparisons, {low} too low, {tight:.0%} tight")
    return int(low > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 6))
