"""Config of a catalogue: its releases, their audit, the policy, and a webhook for verdicts."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, Strict, model_validator

from clusterscale.config.run import Place, Source
from clusterscale.contracts import Address
from clusterscale.errors import InputError, MissingError
from clusterscale.reauditing import ReauditPlan, ReleaseEntry, Webhook, expand, find_releases
from clusterscale.runtime import Local

Entries = Annotated[tuple[ReleaseEntry, ...], Field(min_length=1), Strict(False)] | Address


class ReleasesConfig(ReauditPlan):
    """A catalogue of releases, and the plan to audit each of them.

    ``releases``: a list, or the path or URL of a folder or pattern. ``cube``: traces of the people
    that they count, or of some of these people; an entry of the list may set another. Without one,
    people are simulated from the published values. ``members``: the table of users whose
    membership is known, in which ``{name}`` is replaced by the name of the release; an entry may
    set another. ``output``: folder of the ledger. The other keys are those of a
    :class:`~clusterscale.reauditing.ReauditPlan`.

    Only a catalogue may set paths. Attributes of a release's own store that do (``cube``,
    ``members``) are never followed: such a release is rejected until its entry sets the same key.

    Attributes
    ----------
    cube
        Traces of all or some of the people in the releases, e.g. ``runs/cube.zarr``.
    output
        Folder of the ledger: path or URL, e.g. ``runs/releases``.
    releases
        List of releases, e.g. ``releases``; or path, URL or pattern.
    members
        Table of users whose membership is known, e.g. ``members/{name}.csv``.
    webhook
        Webhook for verdicts, e.g. ``{least: warn}``.
    cluster
        Where tasks run.
    """

    cube: Source | None = None
    output: Address
    releases: Entries | None = None
    members: Address | None = None
    webhook: Webhook | None = None
    cluster: Place = Local()

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        if isinstance(self.releases, tuple) and (duplicates := _find_duplicates(self.releases)):
            raise ValueError(f"releases: {', '.join(duplicates)} is listed twice; give names")
        return self

    @property
    def plan(self) -> ReauditPlan:
        """Plan to audit each release."""
        return ReauditPlan(**{name: getattr(self, name) for name in ReauditPlan.model_fields})

    def entries(self) -> tuple[ReleaseEntry, ...]:
        """Return the listed releases, or those that match the pattern.

        Raises
        ------
        MissingError
            If there are none.
        InputError
            If two have the same name.
        """
        if isinstance(self.releases, str):
            entries = find_releases(self.releases)
        else:
            entries = tuple(item for entry in self.releases or () for item in expand(entry))
        if self.releases and not entries:
            raise MissingError("releases: no release matches the patterns")
        if duplicates := _find_duplicates(entries):
            names = ", ".join(duplicates)
            raise InputError(f"releases: {names} is found twice; narrow the patterns")
        return tuple(entry.with_uris(self.members) for entry in entries)


def _find_duplicates(entries: Sequence[ReleaseEntry]) -> list[str]:
    """Return the names that several entries of one series share."""
    names = [(entry.series, entry.label) for entry in entries]
    return sorted({name for series, name in names if names.count((series, name)) > 1})
