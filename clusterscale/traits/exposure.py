"""How exposed users are, as audits and screens have found: one address for each of their AUCs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Values
from clusterscale.cube import storage

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Exposure", "hash_exposures", "list_exposures"]

_WHO = {"audit": "target", "screen": "user"}
_DIMS = ("period", "prior", "group_size", "mechanism", "attack")

Kind = Literal["audit", "screen"]


@dataclass(frozen=True, slots=True)
class Exposure:
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
        """What tells this one from all others."""
        setting = self.period, self.prior, self.group_size
        return self.source, *setting, self.mechanism, self.attack

    def read(self) -> tuple[NDArray[np.int64], Values]:
        """Return who was told and how well: index in the cube, increasing, and AUC, (user,).

        Those who were not attacked, or whose task failed, are left out.
        """
        group = storage.open_group(self.uri)
        auc = np.asarray(group["auc"][(slice(None), *self.at)], np.float64)
        users = np.asarray(group[_WHO[self.source]][:], np.int64)
        known = np.isfinite(auc)
        return users[known], auc[known]


def list_exposures(results: xr.Dataset, uri: str, source: Kind) -> Iterator[Exposure]:
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
        yield Exposure(uri, source, **{"prior": "", **names}, at=at)


def hash_exposures(exposures: tuple[Exposure, ...]) -> str:
    """Return a hash of who is exposed, and how much, in all of them."""
    total = blake2b(digest_size=16)
    for each in exposures:
        users, auc = each.read()
        total.update(repr(each.path).encode())
        total.update(users.astype("<i8").tobytes())
        total.update(auc.astype("<f8").tobytes())
    return total.hexdigest()
