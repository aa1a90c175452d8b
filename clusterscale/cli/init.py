"""The ``init`` command: write commented configs from a few answers."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property, partial
from math import floor
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from clusterscale.cli import init_proposals as proposals
from clusterscale.cli.console import out
from clusterscale.cli.init_table import write_format
from clusterscale.cli.options import Force, OptionalAddress, check_address, say_command
from clusterscale.cli.releases import say_opendp
from clusterscale.contracts import Mechanism
from clusterscale.cube import TraceCube
from clusterscale.cube.calendar import Step
from clusterscale.errors import ClusterscaleError, ConfigError, InputError
from clusterscale.redaction import one_line
from clusterscale.release.entry import inputs_of
from clusterscale.storage import check_new, check_outputs, local_path
from clusterscale.validation_messages import choices

T = TypeVar("T")
Settings = dict[str, Any]

_TEMPLATES = Path(__file__).parent / "templates"


@cache
def _known() -> Mapping[str, Any]:
    """Return the questions, and what is known of the answers that have a name."""
    import yaml

    known: Mapping[str, Any] = yaml.safe_load((_TEMPLATES / "answers.yaml").read_text("utf-8"))
    return known


@dataclass(frozen=True)
class _Answers:
    cube: TraceCube
    knows: str
    n_counted: int | None
    population: str
    now: Sequence[tuple[str, Settings]]
    limits: Mapping[str, float | None]
    often: str
    bounds: list[int]
    """The first epoch of each release of the cube, and the one after the last."""
    factor: int

    @property
    def guarantee(self) -> tuple[str, float, float] | None:
        """The unit, its ε in one release and in all that it can be in; None without a limit."""
        for name, total in self.limits.items():
            if total and (unit := _known()["limit"][name].get("unit")):
                return unit, floor(total / self.n_releases * 1e6) / 1e6, total
        return None

    @property
    def n_releases(self) -> int:
        """The number of releases that one unit of the guarantee can be in."""
        return int(_known()["often"][self.often]["releases"]) if "person" in self.limits else 1

    @property
    def mean_limit(self) -> float:
        """The limit on the mean privacy loss, by default that at which people are exposed."""
        from clusterscale.metrics import EXPOSED_AUC

        return self.limits.get("average") or 2 * EXPOSED_AUC - 1

    @property
    def needs_screen(self) -> bool:
        """Whether a limit is about people who are not attacked, and whom a screen shows."""
        return any("screen" in _known()["limit"][name] for name in self.limits)

    @property
    def n_people(self) -> int:
        """Of how many people groups are drawn: each pool has twice as many as are counted."""
        return (4 if self.knows == "users" else 2) * (self.n_counted or 0)

    @cached_property
    def period(self) -> Settings:
        """The epochs that are audited, all of the release if it need not be as long as others."""
        return proposals.propose_period(self.cube, self.bounds, observed=self.knows == "past")

    @property
    def span(self) -> tuple[int, int]:
        """The first epoch of the release that is audited, and the one after the last."""
        first, stop = self.bounds[-2:] if self.knows == "past" else self.bounds[:2]
        return first, stop

    @cached_property
    def caps(self) -> list[int]:
        """How many events of a user's day may be kept, the proposal first."""
        return proposals.propose_caps(self.cube, self.span, self.factor)

    @property
    def prior(self) -> Settings:
        """What the adversary knows."""
        settings: Settings = _known()["knows"][self.knows]["prior"]
        return settings

    def fit(self, settings: Settings) -> Settings:
        """Return the settings of a mechanism with the cap, for counts of several epochs."""
        steps = [
            step | {"per_day": self.caps[0]} if "per_day" in step and not step["per_day"] else step
            for step in settings.get("steps", [settings])
        ]
        if self.factor == 1:
            return settings | {"steps": steps} if "steps" in settings else settings
        kept = [
            {key: value for key, value in step.items() if key != "title"}
            for step in steps
            if step["name"] != "exact"
        ]
        merged = {"name": "coarsen_time", "factor": self.factor}
        return {"name": "chain", "steps": [merged, *kept]} if kept else merged


