"""The ``init`` command: write a commented config from a few answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from clusterscale.cli.console import out
from clusterscale.cli.init_table import write_format
from clusterscale.cli.options import Force, option, say_command
from clusterscale.cube import TraceCube
from clusterscale.errors import ConfigError, ExistsError, InputError
from clusterscale.validation_messages import choices

_WEEK = 7 * 24 * 3600  # seconds
_SIZES = (20, 100, 300, 1000)
_EVERYONE = "everyone"

_KNOWS = {  # name: meaning, prior, its settings
    "users": (
        "the traces of half of the users, and of the target",
        "known_subset",
        "alpha: 0.5, training: 200, challenges: 100",
    ),
    "past": (
        "who was in past releases of the same group, and the target's past",
        "same_groups",
        "beta: 150",
    ),
    "release": (
        "only the release and the target's own trace",
        "zero_knowledge",
        "reference: 2500, refit: shared",
    ),
}
_PUBLISHES = {
    "counts": ("counts as they are", "{name: exact}"),
    "hidden": ("counts below 10 are published as 0", "{name: suppress_small, below: 10}"),
    "noise": (
        "whole-number Laplace noise that protects one event",
        "{name: laplace, epsilon: 1.0, unit: event, discrete: true}",
    ),
    "capped": (
        "noise that protects a day of one user, of which ten events count",
        "{name: chain, steps: [{name: cap_contributions, per_day: 10}, "
        "{name: laplace, epsilon: 1.0, unit: user_day, discrete: true}]}",
    ),
}
_TEMPLATE = """\
# yaml-language-server: $schema={schema}
# Who can be recognised in published counts of this cube? Run it with
#   clusterscale audit {path}
# `clusterscale config show {path}` prints every setting that is left at its default.

cube:{cube}{others}

output: {output}

audit:
  seed: 1
  null_roi: false        # true counts "nowhere" as a place, as two of the papers do
  periods:               # the released epochs
    - {period}
  targets:
    tertiles: 3          # three of the most, the middle and the least mobile third each
  priors:                # what the adversary knows: {knows}
    - {prior}
  group_sizes: {sizes}{about_size}
  mechanisms:            # what is published; each is attacked, and raw counts for comparison
{mechanisms}
  attacks:
{attacks}
  control: true          # shuffled labels too: these attacks must fail

cluster:
  name: local            # worker processes on this machine; slurm, kubernetes, … elsewhere
"""


_OTHERS = """
  path: {path}
  known: {known}
  users: {n_people}       # groups need others than the {n_known:,} known ones: simulated"""


@dataclass(frozen=True)
class _Answers:
    cube: str
    knows: str
    publishes: tuple[str, ...]
    size: str

    def group_size(self, cube: TraceCube) -> int | None:
        """Return how many people are counted; None if that is not said."""
        if self.size == _EVERYONE:
            return cube.n_users
        if self.size and not (self.size.isdecimal() and int(self.size) >= 2):
            raise InputError(
                f"--size {self.size!r}: give a number of people, 2 or more, or {_EVERYONE}"
            )
        return int(self.size) if self.size else None


