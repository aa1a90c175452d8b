"""Error rates and power over populations that move as people do: day after day much the same."""

from functools import cache

import numpy as np
import pytest
from consistency.tables import EVENT, bound, find, released, table
from loops import for_each, mostly_slow

EXACT = bound("exact")
HIDES = bound("suppress_small", up_to=2)


@cache
def commuters(n_rois, n_days, n_users=150):
    """Visits of users whose day repeats with small changes, bool (user, roi, epoch)."""
    rng = np.random.default_rng([n_rois, n_days])
    visits = np.zeros((n_users, n_rois, 24 * n_days), bool)
    for user in range(n_users):
        usual = np.where(rng.random(24) < 0.5, rng.integers(n_rois), rng.integers(n_rois, size=24))
        awake = rng.random(24) < 0.6
        for day in range(n_days):
            there = np.where(rng.random(24) < 0.1, rng.integers(n_rois, size=24), usual)
            seen = np.flatnonzero(awake ^ (rng.random(24) < 0.1))
            visits[user, there[seen], 24 * day + seen] = True
    return visits


def of(visits, members, declared=EXACT, name="week 1", seed=1):
    counts = visits[members].sum(axis=0)
    values = released(declared, counts.astype(np.int32), seed, len(members))
    return table(declared, counts, values, size=len(members), name=name)


SIZES = [(50, 50), (50, 49), (50, 47), (50, 30), (50, 5), (140, 137)]


@pytest.mark.parametrize("declared", [EXACT, HIDES], ids=lambda declared: declared.label)
@pytest.mark.parametrize(("n_rois", "n_days"), [(2, 7), (6, 3), (30, 2)])
@pytest.mark.parametrize(("one", "other"), SIZES)
def test_no_strangers_are_taken_for_a_part(n_rois, n_days, one, other, declared):
    visits = commuters(n_rois, n_days)
    for seed in range(6):
        rng = np.random.default_rng([seed, one, other])
        groups = [rng.choice(len(visits), n, replace=False) for n in (one, other)]
        first, second = (of(visits, group, declared) for group in groups)
        assert find("differencing", first, [second]).level != "inconsistent"


@for_each(("n_rois", "n_days"), [(2, 7), (6, 3), (30, 2)])
@for_each(("one", "other"), [(50, 49), (50, 47), (140, 137)])
def test_parts_are_found(n_rois, n_days, one, other):
    visits = commuters(n_rois, n_days)
    for seed in range(6):
        group = np.random.default_rng([seed, one]).choice(len(visits), one, replace=False)
        found = find("differencing", of(visits, group), [of(visits, group[:other])])
        assert found.level == "inconsistent"
        people = one - other
        who = "one person was" if people == 1 else f"{people} people were"
        assert f"where {who}" in found.text


@mostly_slow("seed", range(4))
def test_noise_on_a_day_like_any_other_is_not_called_repeated(seed):
    """Counts repeat from day to day; their noise does not."""
    visits = commuters(6, 3)
    declared = bound(**EVENT, integers="round", clip=True)
    made = of(visits, np.arange(60), declared, seed=seed)
    assert find("noise_law", made, seed=seed).level == "consistent"
    values = made.values.copy()
    values[:, 24:] = np.clip(made.counts + np.tile((values - made.counts)[:, :24], 3), 0, 60)[
        :, 24:
    ]
    again = table(declared, made.counts, values, size=60)
    assert find("noise_law", again, seed=seed).level == "inconsistent"


@pytest.mark.parametrize("check", ["differencing", "possible_values", "totals", "complement"])
def test_order_of_places_is_no_matter(check):
    visits = commuters(6, 3)
    order = np.random.default_rng(3).permutation(6)
    groups = {"all": np.arange(60), "men": np.arange(28), "women": np.arange(28, 60)}
    counts = {name: visits[members].sum(axis=0) for name, members in groups.items()}

    def made(name, declared, rows):
        shown = counts[name][rows]
        totals = {"roi_totals": shown.sum(axis=1), "epoch_totals": shown.sum(axis=0)}
        return table(declared, shown, size=len(groups[name]), name=name, **totals)

    found = [
        find(
            check, made("all", HIDES, rows), [made(name, EXACT, rows) for name in ("men", "women")]
        )
        for rows in (np.arange(6), order)
    ]
    for one, other in zip(*([each] for each in found), strict=True):
        assert (one.level, one.measured, one.n_cells) == (
            other.level,
            other.measured,
            other.n_cells,
        )


@pytest.mark.parametrize("check", ["differencing", "complement"])
def test_order_of_tables_is_no_matter(check):
    visits = commuters(6, 3)
    tables = [
        of(visits, np.arange(60), HIDES, "all"),
        of(visits, np.arange(58), HIDES, "then"),
        of(visits, np.arange(28), EXACT, "men"),
        of(visits, np.arange(28, 60), EXACT, "women"),
    ]
    found = [find(check, tables[0], others) for others in (tables[1:], tables[:0:-1])]
    assert found[0].level == found[1].level == "inconsistent"
    assert found[0].measured == found[1].measured