def init(
    config: Annotated[str | None, typer.Argument(callback=check_address)] = None,
    table: OptionalAddress = None,
    setting: list[str] | None = None,
    cube: OptionalAddress = None,
    who: Annotated[str | None, typer.Option("--who", "--size")] = None,
    often: str | None = None,
    length: str | None = None,
    cell: str | None = None,
    publishes: OptionalAddress = None,
    limit: str | None = None,
    knows: str = "users",
    force: Force = False,
) -> None:
    """Write commented configs for your cube from a few answers, and check that they fit.

    They are of the audit and advice, of the policy, and of the release. With --table, write the
    format of a published table, and show ten cells as they are read. Asks for what the options do
    not say, if the terminal can answer.

    Parameters
    ----------
    config
        YAML file to write, by default audit.yaml, or columns.yaml.
    table
        Write the format that reads this published table, instead.
    setting
        A setting of the format, e.g. timezone=Europe/London; repeatable.
    cube
        The cube to audit: path or URL.
    who
        Who is counted: everyone, a number, or a list.
    often
        How often: once, daily, weekly, monthly.
    length
        Length of a release, e.g. 7d; usual by --often.
    cell
        Length of one count, e.g. 6h; usually an epoch.
    publishes
        Published today, before the new rule: nothing, counts, hidden, noise, capped; a mechanism.
    limit
        Limits: exposed, average, worst=0.5, few, anyone, event, day, person.
    knows
        What the adversary knows: users, past, release.
    """
    if table is not None:
        file = local_path(config or "columns.yaml")
        check_outputs([file], inputs_of(table))
        check_new([file], force=force)
        write_format(file, table, setting or [])
        return
    if setting:
        raise InputError("`--setting` needs `--table`: it is of the format of a table")
    file = local_path(config or "audit.yaml")
    ends = {"policy": ".policy.yaml", "release": ".release.yaml", "schema": ".schema.json"}
    files = {"config": file, **{name: file.with_suffix(end) for name, end in ends.items()}}
    check_outputs(files.values(), [cube, who, publishes])
    check_new(files.values(), force=force)
    given = {"cube": cube, "who": who, "often": often, "length": length, "cell": cell}
    given |= {"publishes": publishes, "limit": limit}
    if not sys.stdin.isatty() and (usual := [f"--{name}" for name in given if not given[name]]):
        text = f"not asked, as there is no terminal; taken as usual: {', '.join(usual)}"
        out.print(text, markup=False, soft_wrap=True)
    answers = _ask(given, knows)
    texts = _fill(answers, files)
    file.parent.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        files[name].write_text(text, encoding="utf-8")
    out.print(f"wrote {', '.join(map(str, files.values()))}", markup=False, soft_wrap=True)
    policy, release, advice = *map(str, list(files.values())[1:3]), f"{_folder(file)}-advice"
    say_command("who is exposed", "audit", str(file))
    if answers.needs_screen:
        say_command("everybody, not only the targets", "screen", str(file))
    say_command("what to publish", "advise", str(file), "--policy", policy, "--output", advice)
    sign = "--sign-off", "--mechanism", "TITLE", "--policy", policy, "--release", release
    say_command("the page to sign", "report", str(_folder(file)), *sign)
    say_command("the release", "publish", release, "--from", advice, "--gate", policy)
    if answers.often != "once":
        say_command("each new release", "reaudit", policy)


def _folder(config: Path) -> Path:
    return config.with_suffix("").parent / "runs" / config.stem


