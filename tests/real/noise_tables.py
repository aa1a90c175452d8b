"""Mean relative errors of noise on the cabs' counts, beside NDSS18 and PETS17: plain data.

One figure for each mechanism and ε; the noise comes from a stream named after both.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from oracles import ndss18, pets17
from real.conventions import error_by_hour, halved_fourier
from real.defence_tables import FIRST_WEEK, FLOOR, KAPPA, WHOLE, Crowd, Row, draw_crowd

from clusterscale import mechanisms, utility
from clusterscale.contracts import Mechanism, Values
from clusterscale.cube import TraceCube
from clusterscale.seeds import stream

THIRD_WEEK = (336, 504)
DELTA = 0.1

Family = Callable[[float, float], Mechanism]  # of ε and of a factor on the noise


def _noisy(name: str, key: str, norm: float, **others: object) -> Family:
    """Make the noise smaller through the sensitivity, to which it is proportional."""
    return lambda epsilon, factor: mechanisms.create(
        name, epsilon=epsilon, **{key: norm * factor}, **others, **WHOLE
    )


def ndss_rows(
    cube: TraceCube, *, n_groups: int = 20, seed: int = 0, shrink: bool = True
) -> list[Row]:
    """Return NDSS18 Table III: groups of 500, null ROI; FPA and EFPAG with either sensitivity."""
    crowd = draw_crowd(cube, FIRST_WEEK, size=500, n_groups=n_groups, null_roi=True, seed=seed)
    user, series = np.sqrt(crowd.bounds.user), np.sqrt(crowd.bounds.series)
    fourier = {"coefficients": KAPPA}
    families: dict[str, tuple[str, Family]] = {
        "LPA(Δ/ε)": ("", _noisy("laplace", "sensitivity", user**2)),
        "GSM": ("", _noisy("gaussian", "l2_sensitivity", user, delta=DELTA)),
        "FPA": (", √Δ", _noisy("fourier", "l2_sensitivity", user, **fourier)),
        "FPA, a series": ("", _noisy("fourier", "l2_sensitivity", series, **fourier)),
        "EFPAG": (", √Δ", _noisy("enhanced_fourier", "l2_sensitivity", user, delta=DELTA)),
        "EFPAG, a series": ("", _noisy("enhanced_fourier", "l2_sensitivity", series, delta=DELTA)),
        "LPA(1/ε)": ("", _noisy("laplace", "sensitivity", 1.0)),
    }
    rows = []
    for name, (suffix, make) in families.items():
        paper = ndss18.TABLE_3[name.split(",")[0]]
        ours, error = _errors(crowd, make, ndss18.EPSILONS, seed, name)
        found, factors = (), ()
        if name == "FPA":
            found = _halved_errors(crowd, user**2, ndss18.EPSILONS, seed)[0]
        if name == "EFPAG":
            root = 1 / np.sqrt(crowd.traces.n_epochs)
            found = _errors(crowd, make, ndss18.EPSILONS, seed, name, root)[0]
        if shrink and name.startswith(("FPA", "EFPAG")):
            pairs = zip(ndss18.EPSILONS, paper, strict=True)
            factors = tuple(_shrink(crowd, make, e, figure, seed, name) for e, figure in pairs)
        rows.append(Row("III", name + suffix, ours, error, paper, found, factors))
    return rows


def _errors(
    crowd: Crowd, make: Family, epsilons: Sequence[float], seed: int, name: str, factor: float = 1.0
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean relative error at each ε, and its standard error over the groups."""
    found = [
        group_errors(crowd, make(e, factor), stream(seed, "noise", name, str(e))) for e in epsilons
    ]
    roots = np.sqrt(max(1, len(crowd.counts) - 1))
    return tuple(each.mean() for each in found), tuple(each.std() / roots for each in found)


def group_errors(crowd: Crowd, mechanism: Mechanism, rng: np.random.Generator) -> Values:
    """Return the mean relative error of each group."""
    return np.array(
        [
            utility.mean_relative_error(
                raw, mechanism.release(raw, group_size=crowd.size, rng=rng), floor=FLOOR
            )
            for raw in crowd.counts
        ]
    )


def _shrink(
    crowd: Crowd, make: Family, epsilon: float, paper: float, seed: int, name: str
) -> float:
    """Return by what factor the noise must shrink to give the paper's figure, by halving."""
    low, high = 0.0, 8.0  # decimal logarithm times 4
    for _ in range(9):
        middle = (low + high) / 2
        factor = 10 ** (-middle / 4)
        error = _errors(crowd, make, (epsilon,), seed, name, factor)[0][0]
        low, high = (middle, high) if error > paper else (low, middle)
    return float(10 ** ((low + high) / 8))


