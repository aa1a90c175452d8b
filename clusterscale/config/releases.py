"""A catalogue of releases: which there are, what is asked of each, what is allowed, who is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, Strict, model_validator

from clusterscale.config.run import Place, Source
from clusterscale.contracts import Address, ConfigModel, Level
from clusterscale.errors import InputError, MissingError
from clusterscale.reaudit import ReauditPlan, ReleaseEntry, expand, find_releases
from clusterscale.runtime import Local

__all__ = ["ReleasesConfig", "Webhook"]

if TYPE_CHECKING:
    Entries = tuple[ReleaseEntry, ...] | str
else:
    Entries = Annotated[tuple[ReleaseEntry, ...], Field(min_length=1), Strict(False)] | Address


class Webhook(ConfigModel):
    """Where new verdicts are posted as JSON: names of releases, verdicts and reasons, no people.

    The address is read from the environment variable ``variable``, for it is often a secret.
    ``least``: only verdicts that are at least as bad.
    """

    variable: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "CLUSTERSCALE_WEBHOOK"
    least: Level = "warn"


class ReleasesConfig(ReauditPlan):
    """A catalogue, and what becomes of each release in it.

    ``releases``: a list, or a folder or pattern, a path or URL, where they are found. ``cube``: the
    cube that they were made from; an entry of the list may give another. ``members``: the table of
    users whose membership is known, ``{name}`` standing for the name of the release; an entry may
    give another. ``output``: where the ledger is kept. The other keys are those of a
    :class:`~clusterscale.reaudit.ReauditPlan`.

    Only a catalogue says where things are. Attributes of a release's own store that do (``cube``,
    ``members``) are never followed: such a release is refused until its entry gives the same key.
    """

    cube: Source
    output: Address
    releases: Entries | None = None
    members: Address | None = None
    webhook: Webhook | None = None
    cluster: Place = Local()

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        if isinstance(self.releases, tuple) and (twice := _find_twice(self.releases)):
            raise ValueError(f"releases: {', '.join(twice)} is listed twice; give names")
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
        InputError
            If two have the same name.
        """
        if isinstance(self.releases, str):
            found = find_releases(self.releases)
        else:
            found = tuple(each for entry in self.releases or () for each in expand(entry))
        if self.releases and not found:
            raise MissingError("releases: no release has a name that fits the patterns")
        if twice := _find_twice(found):
            raise InputError(f"releases: {', '.join(twice)} is found twice; narrow the patterns")
        return tuple(entry.placed(self.members) for entry in found)


def _find_twice(entries: Sequence[ReleaseEntry]) -> list[str]:
    """Return the names that several entries of one series have."""
    names = [(entry.series, entry.label) for entry in entries]
    return sorted({name for series, name in names if names.count((series, name)) > 1})