def _ask(given: Mapping[str, str | None], knows: str) -> _Answers:
    """Return the answers that options give; ask for others in a terminal."""

    def answer(name: str, parse: Callable[[str], T], usual: str = "") -> T:
        """Return what an option says, else the terminal, else what is usual."""
        said = given[name]
        if said is not None or not sys.stdin.isatty():
            return parse(usual if said is None else said)
        for each, about in _known().get(name, {}).items():
            typer.echo(f"  {each:9} {about['meaning']}")
        question = _known()["questions"][name]
        while True:
            try:
                return parse(str(typer.prompt(question, default=usual or None)).strip())
            except ClusterscaleError as error:
                typer.echo(f"{error}: answer again")

    if given["cube"] is None and not sys.stdin.isatty():
        raise InputError("name the cube to audit: `--cube CUBE`")
    opened = answer("cube", TraceCube)
    n_counted, population = answer("who", partial(_parse_who, opened))
    rate = answer("often", partial(_one_of, "often"), "once")
    length, step = _known()["often"][rate]["length"], f"{opened.calendar.step}s"
    return _Answers(
        cube=opened,
        knows=_one_of("knows", knows),
        n_counted=n_counted,
        population=population,
        often=rate,
        bounds=answer("length", partial(_split, opened, length), length),
        factor=answer("cell", partial(_count_epochs, opened, "cell", step), step),
        now=answer("publishes", _parse_published, "nothing"),
        limits=answer("limit", _parse_limits, "exposed"),
    )


def _one_of(option_name: str, text: str) -> str:
    """Return an answer that has a name."""
    if text not in (known := _known()[option_name]):
        raise InputError(f"--{option_name} {text!r} is not known: {choices(text, known)}")
    return text


def _parse_who(cube: TraceCube, text: str) -> tuple[int | None, str]:
    """Return how many people are counted, None if that is not said, and the list of them.

    What follows from records is rounded, because it is published.
    """
    from clusterscale.analyses.publish.analysis import read_population
    from clusterscale.storage import exists

    if text in ("", "everyone"):
        return proposals.round_down(cube.n_users) if text else None, "everyone"
    if text.isdecimal() and int(text) >= 2:
        return int(text), "people.csv"
    if text.isdecimal() or not exists(text):
        raise InputError(f"--who {text!r}: give everyone, a number of 2 or more, or a file")
    return proposals.round_down(len(read_population(text, cube))), text


def _count_epochs(cube: TraceCube, option_name: str, usual: str, text: str) -> int:
    """Return of how many epochs a length is; what is usual is fitted to the cube."""
    try:
        n, rest = divmod(Step.parse(text).seconds, cube.calendar.step)
    except InputError as error:
        raise InputError(f"--{option_name}: {error}") from None
    if text == usual:
        return min(cube.n_epochs, max(1, n))
    if rest or not 1 <= n <= cube.n_epochs:
        raise InputError(
            f"--{option_name} {text}: give a multiple of an epoch, {cube.calendar.length}, and at "
            f"most the {cube.n_epochs:,} of the cube"
        )
    return n


def _split(cube: TraceCube, usual: str, text: str) -> list[int]:
    """Return the first epoch of each release of a length, and the one after the last."""
    _count_epochs(cube, "length", usual, text)  # which refuses other lengths
    return proposals.split_releases(cube.calendar, Step.parse(text))


def _parse_published(text: str) -> list[tuple[str, Settings]]:
    """Return meanings and settings of what is published now."""
    import yaml

    from clusterscale.analyses.advise.results import to_yaml
    from clusterscale.config import parse_entry
    from clusterscale.mechanisms import MECHANISMS

    known = _known()["publishes"]
    names = [name.strip() for name in text.split(",")]
    if known.keys() >= set(names):
        given = [known[name] for name in names if "mechanism" in known[name]]
        return [(one["meaning"], one["mechanism"]) for one in given]
    try:
        entry = parse_entry(MECHANISMS, text)
    except ClusterscaleError as error:
        raise InputError(
            f"--publishes {text!r} is not known: {choices(text, known)}; or a mechanism: {error}"
        ) from None
    return [(entry.heading, yaml.safe_load(to_yaml(entry)))]


