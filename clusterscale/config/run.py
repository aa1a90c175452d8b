"""Config of a run: cube, analyses, cluster and output."""

from typing import Annotated, Any, Self, TypeVar

from pydantic import BeforeValidator, Strict, model_validator

from clusterscale.analyses.advise import AdvicePlan
from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.certify import CertifyPlan
from clusterscale.analyses.publish import PublishAnalysis, PublishPlan
from clusterscale.analyses.recovery import RecoveryPlan
from clusterscale.analyses.traits import TraitsPlan
from clusterscale.contracts import Address, ConfigModel, Count, OptionalUnique
from clusterscale.cube import TraceCube
from clusterscale.cube.synthetic import PRESETS, open_or_synthesise
from clusterscale.errors import ConfigError, ExistsError
from clusterscale.html_tables import list_facts
from clusterscale.reauditing import complete_cube
from clusterscale.runtime import CLUSTERS, Cluster, Local
from clusterscale.storage import check_outputs
from clusterscale.study import ANALYSES, AnalysisPlan
from clusterscale.validation_messages import choices


class CubeSource(ConfigModel):
    """Source of the traces; a plain string is a path.

    ``path``: a cube on disk or at any fsspec URL. With a ``preset``, synthetic ``users`` are
    written there first, unless the same ones already exist. With ``known``, the users of that cube
    are, and others up to the number of ``users``, who are simulated from its counts: groups of
    everyone, or of nearly everyone, need such others. Targets are known people.

    Attributes
    ----------
    path
        Path or URL of the cube, e.g. ``runs/cube.zarr``.
    preset
        Synthetic preset that is written there: tfl, sfc, cdr or milan, e.g. ``tfl``.
    known
        Cube of the people who are completed by simulated ones, e.g. ``mine.zarr``.
    users
        Number of synthetic users, e.g. ``2000``, or of known and simulated ones; None: as
        published.
    seed
        Root seed of the synthetic users.
    """

    path: Address
    preset: str | None = None
    known: Address | None = None
    users: Count | None = None
    seed: Annotated[int, Strict()] = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.preset is not None and self.known is not None:
            raise ValueError("give preset or known, not both")
        if self.known is not None and self.users is None:
            raise ValueError("known needs users: the number of known and simulated people")
        if self.preset is None and self.known is None and (self.users is not None or self.seed):
            raise ValueError("users and seed are of simulated people: state preset or known, too")
        if self.preset is not None and self.preset not in PRESETS:
            raise ValueError(
                f"preset {self.preset!r} is not known: {choices(self.preset, sorted(PRESETS))}"
            )
        return self

    def open(self) -> TraceCube:
        """Open the cube; write it first if it is a preset or completed, and does not exist.

        Raises
        ------
        MissingError, FormatError, DamagedError
            If there is no cube at the path, or it cannot be used.
        ExistsError
            If another cube exists at the path of the preset.
        """
        if self.known is not None or self.preset is not None:
            check_outputs([self.path], [self.known])
        try:
            if self.known is not None and self.users is not None:
                return complete_cube(TraceCube(self.known), self.path, self.users, seed=self.seed)
            if self.preset is None:
                return TraceCube(self.path)
            return open_or_synthesise(self.preset, self.path, users=self.users, seed=self.seed)
        except ExistsError as error:
            raise ExistsError(f"cube.path: {error}") from None


