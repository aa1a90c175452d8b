"""What defences leave of the cabs' counts agrees with the papers, or differs for a known reason."""

import numpy as np
import pytest
from oracles import ndss18, pets17
from oracles.pomacs20 import COLUMNS
from real.cabs import ingest_cabs
from real.defence_tables import FIRST_WEEK, draw_crowd, pomacs_rows
from real.noise_tables import inversions, ndss_rows, order, pets_rows, with_sensitivity

pytest.importorskip("distributed")
pytestmark = [pytest.mark.heavy, pytest.mark.dask, pytest.mark.timeout(600)]

GROUPS = 200

# An independent re-computation on the same cabs: table, parameter, {column: figure}.
RECOMPUTED = [
    (18, "0.2", {"MRE": 0.011, "MRE 10%": 0.012, "F1": 0.94, "JS": 0.040, "r": 0.92}),
    (10, "2", {"MRE": 0.68}),
    (10, "10", {"MRE": 3.40}),
    (10, "250", {"MRE": 85.5}),
    (14, "20", {"MRE": 0.030, "F1": 0.98, "JS": 0.27, "r": 0.50}),
    (16, "0.8", {"MRE": 0.032, "F1": 0.96, "r": 0.55}),
    (20, "2", {"MRE": 3.6, "F1": 0.97}),
]


@pytest.fixture(scope="module")
def cabs(real_data, tmp_path_factory):
    return ingest_cabs(real_data, str(tmp_path_factory.mktemp("cabs") / "cube"))


@pytest.fixture(scope="module")
def pomacs(cabs):
    rows = pomacs_rows(cabs, n_groups=GROUPS, tables=(10, 14, 16, 18, 20, 22, 26))
    return {(int(row.table.split(":")[0]), row.setting): row for row in rows}


@pytest.fixture(scope="module")
def ndss(cabs):
    return ndss_rows(cabs, n_groups=GROUPS, shrink=False)


@pytest.fixture(scope="module")
def pets(cabs):
    return pets_rows(cabs)


def test_groups_are_many_enough_for_the_draw_not_to_matter(pomacs, ndss, pets):
    """Standard errors: 3 % of any MRE, .003 of the rest."""
    for (table, setting), row in pomacs.items():
        assert row.error[0] <= 0.03 * row.ours[0], (table, setting)
        assert max(row.error[1:]) <= 0.003, (table, setting)
    for row in [*ndss, *pets]:
        few = row.setting == "LPA(1/ε)"  # at ε 10 nearly all noise is rounded away
        for error, ours in list(zip(row.error, row.ours, strict=True))[: 3 if few else None]:
            assert error <= 0.03 * ours, row.setting


@pytest.mark.parametrize(("table", "setting", "figures"), RECOMPUTED)
def test_pomacs20_agrees_with_the_other_computation(pomacs, table, setting, figures):
    """All within 10 %, but for one that is a draw: 22 % of our groups are above its 3.6."""
    row = pomacs[table, setting]
    for column, figure in figures.items():
        ours = row.ours[COLUMNS.index(column)]
        share = 0.15 if figure == 3.6 else 0.1
        assert ours == pytest.approx(figure, rel=share, abs=0.001), column


@pytest.mark.parametrize(("table", "setting", "figures"), RECOMPUTED)
def test_pomacs20_agrees_with_the_paper(pomacs, table, setting, figures):
    row = pomacs[table, setting]
    for column in figures:
        i = COLUMNS.index(column)
        assert row.ours[i] == pytest.approx(row.paper[i], rel=0.1, abs=0.002), column


def test_published_fourier_rows_have_too_little_noise(pomacs):
    """Tables 22 and 26 come out with NumPy's transform as it is; with the noise ε needs, not."""
    for (table, setting), row in pomacs.items():
        if table not in (22, 26):
            continue
        columns = [0, 1, 4, 5] if setting == "0.01" else [0, 1, 2, 4, 5]  # τ hangs on numbering
        for i in columns:
            assert row.found[i] == pytest.approx(row.paper[i], rel=0.1, abs=0.006), (setting, i)
        if setting != "0.01":
            assert row.ours[0] > 3 * row.paper[0]


