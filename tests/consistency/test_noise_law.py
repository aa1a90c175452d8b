"""Noise that is not the declared one is found; honest noise is called so no oftener than said."""

import numpy as np
import pytest
from consistency.tables import EVENT, UP_TO, bound, chain, draw_counts, find, released, table
from loops import for_each, mostly_slow
from scipy import stats

from clusterscale.errors import ConfigError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.release.checks import create

LAPLACE = bound(**EVENT)
ROUND, CLIP = {"integers": "round"}, {"clip": True}
ROUNDED = bound(**EVENT, **ROUND)
COUNTS = draw_counts(shape=(20, 48), mean=4)
NOISE = released(LAPLACE, COUNTS) - COUNTS


def level(declared, values, counts=COUNTS, **fields):
    return find("noise_law", table(declared, counts, values), **fields).level


def test_an_honest_release_is_consistent_and_told_with_numbers():
    found = find("noise_law", table(LAPLACE, COUNTS))
    assert (found.level, found.n_cells) == ("consistent", COUNTS.size)
    assert found.measured != found.expected
    assert "the noise on 960 known counts is like that of laplace" in found.text


FAULTS = {
    "cut to whole numbers": (LAPLACE, released(bound("truncated_laplace"), COUNTS)),
    "cut to whole numbers, rounded": (ROUNDED, released(bound("truncated_laplace"), COUNTS)),
    "half the scale": (LAPLACE, COUNTS + NOISE / 2),
    "twice the scale": (LAPLACE, COUNTS + NOISE * 2),
    "half the scale, rounded": (ROUNDED, np.rint(COUNTS + NOISE / 2)),
    "rounded": (LAPLACE, np.rint(COUNTS + NOISE)),
    "clipped": (LAPLACE, np.clip(COUNTS + NOISE, 0, 20)),
    "not clipped": (bound(**EVENT, **CLIP), COUNTS + NOISE),
    "rounded down": (ROUNDED, np.floor(COUNTS + NOISE)),
    "shifted": (LAPLACE, COUNTS + NOISE + 0.5),
    "one draw for all epochs": (LAPLACE, COUNTS + NOISE[:, :1]),
    "one draw for all ROIs": (LAPLACE, COUNTS + NOISE[:1]),
    "a day's draws every day": (LAPLACE, COUNTS + np.tile(NOISE[:, :24], 2)),
    "normal": (LAPLACE, COUNTS + np.random.default_rng(8).normal(0, 2**0.5, COUNTS.shape)),
    "not suppressed": (chain(EVENT, UP_TO), COUNTS + NOISE),
    "none in one ROI": (LAPLACE, COUNTS + NOISE * (np.arange(20) != 7)[:, None]),
    "little in one ROI": (LAPLACE, COUNTS + NOISE * np.where(np.arange(20) == 7, 0.2, 1)[:, None]),
    "none in one epoch": (LAPLACE, COUNTS + NOISE * (np.arange(48) != 30)),
    "none on large counts": (LAPLACE, COUNTS + NOISE * (COUNTS < 8)),
    "none at all": (LAPLACE, COUNTS),
    "other small counts": (
        bound("perturb_small", below=6, epsilon=1.0),
        released(bound("perturb_small", below=3, epsilon=1.0), COUNTS),
    ),
    "fewer liars": (
        bound("randomized_response", p=0.5),
        released(bound("randomized_response", p=0.2), COUNTS),
    ),
    "more events": (
        bound("sample_events", remove=0.5),
        released(bound("sample_events", remove=0.3), COUNTS),
    ),
    "fewer coefficients": (
        bound("fourier", epsilon=1.0, coefficients=6),
        released(bound("fourier", epsilon=1.0, coefficients=2), COUNTS),
    ),
}


@mostly_slow("fault", FAULTS)
def test_a_fault_is_found(fault):
    found = find("noise_law", table(FAULTS[fault][0], COUNTS, FAULTS[fault][1]))
    assert found.level == "inconsistent", found.text
    assert "none of 999 is as unusual" in found.text


def test_what_draws_nothing_is_compared_exactly():
    hides = bound("suppress_small", up_to=2)
    small = (COUNTS > 0) & (COUNTS <= 2)
    found = find("noise_law", table(hides, COUNTS, COUNTS))
    assert (found.level, found.measured, found.expected) == ("inconsistent", small.sum(), 0)
    assert "1 is published as 1, not 0" in found.text or "2 is published as 2, not 0" in found.text
    assert level(hides, released(hides, COUNTS)) == "consistent"
    blank = np.where(COUNTS > 2, COUNTS, np.nan)
    assert level(hides, blank) == "consistent"
    large = np.where(COUNTS > 8, COUNTS, np.nan)  # redacted for other reasons
    assert level(hides, large) == "consistent"
    assert level(hides, np.full(COUNTS.shape, np.nan)) == "unknown"
    one_off = COUNTS.astype(float)
    one_off[3, 5] += 1
    found = find("noise_law", table(bound("exact"), COUNTS, one_off))
    assert (found.level, found.measured) == ("inconsistent", 1)


def test_suppression_that_leaves_blanks_is_that_which_writes_zeros():
    declared = chain(EVENT, UP_TO)
    values = released(declared, COUNTS)
    assert (values == 0).any()
    assert level(declared, np.where(values == 0, np.nan, values)) == "consistent"


@pytest.mark.parametrize("places", [1, 3])
def test_decimals_are_no_fault(places):
    assert level(LAPLACE, np.round(COUNTS + NOISE, places)) == "consistent"


def test_redaction_that_looks_at_counts_only_is_no_fault():
    values = np.where(COUNTS > 1, COUNTS + NOISE, np.nan)
    found = find("noise_law", table(LAPLACE, COUNTS, values))
    assert (found.level, found.n_cells) == ("consistent", (COUNTS > 1).sum())