def _from_text(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


Source = Annotated[
    CubeSource, BeforeValidator(_from_text, json_schema_input_type=Address | CubeSource)
]
Place = Annotated[Cluster, CLUSTERS.entry()]
P = TypeVar("P", bound=ConfigModel)
Others = Annotated[tuple[Annotated[AnalysisPlan, ANALYSES.entry()], ...], *OptionalUnique]


def _stated(plan: P | None, missing: str) -> P:
    """Return a plan that is not None."""
    if plan is None:
        raise ConfigError(missing)
    return plan


class Config(ConfigModel):
    """Config of a run: cube, analyses, cluster and output.

    ``audit`` infers membership, ``recovery`` infers locations, ``publish`` makes a release,
    ``analyses`` are those of other packages; set at least one. ``traits`` sets how `clusterscale
    traits` compares exposed users of an audit, ``certify`` what `clusterscale certify` states of
    its mechanisms, and ``advise`` what `clusterscale advise` looks for.

    Attributes
    ----------
    cube
        The traces, e.g. ``runs/cube.zarr``.
    output
        Folder of the run: path or URL, e.g. ``runs/first-week``.
    audit
        Membership audit, e.g. ``{targets: {random: 9}, group_sizes: [50], priors: [{name:
        perfect}], attacks: [{name: projection}], mechanisms: [{name: exact}]}``.
    recovery
        Recovery of locations, e.g. ``{observed: 336}``.
    publish
        The release to make, e.g. ``{mechanism: {name: laplace, epsilon: 1.0, unit: event, discrete:
        true}, period: {name: week-01}, series: stations, budget: {unit: event, epsilon: 4.0},
        releases: runs/releases}``.
    traits
        How exposed users are compared.
    certify
        What is stated of the best adversary against each user.
    advise
        What is wanted of a release and what it may expose, e.g. ``{limits: {screened: {loss: 0.5,
        share: 0.05}}}``; its candidates are attacked as ``audit`` says.
    analyses
        Analyses of other packages, which `clusterscale analyse` runs, e.g. ``[{name: alone}]``.
    cluster
        Where tasks run.
    """

    cube: Source
    output: Address
    audit: AuditPlan | None = None
    recovery: RecoveryPlan | None = None
    publish: PublishPlan | None = None
    traits: TraitsPlan = TraitsPlan()
    certify: CertifyPlan = CertifyPlan()
    advise: AdvicePlan = AdvicePlan()
    analyses: Others = ()
    cluster: Place = Local()

    @model_validator(mode="after")
    def _has_analysis(self) -> Self:
        if not self.analyses and all(
            plan is None for plan in (self.audit, self.recovery, self.publish)
        ):
            raise ValueError("set audit, recovery, publish or several of them")
        return self

    def __repr__(self) -> str:
        plans = [str(plan) for plan in (self.audit, self.recovery) if plan is not None]
        plans += [plan.label for plan in self.analyses]
        return f"Config({self.cube.path!r} → {self.output!r} on {self.cluster.label}: {plans})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        suffix = f", synthetic {self.cube.preset}" if self.cube.preset else ""
        run = {
            "cube": f"{self.cube.path}{suffix}",
            "output": self.output,
            "cluster": self.cluster.label,
            **({"analyses": [plan.label for plan in self.analyses]} if self.analyses else {}),
        }
        plans = (plan._repr_html_() for plan in (self.audit, self.recovery) if plan is not None)
        return "".join([list_facts("Run", run), *plans])

    def the_audit(self) -> AuditPlan:
        """Return the plan of the audit.

        Raises
        ------
        ConfigError
            If there is none.
        """
        return _stated(self.audit, "audit: missing; this config has only other analyses")

    def the_recovery(self) -> RecoveryPlan:
        """Return the plan of the recovery.

        Raises
        ------
        ConfigError
            If there is none.
        """
        example = "set the number of observed epochs, e.g. recovery: {observed: 336}"
        return _stated(self.recovery, f"recovery: missing; {example}")

    def the_publication(self) -> PublishPlan:
        """Return the plan of the release.

        Raises
        ------
        ConfigError
            If there is none.
        """
        keys = "mechanism, period, series, budget and releases"
        return _stated(self.publish, f"publish: missing; set {keys}")

    def check(self, cube: TraceCube) -> None:
        """Raise :class:`ConfigError`, naming the keys, if ``cube`` does not support the plans."""
        for plan in (self.audit, self.recovery):
            if plan is not None:
                plan.check(cube)
        if self.publish is not None:
            PublishAnalysis(self.publish).check_cube(cube)
