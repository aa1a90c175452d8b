"""How exposed users are, as audits and screens have found: one address for each of their AUCs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.contracts import Ints, Values
from clusterscale.traits.importance import extreme_groups

if TYPE_CHECKING:
    import xarray as xr
    import zarr

__all__ = ["Exposed", "TargetAUCs", "hash_exposures", "list_exposures"]

_WHO = {"audit": "target", "screen": "user"}
_DIMS = ("period", "prior", "group_size", "mechanism", "attack")

Kind = Literal["audit", "screen"]


@dataclass(frozen=True, slots=True, eq=False)
class Exposed:
    """Users, by increasing index in the cube, and how well each is told: arrays of shape (user,).

    ``second`` tells equals apart: the mean AUC of all attacks of an audit in the same setting, or
    the gap between mean scores in a screen.
    """

    users: NDArray[np.int64]
    auc: Values
    second: Values

    def sides(self, share: float) -> tuple[Ints, Ints]:
        """Return the places of the most and of the least exposed, as :func:`extreme_groups`."""
        return extreme_groups(self.auc, share, self.second)

    def take(self, places: NDArray[np.int64]) -> Exposed:
        """Return some of them."""
        return Exposed(self.users[places], self.auc[places], self.second[places])


@dataclass(frozen=True, slots=True)
class TargetAUCs:
    """The AUCs of one attack in one setting, at rest.

    ``uri``: the store of the results; ``at``: the place of the case in it, user aside. A screen
    has no prior.
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
        """Seed path of this setting; the epochs of its period come before it."""
        return self.source, self.prior, self.group_size, self.mechanism, self.attack

    def read(self) -> Exposed:
        """Return who was told and how well.

        Whose tasks failed, who was not attacked, and whom a screen does not count because they have
        no event in the period, are left out.
        """
        group = storage.open_group(self.uri)
        auc = np.asarray(group["auc"][(slice(None), *self.at)], np.float64)
        if self.source == "screen":
            second = np.asarray(group["score_gap"][(slice(None), *self.at)], np.float64)
        else:
            second = _mean(np.asarray(group["auc"][(slice(None), *self.at[:-1])], np.float64))
        users = np.asarray(group[_WHO[self.source]][:], np.int64)
        known = np.isfinite(auc)
        if self.source == "screen" and not _counts_unseen(group):
            known &= np.asarray(group["n_events"][:, self.at[0]]) > 0
        return Exposed(users[known], auc[known], np.nan_to_num(second[known]))


def list_exposures(results: xr.Dataset, uri: str, source: Kind) -> Iterator[TargetAUCs]:
    """Yield an address for each case of an audit or a screen.

    Parameters
    ----------
    results
        Its dataset.
    uri
        Where that is stored, for those who read it elsewhere.
    source
        Which of the two it is.
    """
    dims = [dim for dim in _DIMS if dim in results.auc.dims]
    labels = [results[dim].values.tolist() for dim in dims]
    for at in product(*(range(len(each)) for each in labels)):
        names = {dim: each[i] for dim, each, i in zip(dims, labels, at, strict=True)}
        yield TargetAUCs(uri, source, **{"prior": "", **names}, at=at)


def hash_exposures(exposures: tuple[TargetAUCs, ...]) -> str:
    """Return a hash of who is exposed, and how much, in all of them."""
    total = blake2b(digest_size=16)
    for each in exposures:
        told = each.read()
        total.update(repr(each.path).encode())
        total.update(told.users.astype("<i8").tobytes())
        for numbers in (told.auc, told.second):
            total.update(numbers.astype("<f8").tobytes())
    return total.hexdigest()


def _counts_unseen(screened: zarr.Group) -> bool:
    plan = json.loads(str(screened.attrs.get("plan", "{}")))
    return bool(plan.get("unseen") == "include")


def _mean(auc: Values) -> Values:
    """Return the mean over attacks of what is known, 0 where nothing is, from (user, attack)."""
    known = np.isfinite(auc)
    return np.asarray(np.where(known, auc, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1))