def _halved_errors(
    crowd: Crowd, norm: float, epsilons: Sequence[float], seed: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the errors of :func:`halved_fourier`, with either floor: by ROI, by hour."""
    found = []
    for epsilon in epsilons:
        released = halved_fourier(
            crowd.counts.astype(float),
            np.sqrt(KAPPA * norm) / epsilon,
            coefficients=KAPPA,
            most=crowd.size,
            rng=stream(seed, "halved", str(epsilon)),
        )
        pairs = list(zip(crowd.counts, released, strict=True))
        by_roi = [utility.mean_relative_error(*pair, floor=FLOOR) for pair in pairs]
        found.append((np.mean(by_roi), np.mean([error_by_hour(*pair) for pair in pairs])))
    by_roi, by_hour = zip(*found, strict=True)
    return by_roi, by_hour


def pets_rows(cube: TraceCube, *, n_draws: int = 20, seed: int = 0) -> list[Row]:
    """Return PETS17 Tables 4 and 5: all cabs, third week, null ROI; ``n_draws`` of the noise."""
    crowd = draw_crowd(
        cube, THIRD_WEEK, size=cube.n_users, n_groups=n_draws, null_roi=True, seed=seed
    )
    n_rois, week = crowd.traces.n_rois, crowd.traces.n_epochs
    families: dict[str, Family] = {
        "Lap(S·T'/ε)": _noisy("laplace", "sensitivity", float(n_rois * week)),
        "Lap(Δ/ε)": _noisy("laplace", "sensitivity", float(crowd.bounds.user)),
        "Lap(T'/ε)": _noisy("laplace", "sensitivity", float(week)),
        "FPA": _noisy("fourier", "l2_sensitivity", float(np.sqrt(week)), coefficients=KAPPA),
        "Lap(1/ε)": _noisy("laplace", "sensitivity", 1.0),
    }
    rows = []
    for name, make in families.items():
        ours, error = _errors(crowd, make, pets17.EPSILONS, seed, name)
        if name == "FPA":
            found = _halved_errors(crowd, week, pets17.EPSILONS, seed)[1]
        else:
            found = tuple(_by_hour(crowd, make(e, 1.0), seed, name) for e in pets17.EPSILONS)
        rows.append(Row("4", name, ours, error, pets17.TABLE_4[name], found))
    for p, paper in pets17.TABLE_5.items():
        spotme = mechanisms.create("randomized_response", p=p, **WHOLE)
        errors = group_errors(crowd, spotme, stream(seed, "spotme", str(p)))
        error = errors.std() / np.sqrt(len(errors))
        found = _by_hour(crowd, spotme, seed, "spotme")
        rows.append(Row("5", f"SpotMe, p {p:g}", (errors.mean(),), (error,), (paper,), (found,)))
    return rows


def _by_hour(crowd: Crowd, mechanism: Mechanism, seed: int, name: str) -> float:
    rng = stream(seed, "by hour", name)
    released = mechanism.release(crowd.counts, group_size=crowd.size, rng=rng)
    pairs = zip(crowd.counts, released, strict=True)
    return float(np.mean([error_by_hour(raw, out) for raw, out in pairs]))


def order(rows: Sequence[Row], i: int, *, paper: bool) -> list[str]:
    """Return the names of mechanisms at the i-th ε, from the largest error to the least."""
    figures = {row.setting: (row.paper if paper else row.ours)[i] for row in rows}
    return sorted(figures, key=lambda name: -figures[name])


def inversions(rows: Sequence[Row], i: int, apart: float = 0.1) -> list[tuple[str, str]]:
    """Return pairs in the other order than the paper's at the i-th ε.

    Only those count that are at least ``apart`` from each other, relatively, in both: beyond the
    range of counts all noise is the same.
    """
    pairs = [(a, b) for a in rows for b in rows if a.paper[i] > b.paper[i] * (1 + apart)]
    return [(a.setting, b.setting) for a, b in pairs if a.ours[i] * (1 + apart) < b.ours[i]]


def with_sensitivity(rows: Sequence[Row], which: str) -> list[Row]:
    """Return rows of NDSS18 with one row for FPA and EFPAG each, that with Δ₂ of ``which``."""
    kept = [row for row in rows if "," not in row.setting or row.setting.endswith(which)]
    return [replace(row, setting=row.setting.split(",")[0]) for row in kept]
