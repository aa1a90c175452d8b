"""Settings of a screen: groups, attacks, periods, group sizes and mechanisms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field, Strict

from clusterscale.analyses.certify.plan import ReleaseSettings
from clusterscale.attacks import ATTACKS
from clusterscale.attacks.closed_form import Diagonal, Projection
from clusterscale.attacks.likelihood import Likelihood
from clusterscale.contracts import (
    CellwiseAttack,
    ConfigModel,
    Count,
    Mechanism,
    TraceStep,
    distinct,
    hash_of,
)
from clusterscale.cube.blocks import Window
from clusterscale.mechanisms import group_by_trace_steps
from clusterscale.schema import Variable, read_variables

if TYPE_CHECKING:
    import xarray as xr

LEAST_GROUPS = 20
"""Minimal number of groups; with fewer, the interval of an AUC is too wide to be useful."""


SCREEN: Mapping[str, Variable] = read_variables(Path(__file__).with_name("variables.md"))
"""Variables and coordinates of the dataset of a screen."""


def is_counted(screened: xr.Dataset) -> xr.DataArray:
    """Return in which periods each user of a screen counts in its statistics.

    Users without an event in a period have nothing to expose, and count only if the plan has
    ``unseen: include``. People who are simulated to complete a population never count.

    Parameters
    ----------
    screened
        Dataset of a screen, conforming to :data:`SCREEN`.

    Returns
    -------
    xr.DataArray
        bool, (user, period).
    """
    includes = json.loads(screened.attrs["plan"]).get("unseen") == "include"
    least = 0 if includes else 1
    n_known = json.loads(screened.attrs.get("cube", "{}")).get("n_known", np.inf)
    seen = screened["n_events"].transpose("user", "period") >= least
    return seen & (screened["user"] < n_known)  # type: ignore[no-any-return]


def _cellwise(attacks: tuple[Any, ...]) -> tuple[Any, ...]:
    wrong = [attack.name for attack in attacks if not isinstance(attack, CellwiseAttack)]
    if wrong:
        raise ValueError(
            f"{', '.join(wrong)} must be trained for each target: a screen scores all users in one "
            "pass, by projection, diagonal or likelihood"
        )
    return distinct(attacks)


Attacks = Annotated[
    tuple[Annotated[CellwiseAttack, ATTACKS.entry()], ...], Strict(False), AfterValidator(_cellwise)
]


class ScreenPlan(ConfigModel):
    """Number of ``groups`` and the ``attacks`` of a screen.

    Every group gives one challenge with each user and one without, so a user's AUC is based on
    ``groups`` pairs, minus those of which the user is a member. From ``reference`` further groups
    the adversary estimates mean and variance of releases if a mechanism's noise distribution is
    not known.

    Attributes
    ----------
    groups
        Number of groups.
    reference
        Number of groups from which moments of releases are estimated.
    attacks
        Attacks in closed form.
    """

    groups: Annotated[int, Strict(), Field(ge=LEAST_GROUPS, le=10_000)] = 200
    reference: Count = 100
    attacks: Attacks = (Projection(), Diagonal(), Likelihood())


@dataclass(frozen=True, slots=True)
class ScreenSetting:
    """Period, group size and trace steps that several mechanisms share.

    ``span``: first epoch and the one after the last; ``steps``: transformations of the traces.
    """

    period: str
    span: tuple[int, int]
    group_size: int
    steps: tuple[TraceStep, ...]

    @property
    def window(self) -> Window:
        """Span of epochs and trace steps."""
        return self.span, self.steps

    @property
    def path(self) -> tuple[str | int, ...]:
        """Epochs, group size and ids of the trace steps: the seed path of this setting."""
        first, stop = self.span
        return f"{first}-{stop}", self.group_size, *(step.id for step in self.steps)


@dataclass(frozen=True, slots=True)
class Screen(ReleaseSettings):
    """One screen: every user × period × group size × mechanism × attack.

    Attributes
    ----------
    plan
        Groups and attacks.
    unseen
        Whether statistics exclude users without an event in a period; they are scored in any
        case.
    """

    plan: ScreenPlan
    unseen: Literal["exclude", "include"] = "exclude"

    def settings(self) -> Iterator[tuple[ScreenSetting, tuple[Mechanism, ...]]]:
        """Yield every setting with the mechanisms that share it."""
        for (name, span), size, (steps, mechanisms) in product(
            self.periods, self.group_sizes, group_by_trace_steps(self.mechanisms)
        ):
            yield ScreenSetting(name, span, size, steps), tuple(mechanisms)

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain values, with labels."""
        return {
            "unseen": self.unseen,
            **ReleaseSettings.describe(self),
            "groups": self.plan.groups,
            "reference": self.plan.reference,
            "attacks": [attack.label for attack in self.plan.attacks],
        }

    @property
    def digest(self) -> str:
        """Hash of the settings that affect results."""
        return hash_of(self.identity | {"unseen": self.unseen, "plan": self.plan.canonical})
