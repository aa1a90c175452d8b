"""What follows from tables of any levels, times, categories and groups is true of their counts."""

import numpy as np
import pytest

from clusterscale.release.cells import UNKNOWN, Cells
from clusterscale.release.intervals import bound_counts
from clusterscale.release.lattice import relate
from clusterscale.release.publication import Publication

HOUR = 3600


def table(rng, counts, places, hours, *, k, **about):
    """Return the cells of a table that hides counts below k, or rounds them, or neither."""
    kind = rng.integers(4)
    low, high = counts.copy(), counts.copy()
    if kind < 2:
        hides = counts < k
        low[hides], high[hides] = 0, k - 1
    elif kind == 2:
        nearest = 3 * np.rint(counts / 3).astype(np.int64)
        low, high = np.maximum(nearest - 1, 0), nearest + 1
    starts = HOUR * hours * np.arange(counts.shape[1])
    values = np.where(low == high, counts, np.nan)
    defaults = {"name": about["label"], "people": "", "measure": "visits", "complete": True}
    return Cells(
        **{**defaults, "categories": frozenset(), **about}, places=places, starts=starts,
        ends=starts + HOUR * hours, values=values, low=low, high=high,
        covered=np.ones(counts.shape, bool), secondary=np.zeros(counts.shape, bool),
        gaps=np.zeros(counts.shape, bool), timezone="UTC",
    )  # fmt: skip


def honest(rng):
    """Return some tables of one random population, what is stated of them, and their counts."""
    n, n_hours, k = int(rng.integers(1, 4)), 4, int(rng.integers(2, 7))
    regions = [f"R{i}" for i in range(n)]
    zones = [f"R{i}{j}" for i in range(n) for j in range(rng.integers(1, 4))]
    known = rng.random(len(zones)) < (1.0 if rng.random() < 0.7 else 0.7)
    mean = rng.choice([1.5, 4, 15])
    # who counts: residents and others; sex; zone; hour
    people = rng.poisson(mean, (2, 2, len(zones), n_hours))
    up = np.array([[zone.startswith(region) for zone in zones] for region in regions])
    found = []

    def offer(counts, places, hours=1, **about):
        if rng.random() < 0.8 and len(places):
            found.append((table(rng, counts, tuple(places), hours, k=k, **about), counts))

    groups = {"": people.sum(0), "residents": people[0]}
    if rng.random() < 0.5:
        groups["others"] = people[1]
    for name, group in groups.items():
        sexes = {"M": group[0], "F": group[1], "": group.sum(0)}
        for sex, counts in sexes.items():
            about = {"people": name, "categories": frozenset({("sex", sex)} if sex else ())}
            for hours in (1, 2, 4):
                summed = counts.reshape(len(zones), -1, hours).sum(2)
                listed = [zone for zone, one in zip(zones, known, strict=True) if one]
                if sex or hours < 4:
                    offer(summed[known], listed, hours, label=f"zones {name}",
                          complete=bool(known.all()), **about)  # fmt: skip
                if hours > 1 or not sex:
                    offer(up.astype(int) @ summed, regions, hours, label=f"regions {name}", **about)
    side = {"parts_of": "all.csv"} if "others" in groups else {"subset_of": ["all.csv"]}
    entries = [{"counts": "all.csv"}]
    entries += [{"counts": f"{name}.csv", "people": name, **side} for name in groups if name]
    entries += [
        {"counts": f"{label}.csv", "name": label, "parents": ["codes"], "people": people or None}
        for label, people in {one.label: one.people for one, _ in found}.items()
    ]
    plan = Publication.model_validate({"tables": entries})
    return [one for one, _ in found], plan, [counts for _, counts in found]


def check(rng, **options):
    tables, plan, counts = honest(rng)
    if not tables:
        return 0
    sums = relate(tables, plan)
    n_rests = sum(map(len, sums.rests))
    low, high = (
        np.concatenate(
            [*(getattr(one, end).ravel() for one in sums.tables), np.full(n_rests, last)]
        )
        for end, last in (("low", 0), ("high", UNKNOWN))
    )
    relations, _, _ = sums.relations(low, high)
    ranges = bound_counts(low, high, relations, **options)
    assert ranges.contradiction is None
    true = np.concatenate([one.ravel() for one in counts])
    known = slice(len(true))
    assert (ranges.low[known] <= true).all()
    assert (true <= ranges.high[known]).all()
    return int(((low < high) & (ranges.low == ranges.high))[known].sum())


def test_nothing_false_follows_from_honest_tables():
    rng = np.random.default_rng(5)
    assert sum(check(rng) for _ in range(20)) > 10  # some cells are determined, each rightly


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nothing_false_follows_from_ten_thousand_honest_publications():
    rng = np.random.default_rng(6)
    assert sum(check(rng, most=0) for _ in range(10_000)) > 5000