def _parse_limits(text: str) -> dict[str, float | None]:
    """Return the number of each limit, None for one that has none."""
    limits: dict[str, float | None] = {}
    for part in text.split(","):
        name, equals, number = (word.strip() for word in part.partition("="))
        about = _known()["limit"][_one_of("limit", name)]
        least, usual, most = about.get("number", (0, None, 0))
        try:
            limits[name] = value = float(number) if equals else usual
        except ValueError:
            value = 0.0
        if value is not None and not least < value < most:
            takes = f"a number above {least} and below {most}" if most else "no number"
            raise InputError(f"--limit {part.strip()!r}: {name} takes {takes}")
    if len([name for name in limits if "unit" in _known()["limit"][name]]) > 1:
        raise InputError(f"--limit {text!r}: give one of event, day, person")
    return limits


def _fill(answers: _Answers, files: Mapping[str, Path]) -> dict[str, str]:
    """Return the texts of the files; print why a proposal could not be published.

    Raises InputError if the audit would not fit the cube.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from clusterscale.analyses.advise.families import Family
    from clusterscale.analyses.advise.results import to_yaml
    from clusterscale.config import Config, parse, schema
    from clusterscale.config.reading import parse_releases

    cube, proposed, limits = answers.cube, _propose(answers), _known()["limit"]
    families = _families(answers)
    members = [one for fields in families for one in Family(**fields).members()]
    delta = answers.n_releases * max((one.guarantee.delta for one in members), default=0.0)
    is_simulated = answers.n_people > cube.n_users  # some people, who are no evidence of the worst
    is_open = [name for name in answers.limits if is_simulated and "on_everyone" in limits[name]]
    if answers.population == "everyone" and "anyone" in is_open:
        is_open.remove("anyone")  # certificates are of all who are counted
    words = {
        "about": _known(),
        "answers": answers,
        "attacks": _attacks(answers.prior["name"]),
        "delta": {"delta": delta} if delta else {},
        "families": families,
        "files": files,
        "folder": str(_folder(files["config"])),
        "mechanisms": _list_mechanisms(answers, proposed),
        "open": is_open,
        "sizes": proposals.propose_sizes(cube, answers.knows, answers.n_counted),
        "targets": proposals.count_targets(cube, answers.span, answers.mean_limit, answers.prior),
        "whole": _propose_whole(answers),
    }
    templates = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=one_line,  # titles and paths are data, also in comments
    )
    templates.filters["yaml"] = to_yaml
    texts = {
        name: templates.get_template(f"{name}.yaml.j2").render(words) + "\n"
        for name in ("config", "policy", "release")
    }
    try:
        plan = parse(texts["config"], where=str(files["config"])).the_audit()
        parse_releases(texts["policy"], where=str(files["policy"]))
        (plan.model_copy(update={"priors": ()}) if is_simulated else plan).check(cube)
    except ConfigError as error:
        raise InputError(f"no config was written, as it would not fit: {error}") from None
    texts["schema"] = schema(Config)
    say_opendp(mechanism for _, mechanism in proposed)
    release = f"{texts['release']}  mechanism: {to_yaml(proposed[0][1])}\n"
    try:
        parse(release, where=str(files["release"])).check(cube)
    except ClusterscaleError as error:
        out.print(f"before you publish: {error}", markup=False, soft_wrap=True)
    if is_open:
        n_most = cube.n_users * (answers.n_counted or 0) // answers.n_people
        text = _known()["open"].format(" or ".join(is_open), answers, n_most)
        out.print(f"before you publish: {text}", markup=False, soft_wrap=True)
    return texts


def _propose_whole(answers: _Answers) -> proposals.WholeStretch | None:
    """Return all releases as one period, None if there is one release, or it needs the past."""
    if answers.often == "once" or answers.knows == "past":
        return None
    unit = answers.guarantee[0] if answers.guarantee else ""
    certified = "anyone" in answers.limits
    return proposals.propose_whole(answers.bounds, unit, certified=certified)


def _propose(answers: _Answers) -> list[tuple[str, Mechanism]]:
    """Return meanings and mechanisms that can be published and have the guarantee, if one is."""
    from clusterscale.mechanisms import MECHANISMS

    known, names = deepcopy(_known()["publishes"]), ["hidden", "noise", "capped"]
    if answers.guarantee is not None:
        unit, epsilon, _ = answers.guarantee
        names = ["noise" if unit == "event" else "capped"]
        chosen = known[names[0]]["mechanism"]
        noise = chosen.get("steps", [chosen])[-1]
        noise |= {"unit": unit, "epsilon": epsilon}
        if unit == "user":
            n_days = len(set(answers.cube.calendar.days()[slice(*answers.span)].tolist()))
            noise["sensitivity"] = float(n_days * answers.caps[0])
        known[names[0]]["meaning"] = "noise that has the guarantee"
    return [
        (known[name]["meaning"], MECHANISMS.create(**answers.fit(known[name]["mechanism"])))
        for name in names
    ]


def _list_mechanisms(
    answers: _Answers, proposed: Sequence[tuple[str, Mechanism]]
) -> list[tuple[str, str]]:
    """Return meanings and YAML of what is published now, raw counts and proposals, each once."""
    from clusterscale.analyses.advise.results import to_yaml
    from clusterscale.mechanisms import MECHANISMS

    title = {"title": "as now"} if len(answers.now) == 1 else {}
    every = [
        (f"now: {text}", MECHANISMS.create(**{**answers.fit(settings), **title}))
        for text, settings in answers.now
    ]
    exact = MECHANISMS.create(**answers.fit({"name": "exact"}))
    found: dict[str, tuple[str, str]] = {}
    for text, mechanism in (*every, ("counts as they are, for comparison", exact), *proposed):
        found.setdefault(mechanism.id, (text, to_yaml(mechanism)))
    return list(found.values())


def _families(answers: _Answers) -> list[Settings]:
    """Return the usual mechanisms that can be published, with the values that are tried."""
    from clusterscale.analyses.advise.families import Family, usual_families
    from clusterscale.analyses.publish.plan import find_faults

    families, wanted = [], answers.guarantee and answers.guarantee[0]
    for family in usual_families():
        plain = family.model_dump(mode="json")
        for step in plain["mechanism"].get("steps", []):
            step |= {"per_day": None} if "per_day" in step else {}
        over = {
            path: sorted(answers.caps) if path.endswith(".per_day") else values
            for path, values in (plain["over"] or {}).items()
        }
        if answers.factor > 1:  # merging is the first step
            over = {_shift(path): values for path, values in over.items()}
        fields = {"mechanism": answers.fit(plain["mechanism"]), "over": over}
        members = Family(**fields).members()
        faults = (fault for one in members for fault in find_faults(one, null_roi=False))
        if not any(faults) and wanted in (None, members[0].guarantee.unit):
            families.append(fields)
    return families


def _shift(path: str) -> str:
    """Return the path of a setting of a mechanism that has another step before it."""
    found = re.fullmatch(r"steps\.(\d+)\.(.+)", path)
    return f"steps.{int(found[1]) + 1}.{found[2]}" if found else f"steps.1.{path}"


def _attacks(prior: str) -> list[str]:
    """Return the usual attacks against a prior, those that need whereabouts last, then by time."""
    from clusterscale.attacks import ATTACKS

    usual = [one for _, one in sorted(ATTACKS.loaded.items()) if prior in one.usual_against]
    usual.sort(key=lambda attack: (attack.needs_whereabouts, attack.seconds.group))
    return [str(attack.model_fields["name"].default) for attack in usual]
