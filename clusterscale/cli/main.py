"""Commands to audit, synthesise, pack and inspect, and to check and show configs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core
import typer.main
from rich.markup import escape

from clusterscale.cli import options as shared
from clusterscale.cli.console import err, out, show_cube
from clusterscale.cli.releases import say_opendp
from clusterscale.cli.results import show_results, warn_of_float_noise
from clusterscale.cli.running import SizedOptions, add_command, run_verb, with_options
from clusterscale.phrases import typed_options
from clusterscale.redaction import clean

if TYPE_CHECKING:
    import xarray as xr


class Verbs(typer.core.TyperGroup):
    """The commands, those of the analyses of other packages included."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        from clusterscale.study import ANALYSES

        return [*super().list_commands(ctx), *ANALYSES.loaded]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, None if there is none of this name."""
        found = super().get_command(ctx, cmd_name)
        if found is None:
            from clusterscale.cli.analyses import verb_of
            from clusterscale.study import ANALYSES

            if cmd_name not in ANALYSES:
                return None
            verb = typer.Typer()
            add_command(verb, verb_of(ANALYSES[cmd_name]), cmd_name)
            found = typer.main.get_command(verb)
        return found


app = typer.Typer(
    cls=Verbs,
    help="Audit who is exposed by aggregate location time series, and what protects them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
configs = typer.Typer(help="Check, show or describe config files.", no_args_is_help=True)
app.add_typer(configs, name="config")


def _show_version(requested: bool) -> None:
    if requested:
        from clusterscale import __version__

        typer.echo(f"clusterscale {__version__}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Parse the options before a command."""
    ctx.with_resource(typed_options())


@with_options
def audit(options: SizedOptions, full: shared.Full = False) -> None:
    """Run an audit, or resume an interrupted one, and write its report.

    All users are certified first; the report compares what attacks measure with what the best
    adversary can do.

    Parameters
    ----------
    full
        Show all cases, not only the strongest.
    """
    from clusterscale import api

    plan = options.loaded.the_audit()
    say_opendp(plan.mechanisms)

    def show(results: xr.Dataset) -> None:
        show_results(results, full=full)
        if not full:
            shared.say_command("all cases and utility", "report", options.folder, "--full")

    analysis = api.audit.analysis(plan, certificates=options.loaded.certify)
    results = run_verb(analysis, options, show)
    if results is None:
        unrounded = [item.label for item in plan.mechanisms if item.publishes_float_noise]
        for line in warn_of_float_noise(", ".join(map(escape, unrounded))):
            out.print(line)
        return
    if n_failed := int((results.status == "failed").sum()):
        err.print(f"[bold red]{n_failed} cases failed[/]; see the report and the variable `error`")
        first = next(filter(None, map(str, results.error.values.ravel())), "no error is recorded")
        err.print(f"the first: {escape(clean(first))}", soft_wrap=True)
    n_all = analysis.failures(results)
    if n_all > n_failed:
        err.print("[bold red]guarantees or utility of mechanisms are missing[/]; see the report")
    if n_all:
        raise typer.Exit(1)


def synth(
    preset: str,
    cube: shared.AddressArgument,
    users: int | None = None,
    seed: int = 0,
    force: shared.Force = False,
) -> None:
    """Write a cube of synthetic users that match a published data set.

    Parameters
    ----------
    preset
        tfl, sfc, cdr or milan.
    cube
        Where to write the cube.
    users
        Number of users; by default as published.
    seed
        Root seed.
    """
    from clusterscale.cube.synthetic import synthesise

    show_cube(synthesise(preset, cube, users=users, seed=seed, force=force))


def pack(
    source: shared.AddressArgument,
    cube: shared.AddressArgument,
    timezone: str = "UTC",
    public: list[str] | None = None,
    force: shared.Force = False,
) -> None:
    """Turn a dense Zarr cube, trace(user, roi, epoch), into a cube of events.

    Parameters
    ----------
    source
        A dense Zarr cube: path or URL.
    cube
        Where to write the cube.
    timezone
        IANA name of the time zone.
    public
        places or calendar: this does not depend on any record; repeatable.
    """
    from clusterscale.cube.dense import pack

    show_cube(pack(source, cube, timezone=timezone, public=public or (), force=force))


def inspect(cube: shared.AddressArgument) -> None:
    """Show a summary of a cube; reads all of it, and so detects damage.

    Parameters
    ----------
    cube
        A cube: path or URL.
    """
    from clusterscale.cube import TraceCube

    show_cube(TraceCube(cube))


def check(config: shared.ConfigFile = None) -> None:
    """Check a config, and its fit to the cube if the cube exists."""
    from clusterscale.analyses.publish.plan import OF_A_RUN, stand_in
    from clusterscale.config import Config
    from clusterscale.storage import exists

    chosen = shared.load_either(config, mechanism=stand_in)
    if isinstance(chosen, Config):
        mechanisms = [] if chosen.audit is None else [*chosen.audit.mechanisms]
        if chosen.publish is not None:
            mechanisms.append(chosen.publish.mechanism)
            if chosen.publish.mechanism.title == OF_A_RUN:
                line = "publish.mechanism comes from a run: `publish --from RUN --mechanism TITLE`"
                out.print(line, markup=False, soft_wrap=True)
        say_opendp(mechanisms)
    source = chosen.cube
    if source is not None and source.preset is not None and not exists(source.path):
        out.print("the config is valid; the run will write its cube")
        return
    cube = None if source is None else source.open()
    if isinstance(chosen, Config) and cube is not None:
        chosen.check(cube)
        out.print("the config is valid and fits the cube")
        return
    out.print("the config is valid")
    shared.say_command("releases", "reaudit", str(config), "--list")


def show(config: shared.ConfigFile = None) -> None:
    """Show a config with every default filled in."""
    from clusterscale.models import dump_yaml

    values = shared.load_either(config).model_dump(mode="json")
    print(dump_yaml(values), end="")


def print_schema(releases: Annotated[bool, typer.Option("--releases")] = False) -> None:
    """Print the JSON schema of config files.

    Parameters
    ----------
    releases
        Schema of the config of a catalogue.
    """
    from clusterscale.config import Config, ReleasesConfig, schema

    print(schema(ReleasesConfig if releases else Config))