def test_too_little_is_known():
    known = np.where(np.arange(COUNTS.size).reshape(COUNTS.shape) < 29, COUNTS, -1)
    found = find("noise_law", table(LAPLACE, COUNTS, known=known))
    assert (found.level, found.n_cells) == ("unknown", 29)
    assert "only 29 true counts known for published cells, but the test needs 30" in found.text
    found = find("noise_law", table(LAPLACE, COUNTS, known=known), least=29)
    assert (found.level, found.n_cells) == ("unknown", 29)
    assert found.text.startswith("29 known counts say too little of the noise of laplace")
    assert "of 20 tables with noise of half the scale, " in found.text
    rounding = bound("round_to_base", base=3)
    found = find("noise_law", table(rounding, COUNTS, known=known), least=29)
    assert found.level == "consistent"
    assert "of 1 table with nothing drawn at random, 1 would be found" in found.text
    none = find("noise_law", table(LAPLACE, COUNTS, known=np.full_like(COUNTS, -1)))
    assert (none.level, none.n_cells) == ("unknown", 0)
    assert np.isnan([none.measured, none.expected]).all()


@pytest.mark.parametrize("name", ["fourier", "adaptive_ranges", "suppress_unpopular"])
def test_a_mechanism_that_looks_around_needs_all_counts(name):
    known = COUNTS.copy()
    assert find("noise_law", table(bound(name), COUNTS)).level == "consistent"
    known[2, 3] = -1
    found = find("noise_law", table(bound(name), COUNTS, known=known))
    assert found.level == "unknown"
    assert "not all of them are known" in found.text


def test_noise_on_the_empty_cells_alone_tells():
    """Nobody of the cube was ever there, so these counts are known of any group."""
    known = np.where(COUNTS == 0, 0, -1)
    assert (known == 0).sum() > 60
    for values, due in ((COUNTS + NOISE, "consistent"), (COUNTS + NOISE / 2, "inconsistent")):
        found = find("noise_law", table(LAPLACE, COUNTS, values, known=known))
        assert (found.level, found.n_cells) == (due, (known == 0).sum())


@mostly_slow("shape", [(1, 30), (4, 15), (6, 20), (8, 24), (16, 24)], n_quick=0)
@pytest.mark.parametrize("settings", [{}, ROUND, CLIP | ROUND], ids=str)
def test_half_the_noise_is_hardly_called_consistent_with_few_counts(shape, settings):
    """Where at least 80 % of such tables are found, less than 20 % are not; here 12 of 25 at most.

    More have a probability below 0.0005.
    """
    declared, less = (bound(**EVENT | settings | {"epsilon": one}) for one in (1.0, 2.0))
    counts = draw_counts(3, shape=shape)
    found = [
        find("noise_law", table(declared, counts, released(less, counts, [i, 4])), seed=[i, 8])
        for i in range(25)
    ]
    assert [one.level for one in found].count("consistent") <= 12


def test_noise_of_hardly_any_size_is_not_judged():
    declared = bound("laplace", epsilon=12.0, sensitivity=1.0, discrete=True)
    found = find("noise_law", table(declared, COUNTS))
    assert found.level == "unknown"
    assert "of 20 tables with noise of half the scale, 0 would be found" in found.text


def test_a_declared_mechanism_that_cannot_be_is_refused():
    declared = bound("fourier", epsilon=1.0, coefficients=40)
    with pytest.raises(ConfigError, match="coefficients is 40"):
        find("noise_law", table(declared, COUNTS, COUNTS))


def test_same_draws_same_finding():
    made = table(LAPLACE, COUNTS)
    assert find("noise_law", made) == find("noise_law", made)


def n_called(declared, n, confidence, counts, **fields):
    """Of so many honest releases, how many are called inconsistent."""
    found = [
        find(
            "noise_law",
            table(declared, counts, released(declared, counts, seed=[i, 31])),
            seed=[i, 32],
            confidence=confidence,
            **fields,
        ).level
        for i in range(n)
    ]
    return found.count("inconsistent")


@mostly_slow(
    "declared",
    [
        LAPLACE,
        ROUNDED,
        bound("laplace", epsilon=4.0, sensitivity=1.0, discrete=True),
        chain(EVENT | CLIP, UP_TO),
        bound("perturb_small"),
        bound("fourier"),
    ],
    ids=lambda declared: declared.label,
)
def test_honest_releases_are_called_no_oftener_than_said(declared):
    """At 90 % of 120 releases 12 are called on average, for ranks are exact."""
    n = n_called(declared, 120, 0.9, draw_counts(shape=(4, 12)), trials=20)
    assert stats.binomtest(n, 120, 0.1, alternative="greater").pvalue > 0.001
    assert stats.binomtest(n, 120, 0.1, alternative="less").pvalue > 0.001


def test_at_the_default_hardly_any():
    assert n_called(LAPLACE, 100, 0.999, draw_counts(shape=(5, 10)), trials=40) <= 1


@pytest.mark.parametrize(("confidence", "n"), [(0.9, 9), (0.95, 19), (0.99, 99), (0.999, 999)])
def test_how_many_releases_a_confidence_asks_for(confidence, n):
    assert create("noise_law", confidence=confidence).n_honest == n


@for_each("name", list(MECHANISMS))
@for_each("seed", range(3))
def test_an_honest_release_of_any_mechanism_is_not_inconsistent(name, seed):
    declared, counts = bound(name), draw_counts(seed, shape=(8, 48))
    made = table(declared, counts, released(declared, counts, seed=[seed, 6]))
    assert find("noise_law", made, seed=[seed, 7]).level == "consistent"
    assert find("possible_values", made).level != "inconsistent"