def init(
    config: Annotated[
        Path | None,
        typer.Argument(help="YAML file to write, by default audit.yaml, or columns.yaml."),
    ] = None,
    table: Annotated[
        str | None, option("Write the format that reads this published table, instead.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(help="A setting of the format, e.g. timezone=Europe/London; repeatable."),
    ] = None,
    cube: Annotated[str | None, option("The cube to audit: path or URL.")] = None,
    knows: Annotated[
        str | None, typer.Option(help="What the adversary knows: users, past or release.")
    ] = None,
    publishes: Annotated[
        str | None,
        typer.Option(help="What is published: counts, hidden, noise, capped; separated by commas."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="How many people are counted, or `everyone`; by default several sizes."),
    ] = None,
    force: Force = False,
) -> None:
    """Write a commented config for your cube from a few answers, and check that it fits.

    With --table, write the format of a published table, and show ten cells as they are read. Asks
    for what the options do not say, if the terminal can answer.
    """
    if table is not None:
        write_format(config or Path("columns.yaml"), table, setting or [], force=force)
        return
    if setting:
        raise InputError("`--setting` needs `--table`: it is of the format of a table")
    config = config or Path("audit.yaml")
    from clusterscale.config import Config, parse, schema

    schema_file = config.with_suffix(".schema.json")
    for file in (config, schema_file):
        if file.exists() and not force:
            raise ExistsError(f"{file} exists: name another file, or overwrite it with `--force`")
    answers = _ask(cube, knows, publishes, size)
    opened = TraceCube(answers.cube)
    n_counted = answers.group_size(opened)
    text = _fill(answers, opened, config, n_counted)
    try:
        plan = parse(text, where=str(config)).the_audit()
        if n_counted and _n_people(answers, n_counted) > opened.n_users:  # others are simulated
            plan = plan.model_copy(update={"priors": ()})
        plan.check(opened)
    except ConfigError as error:
        raise InputError(
            f"no config was written, since it would not fit the cube: {error}"
        ) from None
    config.parent.mkdir(parents=True, exist_ok=True)
    schema_file.write_text(schema(Config), encoding="utf-8")
    config.write_text(text, encoding="utf-8")
    out.print(f"wrote {config}, and {schema_file.name} for editors", markup=False)
    say_command("time and memory", "audit", str(config), "--explain")
    say_command("run", "audit", str(config))
    if n_counted:
        run = str(_folder(config))
        say_command("verdict", "gate", run, "--group-size", str(n_counted))


def _ask(cube: str | None, knows: str | None, publishes: str | None, size: str | None) -> _Answers:
    """Return the answers that options give; ask for others in a terminal."""
    asked = sys.stdin.isatty()
    if cube is None and asked:
        cube = typer.prompt("Cube to audit (path or URL)")
    if cube is None:
        raise InputError("name the cube to audit: `--cube CUBE`")
    if knows is None:
        knows = _choose("What does the adversary know?", _KNOWS, "users")
    if publishes is None:
        question = "What is published? (several, separated by commas)"
        publishes = _choose(question, _PUBLISHES, "counts,hidden,noise")
    if size is None:
        question = f"How many people are counted? (a number, or {_EVERYONE} in the cube)"
        size = str(typer.prompt(question, default=_EVERYONE)) if asked else ""
    names = tuple(dict.fromkeys(["counts", *(name.strip() for name in publishes.split(","))]))
    for option_name, known, given in (
        ("--knows", _KNOWS, [knows]),
        ("--publishes", _PUBLISHES, names),
    ):
        for name in given:
            if name not in known:
                raise InputError(
                    f"{option_name} {name!r} is not known: {choices(name, list(known))}"
                )
    return _Answers(cube, knows, names, size)


def _choose(question: str, known: Mapping[str, tuple[str, ...]], default: str) -> str:
    """Return the answer to a question, the default if no terminal can answer."""
    if not sys.stdin.isatty():
        return default
    for name, (meaning, *_) in known.items():
        typer.echo(f"  {name:9} {meaning}")
    return str(typer.prompt(question, default=default))


def _folder(config: Path) -> Path:
    return config.with_suffix("").parent / "runs" / config.stem


def _n_people(answers: _Answers, n_counted: int) -> int:
    """Return of how many people groups are drawn: each pool has twice as many as are counted."""
    return (4 if answers.knows == "users" else 2) * n_counted


def _fill(answers: _Answers, cube: TraceCube, config: Path, n_counted: int | None) -> str:
    """Return the text of the config."""
    known, others, about_size = json.dumps(answers.cube), "", ""
    source = f" {known}"
    if n_counted is not None:
        about_size = "   # how many people the release counts: a verdict is about this size alone"
        n_people = _n_people(answers, n_counted)
        if n_people > cube.n_users:
            path = json.dumps(f"{_folder(config)}/people.zarr")
            others = _OTHERS.format(path=path, known=known, n_people=n_people, n_known=cube.n_users)
            source = ""
    knows, prior, settings = _KNOWS[answers.knows]
    published = [_PUBLISHES[name] for name in answers.publishes]
    mechanisms = [f"    # {meaning}\n    - {yaml}" for meaning, yaml in published]
    return _TEMPLATE.format(
        schema=config.with_suffix(".schema.json").name,
        path=config,
        cube=source,
        others=others,
        output=json.dumps(str(_folder(config))),
        period=_period(cube, observed=answers.knows == "past"),
        knows=knows,
        prior=f"{{name: {prior}, {settings}}}",
        sizes=[n_counted] if n_counted else _sizes(cube, answers.knows),
        about_size=about_size,
        mechanisms="\n".join(mechanisms),
        attacks="\n".join(f"    - {{name: {name}}}" for name in _attacks(prior)),
    )


def _attacks(prior: str) -> list[str]:
    """Return the usual attacks against a prior, those that need whereabouts last, then by time."""
    from clusterscale.attacks import ATTACKS

    usual = [ATTACKS[name] for name in ATTACKS if prior in ATTACKS[name].usual_against]
    usual.sort(key=lambda attack: (attack.needs_whereabouts, attack.seconds.group))
    return [str(attack.model_fields["name"].default) for attack in usual]


def _period(cube: TraceCube, *, observed: bool) -> str:
    """Return the first week of a cube, or its last with the weeks before, as YAML."""
    week = min(cube.n_epochs, max(1, _WEEK // cube.calendar.step))
    if not observed:
        return f"{{name: first week, first: 0, epochs: {week}}}"
    first = (cube.n_epochs // week - 1) * week
    if first <= 0:
        raise InputError(
            f"an adversary who knows the past needs at least two weeks; {cube.uri} has "
            f"{cube.n_epochs:,} epochs of {cube.calendar.step:,} s"
        )
    past = list(range(0, first, week))
    return f"{{name: last week, first: {first}, epochs: {week}, observed: {past}}}"


def _sizes(cube: TraceCube, knows: str) -> list[int]:
    """Return sizes of groups that leave enough users outside them."""
    pool = cube.n_users // (2 if knows == "users" else 1)
    return [size for size in _SIZES if size <= pool // 2] or [max(2, pool // 2)]
