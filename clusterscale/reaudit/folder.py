"""The folder of one audited release: results, and what was found beside them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterscale import storage
from clusterscale.audit import open_results
from clusterscale.audit.release_scoring import VALUES
from clusterscale.consistency import CheckResult
from clusterscale.contracts import Bounds, Ints
from clusterscale.reaudit.json_safe import json_safe
from clusterscale.reaudit.known_counts import INSIDE
from clusterscale.reaudit.release_metrics import IntervalEstimate
from clusterscale.reaudit.resolved_release import Content, ResolvedRelease
from clusterscale.reaudit.values import PublishedTotals
from clusterscale.schema import with_labels
from clusterscale.screening import open_screen
from clusterscale.storage.atomic import staged

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ReleaseRecord", "ReleaseStore"]

_ROWS = "release/tables.zarr"
_FACTS = "release/facts.json"


@dataclass(frozen=True, slots=True)
class ReleaseRecord:
    """What was found of a release beside its audit.

    ``listed`` is what was audited, of the cube with the fingerprint ``cube``. ``n_failed`` tasks of
    any kind failed; ``published`` is the AUC over known users of the attack on the values
    themselves, by the ``attack`` that is strongest there; ``findings`` are of checks on this table
    alone, and ``bounds`` what one unit of data changes.
    """

    listed: ResolvedRelease
    cube: str
    n_failed: int
    published: IntervalEstimate
    attack: str
    findings: tuple[CheckResult, ...]
    bounds: Bounds


class ReleaseStore:
    """The folder of one audited release, written in parts, each whole or not at all."""

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")

    @property
    def tables(self) -> str:
        """Zarr group with the values as published, and the rows of known members."""
        return f"{self.uri}/{_ROWS}"

    def facts(self) -> ReleaseRecord | None:
        """Return what was found, None while that is not all there."""
        try:
            told = json.loads(storage.read(f"{self.uri}/{_FACTS}"))
        except FileNotFoundError:
            return None
        return ReleaseRecord(
            listed=ResolvedRelease.model_validate(told["listed"], strict=False),
            cube=told["cube"],
            n_failed=told["n_failed"],
            published=IntervalEstimate(
                **{key: _number(each) for key, each in told["published"].items()}
            ),
            attack=told["attack"],
            findings=tuple(_finding(each) for each in told["findings"]),
            bounds=Bounds(**told["bounds"]),
        )

    def keep(self, facts: ReleaseRecord) -> None:
        """Write what was found; it is all there then."""
        told = asdict(facts) | {"listed": facts.listed.model_dump(mode="json")}
        text = json.dumps(json_safe(told), indent=1, sort_keys=True)
        storage.put(f"{self.uri}/{_FACTS}", text.encode())

    def content(self) -> Content:
        """Return what was published."""
        group = storage.open_group(self.tables)
        found = {name: np.asarray(group[name][:]) for name in group.array_keys()}
        totals = PublishedTotals(found.get("roi_total"), found.get("epoch_total"))
        return Content(found[VALUES], totals)

    def lay(self, content: Content, inside: Ints) -> None:
        """Write what workers read and later releases are compared with, unless it is there."""
        if storage.exists(f"{self.tables}/zarr.json"):
            return
        arrays = {VALUES: content.values, INSIDE: np.asarray(inside, np.int64)}
        totals = {"roi_total": content.totals.roi, "epoch_total": content.totals.epoch}
        arrays |= {name: each for name, each in totals.items() if each is not None}
        with staged(self.tables, force=True) as place:
            group = storage.create_group(place)
            for name, array in arrays.items():
                kept = group.create_array(name, shape=array.shape, dtype=array.dtype)
                if array.size:
                    kept[:] = array

    def results(self) -> xr.Dataset:
        """Open the results of the audit, by labels."""
        return with_labels(open_results(self.uri))

    def screen(self) -> xr.Dataset | None:
        """Open the screen, by labels; None where there is none."""
        place = f"{self.uri}/screen"
        if not storage.exists(f"{place}/results.zarr"):
            return None
        return with_labels(open_screen(place))


def _finding(told: dict[str, Any]) -> CheckResult:
    numbers = {key: _number(told[key]) for key in ("measured", "expected")}
    return CheckResult(**{**told, **numbers})


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)
