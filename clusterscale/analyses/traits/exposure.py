"""References to the AUCs of users in the results of audits and screens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.analyses.audit import AuditAnalysis, AuditPlan
from clusterscale.analyses.screening import ScreenAnalysis
from clusterscale.analyses.traits.importance import extreme_groups
from clusterscale.contracts import Ints, Values
from clusterscale.cube import TraceCube
from clusterscale.errors import ExistsError, MissingError
from clusterscale.study import Analysis
from clusterscale.study.identity import has_code

if TYPE_CHECKING:
    import xarray as xr


_WHO = {"audit": "target", "screen": "user"}
_DIMS = ("period", "prior", "group_size", "mechanism", "attack")

Kind = Literal["audit", "screen"]


@dataclass(frozen=True, slots=True, eq=False)
class Exposed:
    """Users and their exposure.

    Attributes
    ----------
    users
        Indices in the cube, increasing, int64, shape (user,).
    auc
        AUCs, float64, shape (user,).
    second
        Breaks ties, float64, shape (user,): the mean AUC of all attacks of an audit in the same
        setting, or the gap between mean scores in a screen.
    """

    users: NDArray[np.int64]
    auc: Values
    second: Values

    def sides(self, share: float) -> tuple[Ints, Ints]:
        """Return the indices of the most and of the least exposed, as :func:`extreme_groups`."""
        return extreme_groups(self.auc, share, self.second)

    def take(self, places: NDArray[np.int64]) -> Exposed:
        """Return a subset of the users."""
        return Exposed(self.users[places], self.auc[places], self.second[places])


@dataclass(frozen=True, slots=True)
class TargetAUCs:
    """Reference to the stored AUCs of one attack in one setting.

    Attributes
    ----------
    uri
        Store of the results.
    source
        Whether they are of an audit or a screen.
    period, prior, group_size, mechanism, attack
        The setting, by ids; a screen has no prior.
    at
        Index of the case in the store, without the user's.
    """

    uri: str
    source: Kind
    period: str
    prior: str
    group_size: int
    mechanism: str
    attack: str
    at: tuple[int, ...]

    @property
    def path(self) -> tuple[str | int, ...]:
        """Seed path of this setting, which follows the epochs of its period."""
        return self.source, self.prior, self.group_size, self.mechanism, self.attack

    def read(self) -> Exposed:
        """Return the attacked users and their AUCs.

        Excludes users whose tasks failed, users who were not attacked, and users whom a screen does
        not count because they have no event in the period.
        """
        group = storage.open_group(self.uri)
        auc = np.asarray(group["auc"][(slice(None), *self.at)], np.float64)
        if self.source == "screen":
            second = np.asarray(group["score_gap"][(slice(None), *self.at)], np.float64)
        else:
            second = _mean(np.asarray(group["auc"][(slice(None), *self.at[:-1])], np.float64))
        users = np.asarray(group[_WHO[self.source]][:], np.int64)
        known = np.isfinite(auc)
        if self.source == "screen":
            plan = json.loads(str(group.attrs.get("plan", "{}")))
            if plan.get("unseen") != "include":
                known &= np.asarray(group["n_events"][:, self.at[0]]) > 0
        return Exposed(users[known], auc[known], np.nan_to_num(second[known]))


def list_exposures(results: xr.Dataset, uri: str, source: Kind) -> Iterator[TargetAUCs]:
    """List the cases of an audit or a screen.

    Parameters
    ----------
    results
        Dataset of the audit or the screen.
    uri
        URI of the stored dataset, for workers.
    source
        Whether it is an audit or a screen.

    Yields
    ------
    TargetAUCs
        A reference to the AUCs of each case.
    """
    dims = [dim for dim in _DIMS if dim in results.auc.dims]
    labels = [results[dim].values.tolist() for dim in dims]
    for at in product(*(range(len(values)) for values in labels)):
        names = {dim: values[i] for dim, values, i in zip(dims, labels, at, strict=True)}
        yield TargetAUCs(uri, source, **{"prior": "", **names}, at=at)


def hash_exposures(exposures: Iterable[TargetAUCs]) -> str:
    """Return a hash of exposures, which identifies what traits are computed from.

    Parameters
    ----------
    exposures
        References to stored AUCs.

    Returns
    -------
    str
        Hash of all users and AUCs, 32 hexadecimal digits.
    """
    total = blake2b(digest_size=16)
    for exposure in exposures:
        exposed = exposure.read()
        total.update(repr(exposure.path).encode())
        total.update(exposed.users.astype("<i8").tobytes())
        for numbers in (exposed.auc, exposed.second):
            total.update(numbers.astype("<f8").tobytes())
    return total.hexdigest()


def _mean(auc: Values) -> Values:
    """Return the mean of finite AUCs over attacks, 0 if there are none, from (user, attack)."""
    known = np.isfinite(auc)
    return np.asarray(np.where(known, auc, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1))


def find_exposures(plan: AuditPlan, cube: TraceCube, output: str) -> list[TargetAUCs]:
    """Return where the AUCs of every case are: first of a finished audit, then of a screen.

    Parameters
    ----------
    plan, cube
        The plan of the run, and the traces.
    output
        Folder of the run.

    Returns
    -------
    list[TargetAUCs]
        References to the stored AUCs, one for each case.

    Raises
    ------
    MissingError
        If neither has finished.
    ExistsError
        If one of them is of another plan or cube.
    """
    exposures: list[TargetAUCs] = []
    kinds: list[tuple[Kind, type[Analysis], Any, str]] = [
        ("audit", AuditAnalysis, plan, output),
        ("screen", ScreenAnalysis, plan.whole_screen, f"{output}/screen"),
    ]
    for what, kind, own, folder in kinds:
        try:
            results = kind.read(folder)
        except MissingError:
            continue
        same = results.attrs["plan_digest"] == own.digest and has_code(folder, what, own)
        other = [] if same else ["plan, or of other code"]
        other += [] if results.attrs["cube_fingerprint"] == cube.fingerprint else ["cube"]
        if other:
            raise ExistsError(
                f"{output} holds a{'n' * (what == 'audit')} {what} of another "
                f"{' and '.join(other)}: run `clusterscale {what}` with this config first, or "
                "choose another output"
            )
        exposures += list_exposures(results, f"{folder}/results.zarr", what)
    if not exposures:
        raise MissingError(
            f"{output}: neither an audit nor a screen has finished there; "
            "run `clusterscale audit` or `clusterscale screen` with this config first"
        )
    return exposures
