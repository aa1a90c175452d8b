"""A catalogue of releases: which there are, what is asked of each, what is allowed, who is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, Strict, model_validator

from clusterscale.config.run import Place, Source
from clusterscale.contracts import Address, Component, Level
from clusterscale.reaudit import ReauditPlan, ReleaseEntry, find_releases
from clusterscale.runtime import Local

__all__ = ["ReleasesConfig", "Webhook"]

if TYPE_CHECKING:
    Entries = tuple[ReleaseEntry, ...] | str
else:
    Entries = Annotated[tuple[ReleaseEntry, ...], Field(min_length=1), Strict(False)] | Address


class Webhook(Component):
    """Where new verdicts are posted as JSON: names of releases, verdicts and reasons, no people.

    The address is read from the environment variable ``variable``, for it is often a secret.
    ``least``: only verdicts that are at least as bad.
    """

    variable: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "CLUSTERSCALE_WEBHOOK"
    least: Level = "warn"


class ReleasesConfig(ReauditPlan):
    """A catalogue, and what becomes of each release in it.

    ``releases``: a list, or a folder or pattern, a path or URL, where they are found. ``cube``: of
    whom they are made, where they do not say another. ``output``: where the ledger is kept. The
    other keys are those of a :class:`~clusterscale.reaudit.ReauditPlan`.
    """

    cube: Source
    output: Address
    releases: Entries | None = None
    webhook: Webhook | None = None
    cluster: Place = Local()

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        if isinstance(self.releases, tuple):
            names = [(entry.series, entry.label) for entry in self.releases]
            twice = sorted({name for _, name in names if names.count((_, name)) > 1})
            if twice:
                raise ValueError(f"releases: {', '.join(twice)} stands there twice; give names")
        return self

    @property
    def plan(self) -> ReauditPlan:
        """What is asked of each release."""
        return ReauditPlan(**{name: getattr(self, name) for name in ReauditPlan.model_fields})

    def entries(self) -> tuple[ReleaseEntry, ...]:
        """Return the releases, found where they are not listed.

        Raises
        ------
        MissingError
            If there are none.
        """
        if isinstance(self.releases, str):
            return find_releases(self.releases)
        return self.releases or ()
