"""The studies of POPETS24: which adversaries meet which defences."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import xarray as xr

from clusterscale.audit import AuditPlan, run
from clusterscale.cube import TraceCube
from clusterscale.runtime import Local
from clusterscale.seeds import stream

EPSILONS = (0.1, 0.5, 1.0, 5.0, 10.0)
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
Fields = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """What is compared: the ``names`` of priors, and the ``fields`` of a plan."""

    title: str
    names: tuple[str, ...]
    fields: Fields


def laplace(epsilon: float, unit: str, sensitivity: float) -> Fields:
    """Return Laplace noise as POPETS24 publishes it: whole numbers from 0 on."""
    return {
        "name": "laplace",
        "epsilon": epsilon,
        "unit": unit,
        "sensitivity": sensitivity,
        "clip": True,
        "integers": "floor",
    }


def suppress(up_to: int) -> Fields:
    """Return the suppression of counts up to that one."""
    return {"name": "suppress_small", "up_to": up_to}


def chain(*steps: Fields) -> Fields:
    """Return several mechanisms, one after the other."""
    return {"name": "chain", "steps": list(steps)}


@dataclass(frozen=True)
class Setting:
    """What all studies of one cube share."""

    group_size: int
    reference: int
    share: float
    delta: float
    common: Fields
    refit: str

    def known(self, **fields: Any) -> Fields:
        """Return the adversary who knows ``reference`` real users."""
        prior = {"name": "known_subset", "alpha": self.share, "sampling": "paired"}
        return prior | self.common | {"validation": 100} | fields

    def zero(self, **fields: Any) -> Fields:
        """Return the one who knows none, and makes up as many."""
        prior = {"name": "zero_knowledge", "reference": self.reference, "refit": self.refit}
        return prior | self.common | fields

    def own(self, **fields: Any) -> Fields:
        """Return the one who makes up counts, by what is published of them on average."""
        return self.zero(correction="matched", crowd="counts", **fields)

    def study(
        self, title: str, priors: dict[str, Fields], mechanisms: list[Fields], **more: Any
    ) -> Study:
        """Return a study of ``cells`` and ``likelihood``."""
        fields = {
            "priors": list(priors.values()),
            "mechanisms": mechanisms,
            "group_sizes": [self.group_size],
            "attacks": [{"name": "cells"}, {"name": "likelihood"}],
        }
        return Study(title, tuple(priors), fields | more)


def defences(**setting: Any) -> Study:
    """Figs 7 and 8: raw, suppressed, noise for an event, for a day, noise then suppressed."""
    of = Setting(**setting)
    mechanisms = [{"name": "exact"}]
    mechanisms += [suppress(k) for k in range(1, 6)]
    mechanisms += [laplace(epsilon, "event", 1.0) for epsilon in EPSILONS]
    mechanisms += [laplace(epsilon, "user_day", of.delta) for epsilon in EPSILONS]
    mechanisms += [chain(laplace(epsilon, "event", 1.0), suppress(1)) for epsilon in (1.0, 10.0)]
    priors = {"known": of.known(), "zero": of.zero(), "own": of.own()}
    return of.study(f"m {of.group_size}, {of.reference} users", priors, mechanisms)


def some(**setting: Any) -> Study:
    """Figs 7 and 8, half of their defences: for cubes of which a target takes an hour."""
    whole = defences(**setting)
    every = whole.fields["mechanisms"]
    chosen = [every[i] for i in (0, 1, 2, 3, 5, 7, 8, 13, 14, 15)]
    return Study(whole.title, whole.names, whole.fields | {"mechanisms": chosen})


def pairs(**setting: Any) -> Study:
    """Fig. 10: pairs that share noise against independent groups."""
    of = Setting(**setting)
    priors = {
        f"{name} {sampling}": make(sampling=sampling)
        for name, make in (("known", of.known), ("zero", of.zero))
        for sampling in ("independent", "paired")
    }
    mechanisms = [laplace(e, "user_day", of.delta) for e in (1.0, 2.0, 3.0, 5.0, 7.0, 10.0)]
    return of.study("pairs, noise for a day of a user", priors, mechanisms)


def partial(**setting: Any) -> Study:
    """Fig. 9: a share of the target's trace."""
    of = Setting(**setting)
    priors = {
        f"{name} {share}": make(known_fraction=share)
        for share in SHARES
        for name, make in (("known", of.known), ("zero", of.zero))
    }
    mechanisms = [{"name": "exact"}, suppress(1), laplace(1.0, "event", 1.0)]
    return of.study("a share of the trace is known", priors, mechanisms)