def test_ties_at_random_give_the_published_hotspots(pomacs):
    """Where most places tie, the paper's F1 is that of a random order, not of the index."""
    for key in [(10, "100"), (10, "250"), (14, "80"), (14, "160")]:
        row = pomacs[key]
        assert row.found[2] == pytest.approx(row.paper[2], rel=0.1), key
        assert row.ours[2] < row.paper[2] * 0.9, key


# The other computation of NDSS18 Table III; it states the mean of groups it does not count.
NDSS = {
    "LPA(Δ/ε)": (115, 111, 102, 50),
    "GSM": (105, 90, 21, 2.2),
    "LPA(1/ε)": (22, 2.3, 0.23, 0.002),
}


@pytest.mark.parametrize("name", NDSS)
def test_ndss18_lies_where_single_groups_do(ndss, name):
    """Its figures are 9 to 25 % above our means: draws, for single groups deviate by 11 %.

    They hang on who, of those few that visit nearly empty ROIs, is in a group: 4 to 18 % of
    single groups are above them. At ε 10 LPA(1/ε) leaves one count in many wrong.
    """
    row = next(row for row in ndss if row.setting == name)
    for ours, error, figure in zip(row.ours, row.error, NDSS[name], strict=True):
        deviation = error * np.sqrt(GROUPS - 1)
        assert abs(figure - ours) < 2.5 * deviation
        assert ours == pytest.approx(figure, rel=0.25, abs=0.001)


@pytest.mark.parametrize("i", range(4))
def test_ndss18_orders_mechanisms_as_we_do(ndss, i):
    """For one ROI's series, as the Fourier mechanisms promise."""
    rows = with_sensitivity(ndss, "a series")
    assert len(rows) == len(ndss18.TABLE_3)
    assert inversions(rows, i) == []
    if i >= 1:
        assert order(rows, i, paper=False) == order(rows, i, paper=True)


WRONG = [("GSM", "FPA")]


@pytest.mark.parametrize(("i", "wrong"), list(enumerate([[], [], WRONG, WRONG])))
def test_fourier_for_a_whole_user_is_worse_than_gaussian_noise(ndss, i, wrong):
    """For Δ₂ = √Δ, FPA is below GSM in the paper only by the noise that it lacks (Table 22)."""
    assert inversions(with_sensitivity(ndss, "√Δ"), i) == wrong


@pytest.mark.parametrize("i", range(4))
def test_pets17_orders_mechanisms_as_we_do(pets, i):
    rows = [row for row in pets if row.table == "4"]
    assert len(rows) == len(pets17.TABLE_4)
    assert inversions(rows, i) == []
    if pets17.EPSILONS[i] >= 0.1:  # below, all but the last two fill the range of counts
        assert order(rows, i, paper=False) == order(rows, i, paper=True)


def test_pets17_spotme_errs_more_the_more_lie(pets):
    errors = [row.ours[0] for row in pets if row.table == "5"]
    assert len(errors) == len(pets17.TABLE_5)
    assert (np.diff(errors) > 0).all()


def test_pets17_comes_out_with_a_floor_by_the_hour(pets):
    """0.1 % as its text says, of the sum over ROIs; rows are printed with one decimal."""
    for row in pets:
        np.testing.assert_allclose(row.found, row.paper, rtol=0.1, atol=0.05)


def test_mechanisms_of_a_table_share_their_groups(cabs):
    first, again = (
        draw_crowd(cabs, FIRST_WEEK, size=250, n_groups=3, null_roi=False, seed=0) for _ in range(2)
    )
    np.testing.assert_array_equal(first.counts, again.counts)
