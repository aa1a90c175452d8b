"""Verdicts on exposure for each release that an audit attacked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any, Literal, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from clusterscale import metrics
from clusterscale.metrics import EXPOSED_AUC, mean_interval
from clusterscale.redaction import without_controls
from clusterscale.schema import RAW_COUNTS, find_mechanism
from clusterscale.utility import emptiness
from clusterscale.validation_messages import find_ties

ExposureVerdict = Literal["exposed", "partly exposed", "inconclusive", "not seen to be exposed"]

EXPOSURES: tuple[ExposureVerdict, ...] = get_args(ExposureVerdict)
"""The verdicts, worst first."""

_CHANCE = 0.5
_EXCEEDS = "but an adversary who knows all others exceeds any limit: of exact counts the AUC is 1"
_DIMS = ("period", "prior", "group_size", "mechanism", "attack", "target")

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, repr=False)
class Finding:
    """Exposure in one release: a period, prior, group size and mechanism.

    Attributes
    ----------
    period, prior, group_size, mechanism
        Labels of the release.
    attacks
        The strongest attack by mean AUC; several if their means agree to three digits. For raw
        counts, an attack may name a mechanism that the adversary applies to them first.
    n_targets, n_done
        Targets that were attacked, and those with a result.
    mean, low, high
        Mean AUC of the strongest attack, and its 95 % interval; NaN without a result.
    n_above
        Targets whose AUC is above .75 by any attack.
    n_certain
        Those of them whose true AUC is above .75 with 95 % confidence, jointly over all cases of
        the audit (Holm).
    exposure
        The verdict.
    reason
        The reason for the verdict, as a clause.
    median
        Median AUC of the strongest attack; NaN without a result.
    """

    period: str
    prior: str
    group_size: int
    mechanism: str
    attacks: tuple[str, ...]
    n_targets: int
    n_done: int
    mean: float
    low: float
    high: float
    n_above: int
    n_certain: int
    exposure: ExposureVerdict
    reason: str
    median: float = nan

    def __repr__(self) -> str:
        release = f"{self.mechanism}, groups of {self.group_size:,}, {self.period}, {self.prior}"
        return without_controls(f"Finding({self.exposure}: {release}; {self.reason})")


def find_exposures(results: xr.Dataset) -> list[Finding]:
    """Return a verdict on each release of an audit, in the order of the results.

    ``exposed``: the mean AUC of the strongest attack is above .75 and its interval above .5, or
    most targets are certainly above .75. ``partly exposed``: the interval of the mean is above .5,
    or at least one target is certainly above .75. ``not seen to be exposed``: the whole interval
    is below .75, no target's AUC is above .75, most targets have an interval below .75, all
    finished, and the controls pass. Else ``inconclusive``.

    An adversary with raw counts can apply any mechanism to them, so the verdict on raw counts also
    uses the attacks on every other mechanism with the same period, prior and group size. If it is
    inconclusive, the reason says who recognises anybody: that is proven, but not of the adversary
    of the audit, who knows less.

    Parameters
    ----------
    results
        Dataset of an audit, conforming to :data:`clusterscale.schema.RESULTS`.
    """
    ordered = results.transpose(..., *_DIMS, missing_dims="ignore")
    listed, raw_counts = _list_candidates(ordered), find_mechanism(results, RAW_COUNTS)
    labels = [ordered[dim].values.tolist() for dim in _DIMS[:4]]
    findings: list[Finding] = []
    for at in np.ndindex(*(len(values) for values in labels[:3])):
        names = [values[i] for values, i in zip(labels, at, strict=False)]
        by_mechanism = {}
        for mechanism, name in enumerate(labels[3]):
            if candidates := listed.get((*at, mechanism)):
                by_mechanism[name] = _judge([*names, name], candidates)
        if raw_counts in by_mechanism:
            every = [one for i in range(len(labels[3])) for one in listed.get((*at, i), ())]
            raw = _judge([*names, raw_counts], every)
            raw = by_mechanism[raw_counts] = _as_bad_as(raw, by_mechanism.values())
            if raw.exposure == "inconclusive":
                by_mechanism[raw_counts] = replace(raw, reason=f"{raw.reason}; {_EXCEEDS}")
        findings += by_mechanism.values()
    return findings


def _as_bad_as(raw: Finding, others: Iterable[Finding]) -> Finding:
    """Return the finding of raw counts with the worst verdict of all.

    The attack with the highest mean need not have the highest low end of its interval.
    """
    worst = min(others, key=lambda finding: EXPOSURES.index(finding.exposure))
    if EXPOSURES.index(raw.exposure) <= EXPOSURES.index(worst.exposure):
        return raw
    after = f", after applying {worst.mechanism}" if worst.mechanism != raw.mechanism else ""
    return replace(raw, exposure=worst.exposure, reason=worst.reason + after)


def find_emptiness(results: xr.Dataset, mechanism: str) -> str:
    """Return how empty the emptiest release of a mechanism is, over periods and group sizes.

    Parameters
    ----------
    results
        Dataset of an audit, conforming to :data:`clusterscale.schema.RESULTS`.
    mechanism
        Label of the mechanism.

    Returns
    -------
    str
        ``empty``, ``nearly empty``, ``""``, or ``unknown`` if it is not known of some release.
    """
    shares = results["released_share"].sel(mechanism=mechanism).values
    least = float(np.min(shares, initial=np.inf, where=np.isfinite(shares)))
    return emptiness(least) or ("" if np.isfinite(shares).all() else "unknown")


def worst_findings(findings: Sequence[Finding]) -> dict[str, Finding]:
    """Return the worst finding of each mechanism, by verdict and then by mean AUC."""
    worst: dict[str, Finding] = {}
    for finding in findings:
        known = worst.setdefault(finding.mechanism, finding)
        if _badness(finding) > _badness(known):
            worst[finding.mechanism] = finding
    return worst


def worst_finding(findings: Sequence[Finding]) -> Finding | None:
    """Return the worst finding, by verdict and then by mean AUC; None if there are none."""
    return max(findings, key=_badness, default=None)


def _badness(finding: Finding) -> tuple[int, float]:
    return -EXPOSURES.index(finding.exposure), np.nan_to_num(finding.mean, nan=-1.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """An attack on the values published by a mechanism; arrays have shape (target,)."""

    attack: str
    mechanism: str
    planned: Flags
    auc: Floats
    high: Floats
    certain: Flags
    doubt: str

    @property
    def mean(self) -> float:
        """Mean AUC of the finished targets, −inf if there are none."""
        known = self.auc[np.isfinite(self.auc)]
        return float(known.mean()) if known.size else -np.inf


def find_promises(stated: Any) -> tuple[Any, Any]:
    """Return where a guarantee is made, and where its noise is for less than one unit changes.

    ``stated`` has the variables of guarantees, as a dataset of results or as a table.
    """
    made = ~stated["guarantee_unit"].isin(["none", ""]) & np.isfinite(stated["guarantee_epsilon"])
    return made, made & (stated["sensitivity"] < stated["sensitivity_needed"] * (1 - 1e-9))


def _list_candidates(ordered: xr.Dataset) -> dict[tuple[int, ...], list[_Candidate]]:
    """Return the attacks that were run on each release, by its indices on :data:`_DIMS`."""
    names = ("auc", "auc_low", "auc_high", "auc_degrees", "control_auc", "absent_auc", "naive_auc")
    status = ordered["status"].transpose(*_DIMS).values.astype(object)
    planned = np.isin(status, ("done", "failed"))
    auc, low, high, degrees, shuffled, absent, naive = (
        np.where(status == "done", ordered[name].transpose(*_DIMS).values, np.nan) for name in names
    )
    certain = metrics.reject_holm(metrics.auc_p_values(auc, low, high, degrees=degrees))
    off, weak = np.logical_or(*metrics.off_cells(shuffled, absent)), metrics.weak_cells(auc, naive)
    found = dict[tuple[int, ...], list[_Candidate]]()
    for cell in map(tuple, np.argwhere(planned.any(axis=-1)).tolist()):
        *release, attack = cell
        name = str(ordered["attack"].values[attack])
        doubt = "a control is not at chance" if off[cell] else ""
        if not doubt and weak[cell]:
            doubt = f"{name} does no better than the sum of all published values"
        if np.isnan(degrees[cell][np.isfinite(auc[cell])]).any():
            doubt = "its intervals leave out the variance of training: run the audit again"
        mechanism = str(ordered["mechanism"].values[release[-1]])
        arrays = planned[cell], auc[cell], high[cell], certain[cell]
        found.setdefault(tuple(release), []).append(_Candidate(name, mechanism, *arrays, doubt))
    return found


def _judge(names: Sequence[object], candidates: Sequence[_Candidate]) -> Finding:
    """Return the finding of a release from the attacks that an adversary may run on it."""
    best = max(candidates, key=lambda candidate: candidate.mean)
    known = best.auc[np.isfinite(best.auc)]
    low, high = mean_interval(known)
    mean = best.mean if known.size else float("nan")
    planned = np.logical_or.reduce([one.planned for one in candidates])
    above = np.logical_or.reduce([one.auc > EXPOSED_AUC for one in candidates])
    certain = np.logical_or.reduce([one.certain for one in candidates])
    n_certain, n_done = int(certain.sum()), int(known.size)
    unresolved = int((best.high[np.isfinite(best.auc)] > EXPOSED_AUC).sum())
    n_failed = sum(
        int((one.planned & ~np.isfinite(one.auc)).sum())
        for one in candidates
        if one.mechanism == names[3]
    )
    doubts = [
        (n_done == 0, "no target has a result"),
        (n_failed > 0, f"{n_failed} {'case' if n_failed == 1 else 'cases'} failed"),
        (high > EXPOSED_AUC, f"the interval of the mean reaches {high:.2f}"),
        (above.any(), f"{_share(int(above.sum()), n_done)} above {EXPOSED_AUC:g}, none certainly"),
        (
            unresolved > n_done / 2,
            f"{unresolved} of {n_done} targets may be above {EXPOSED_AUC:g}: too few challenges",
        ),
        (bool(best.doubt), best.doubt),
    ]
    exposure: ExposureVerdict
    if mean > EXPOSED_AUC and low > _CHANCE:
        exposure, reason = "exposed", f"the mean AUC is {mean:.3f}, above {EXPOSED_AUC:g}"
    elif n_certain > n_done / 2:
        exposure = "exposed"
        reason = f"{_share(n_certain, n_done)} certainly above {EXPOSED_AUC:g}"
    elif low > _CHANCE:
        exposure, reason = "partly exposed", "the interval of the mean AUC is above 0.5"
    elif n_certain:
        exposure = "partly exposed"
        reason = f"{_share(n_certain, n_done)} certainly above {EXPOSED_AUC:g}"
    elif reasons := [text for applies, text in doubts if applies]:
        exposure, reason = "inconclusive", reasons[0]
    else:
        exposure = "not seen to be exposed"
        reason = f"the mean AUC is below {EXPOSED_AUC:g} with 95 % confidence, no target above it"
    period, prior, size, mechanism = names
    return Finding(
        period=str(period),
        prior=str(prior),
        group_size=int(str(size)),
        mechanism=str(mechanism),
        attacks=tuple(_ties(candidates, str(mechanism))),
        n_targets=int(planned.sum()),
        n_done=n_done,
        mean=mean,
        low=low,
        high=high,
        n_above=int(above.sum()),
        n_certain=n_certain,
        exposure=exposure,
        reason=reason,
        median=float(np.median(known)) if known.size else nan,
    )


def _ties(candidates: Sequence[_Candidate], own: str) -> list[str]:
    """Return the attacks with the best mean AUC, those on the mechanism's own values first."""
    tied = [candidates[i] for i in find_ties([candidate.mean for candidate in candidates])]
    here = [candidate.attack for candidate in tied if candidate.mechanism == own]
    elsewhere = [
        f"{candidate.attack} after applying {candidate.mechanism}"
        for candidate in tied
        if candidate.mechanism != own and candidate.attack not in here
    ]
    return here + elsewhere


def _share(number: int, total: int) -> str:
    return f"{number} of {total} targets {'is' if number == 1 else 'are'}"