def sizes(**setting: Any) -> Study:
    """Tables 6 to 9: members of a group."""
    of = Setting(**setting)
    mechanisms = [{"name": "exact"}, suppress(1), laplace(1.0, "event", 1.0)]
    mechanisms += [laplace(1.0, "user_day", of.delta)]
    most = of.group_size
    members = [size for size in (100, 500, 1000, 2000, 3000) if size <= most]
    priors = {"known": of.known(), "zero": of.zero()}
    return of.study("members", priors, mechanisms, group_sizes=members)


def references(**setting: Any) -> Study:
    """Fig. 12: users who are known, or made up."""
    of = Setting(**setting)
    known = {f"known {part}": of.known(alpha=of.share * part) for part in (0.6, 1.0)}
    zero = {f"zero {n}": of.zero(reference=n) for n in (1500, 2500, 5000, 10_000)}
    mechanisms = [{"name": "exact"}, suppress(1), laplace(1.0, "event", 1.0)]
    return of.study("users of the reference", known | zero, mechanisms)


def rois(**setting: Any) -> Study:
    """Tables 10 and 11: the ROIs are known, the times guessed."""
    of = Setting(**setting)
    priors = {"trace": of.zero()}
    for times in ("random", "greedy"):
        for top in (1, 2, 3, None):
            fields = {"knows": "rois", "times": times} | ({} if top is None else {"top_rois": top})
            priors[f"{times} {top or 'all'}"] = of.zero(**fields)
    return of.study("ROIs without times", priors, [{"name": "exact"}])


def choices(**setting: Any) -> Study:
    """What is not the paper's, one choice at a time."""
    of = Setting(**setting)
    priors = {
        "known": of.known(),
        "paper": of.zero(),
        "none": of.zero(correction="none"),
        "matched": of.zero(correction="matched"),
        "mixed": of.zero(correction="matched", rhythm="mixed"),
        "lognormal": of.zero(correction="matched", activity={"name": "lognormal"}),
        "counts": of.own(),
        "mixed counts": of.own(rhythm="mixed"),
    }
    mechanisms = [{"name": "exact"}, suppress(1), suppress(3), laplace(0.5, "event", 1.0)]
    mechanisms += [laplace(5.0, "user_day", of.delta)]
    return of.study("choices", priors, mechanisms)


STUDIES: MappingProxyType[str, Callable[..., Study]] = MappingProxyType(
    {
        each.__name__: each
        for each in (defences, some, pairs, partial, sizes, references, rois, choices)
    }
)


def choose(cube: TraceCube, n: int, min_events: int, seed: int) -> list[str]:
    """Return the pseudonyms of so many users with so many events."""
    active = np.flatnonzero(np.diff(cube.offsets) >= min_events)
    chosen = stream(seed, "active").choice(active, min(n, len(active)), replace=False)
    return [str(name) for name in cube.pseudonyms(np.sort(chosen))]


def attack(
    cube: TraceCube, study: Study, fields: dict[str, Any], workers: int, output: str | None = None
) -> xr.Dataset:
    """Run an audit of the study, or go on with that in ``output``."""
    plan = AuditPlan(**fields | {"null_roi": False, "control": False}, **study.fields)
    with tempfile.TemporaryDirectory() as folder, Local(workers=workers).open() as executor:
        return run(plan, cube, output or folder, executor, memory=8_000_000_000).load()
