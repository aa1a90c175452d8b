"""What one of three tables hides, the other two tell."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from consistency.tables import EVENT, bound, draw_visits, find, table
from loops import for_each

EXACT, HIDES = bound("exact"), bound("suppress_small", up_to=4)
VISITS = draw_visits(2, 240, share=0.8)
PARTS = {"all": slice(0, 160), "men": slice(0, 70), "women": slice(70, 160)}
COUNTS = {name: VISITS[members].sum(axis=0).astype(np.int32) for name, members in PARTS.items()}
SIZES = {"all": 160, "men": 70, "women": 90}


def of(name, declared=EXACT, values=None, **fields):
    return table(declared, COUNTS[name], values, size=SIZES[name], name=name, **fields)


@for_each("order", list(permutations(PARTS)))
def test_a_suppressed_part_follows_from_the_others(order):
    tables = {"all": of("all"), "men": of("men", HIDES), "women": of("women")}
    first, *others = (tables[name] for name in order)
    found = find("complement", first, others)
    n = ((COUNTS["men"] >= 1) & (COUNTS["men"] <= 4)).sum()
    assert (found.level, found.measured) == ("inconsistent", n)
    assert found.text.startswith("all is the sum of women and men")


def test_redacted_cells_follow_too():
    redacted = np.where(np.arange(24) % 2, COUNTS["all"], np.nan)
    found = find("complement", of("all", values=redacted), [of("men"), of("women")])
    hidden = COUNTS["all"][:, ::2]
    assert found.measured == ((hidden >= 1) & (hidden <= 4)).sum()
    found = find("complement", of("all", values=redacted), [of("men"), of("women")], small=3)
    assert found.measured == ((hidden >= 1) & (hidden <= 2)).sum()


def test_where_all_hide_alike_bounds_are_all_that_is_known():
    """Cells are then known where bounds leave one count: by trying all pairs of counts."""
    tables = [of(name, HIDES) for name in PARTS]
    found = find("complement", tables[0], tables[1:])
    due = 0
    for total, men, women in zip(*(COUNTS[name].flat for name in PARTS), strict=True):
        counts = [range(5) if n <= 4 else [n] for n in (total, men, women)]
        fits = [(a + b, a, b) for a in counts[1] for b in counts[2] if a + b in counts[0]]
        for i, n in enumerate((total, men, women)):
            due += len({one[i] for one in fits}) == 1 and 1 <= n <= 4
    assert found.measured == due


def test_nothing_is_hidden():
    found = find("complement", of("all"), [of("men"), of("women")])
    assert (found.level, found.measured, found.n_cells) == ("consistent", 0, 192)


@pytest.mark.parametrize(
    "others",
    [
        [],
        [of("men", HIDES)],
        [of("men", HIDES), table(EXACT, COUNTS["women"], size=91, name="women")],
        [of("men", HIDES), table(EXACT, VISITS[80:170].sum(axis=0), size=90, name="women")],
        [of("men", HIDES), table(EXACT, COUNTS["women"], size=90, name="women", first=1)],
        [of("men", HIDES), table(EXACT, COUNTS["women"], size=90, name="women", first=24)],
        [of("men", HIDES), table(EXACT, COUNTS["women"][:4], size=90, name="women")],
        [of("men", HIDES), of("women", bound(**EVENT))],
    ],
    ids=["none", "one", "sizes", "people", "hours", "days", "places", "noise"],
)
def test_what_makes_no_sum(others):
    found = find("complement", of("all"), others)
    assert (found.level, found.n_cells) == ("consistent", 0)


def test_shared_epochs_are_enough():
    later = table(HIDES, COUNTS["men"][:, 6:], size=70, name="men", first=6)
    found = find("complement", of("all"), [later, of("women")])
    small = COUNTS["men"][:, 6:]
    assert found.measured == ((small >= 1) & (small <= 4)).sum()


def test_too_few_cells_agree():
    tables = [of("all"), of("men", HIDES), of("women")]
    seen = ((COUNTS["men"] > 4) & (COUNTS["all"] > 0)).sum()
    assert seen >= 10
    assert find("complement", tables[0], tables[1:], least=int(seen)).level == "inconsistent"
    found = find("complement", tables[0], tables[1:], least=int(seen) + 1)
    assert (found.level, found.text) == (
        "unknown",
        "all may be in a sum of a group and its two parts: too few cells show it",
    )
    parts = [replace(part, subset_of=("all",)) for part in tables[1:]]
    assert find("complement", tables[0], parts, least=1000).level == "inconsistent"
