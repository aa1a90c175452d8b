"""Pages of the guide that are generated from the code: commands, config files, datasets."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from textwrap import dedent
from typing import Any

from clusterscale.contracts import ConfigModel
from clusterscale.models import SETTINGS
from clusterscale.schema import Variable

_ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")
_KINDS = {"i": "integer", "u": "integer", "f": "float", "b": "boolean", "M": "date and time"}


def describe_commands() -> str:
    """Return a page with every command, its arguments and its options."""
    import typer

    from clusterscale.cli import app

    root: Any = typer.main.get_command(app)
    sections = ["# Commands\n\nGenerated from the command line itself; `-h` prints the same."]
    for path, command in sorted(_walk(root, ("clusterscale",)), key=lambda item: item[0]):
        context = command.context_class(command, info_name=" ".join(path))
        usage = " ".join([*path, *command.collect_usage_pieces(context)])
        records = [
            (name, re.sub(r"\s{2,}", " ", text))
            for name, text in (item.get_help_record(context) for item in command.params)
        ]
        rows = [(f"`{name}`", text) for name, text in records if name != "--help"]
        sections += [f"## {' '.join(path[1:])}", _paragraphs(command.help or "")]
        sections += [f"```text\n{usage}\n```", _table(("option", "meaning"), rows)]
    return _page(sections)


def _walk(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _walk(command, (*path, name))
        else:
            yield (*path, name), command


def describe_configs() -> str:
    """Return a page with every key of config files: its type, limits, default and meaning."""
    from clusterscale.config import Config, ReleasesConfig
    from clusterscale.release.publication import Publication

    found: dict[str, Any] = {}
    models = (Config, ReleasesConfig, Publication)
    for model in models:
        schema = model.model_json_schema()
        found |= schema.pop("$defs", {})
        found[model.__name__] = schema
    documented = {model.__name__: model for model in _subclasses(ConfigModel)}
    first = {model.__name__: "" for model in models}
    titles: dict[str, list[str]] = {}
    for name in sorted(found, key=lambda one: (first.get(one, _part_of(documented[one])), one)):
        if "enum" not in found[name]:
            titles.setdefault(f"Settings of {_part_of(documented[name])}", []).append(name)
    sections = [
        "# Config files",
        "A config of a run is a `Config`, a catalogue of releases a `ReleasesConfig`, and what "
        "`check` reads of tables that are published together a `Publication`. "
        "Generated from the models that read them; `clusterscale config schema` prints them as "
        "JSON Schema, for editors. `clusterscale guide config#laplace` shows one section alone.",
        "\n".join(
            f"- [{title}](#{title.lower().replace(' ', '-')}): "
            + ", ".join(f"[{name}](#{name.lower()})" for name in names)
            for title, names in titles.items()
        ),
    ]
    for title, names in titles.items():
        sections.append(f"## {title}")
        for name in names:
            about = _documentation(found[name], documented)
            sections += [f"### {name}", about, _fields(found[name])]
    return _page(sections)


def _part_of(model: type[Any]) -> str:
    """Return the part of the package, or the other package, that defines a model."""
    package, *inner = model.__module__.split(".")
    return (inner[inner[:1] == ["analyses"] :] or [package])[0].replace("_", " ")


def _subclasses(model: type[Any]) -> Iterator[type[Any]]:
    for child in model.__subclasses__():
        yield child
        yield from _subclasses(child)


def _documentation(schema: Mapping[str, Any], documented: Mapping[str, type[Any]]) -> str:
    """Return the docstring of a model, with those of the models to which it refers for fields."""
    text = str(schema.get("description", ""))
    extra = [
        str(documented[name].__doc__).partition(SETTINGS)[0]
        for name in _ROLE.findall(text)
        if name in documented and re.search(r"(fields|keys)\s+are\s+those", text)
    ]
    return _paragraphs("\n\n".join([text, *extra]))


def _fields(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", [])
    rows = []
    for name, field in schema.get("properties", {}).items():
        default = "required" if name in required else f"`{_as_yaml(field.get('default'))}`"
        rows.append((f"`{name}`", _type(field), default, field.get("description", "")))
    return _table(("key", "value", "default", "meaning"), rows)


def _as_yaml(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


def _type(field: Mapping[str, Any]) -> str:
    """Return the type of a value in words, with its limits; models are links to their sections."""
    if "$ref" in field:
        name = str(field["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in field:
            return " or ".join(dict.fromkeys(map(_type, field[key])))
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    if isinstance(extra := field.get("additionalProperties"), Mapping):
        return f"mapping of names to {_type(extra)}"
    return str(field.get("type", "any")) + "".join(_limits(field))


def _limits(field: Mapping[str, Any]) -> Iterator[str]:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    for key, sign in signs.items():
        if key in field:
            yield f", {sign} {field[key]}"


def describe_datasets() -> str:
    """Return a page with every variable of the datasets of results."""
    from clusterscale.study import built_in

    sections = [
        "# Datasets of results",
        "Results are xarray datasets in Zarr. Generated from the schema that checks them when "
        "they are opened. Mechanisms, priors, attacks and measures are coordinates with stable "
        "ids; `clusterscale.schema.with_labels` replaces them by labels.",
    ]
    for cls in built_in().values():
        if not cls.opener:
            continue
        rows = [
            (f"`{name}`", ", ".join(variable.dims), _kind(variable), variable.long_name)
            for name, variable in cls.schema.items()
        ]
        table = _table(("variable", "dimensions", "type", "meaning"), rows)
        title = (cls.noun or cls.kind).capitalize()
        sections += [f"## {title}", f"`clusterscale.{cls.opener}(FOLDER)`", table]
    return _page(sections)


def _kind(variable: Variable) -> str:
    unit = f" ({variable.units})" if variable.units not in ("", "1") else ""
    return _KINDS.get(variable.kinds[0], "text") + unit


def _page(sections: Iterable[str]) -> str:
    return "\n\n".join(filter(None, sections)) + "\n"


def _paragraphs(text: str) -> str:
    """Return the paragraphs of a docstring as Markdown, cross-references as plain names."""
    blocks = []
    for block in dedent(_ROLE.sub(r"`\1`", text)).split("\n\n"):
        if block.strip().startswith("\b"):  # typer keeps the lines of such a block
            lines = block.strip().removeprefix("\b").strip("\n")
            blocks.append(f"```text\n{lines}\n```")
        else:
            blocks.append("\n".join(line.strip() for line in block.splitlines()))
    return "\n\n".join(blocks).strip()


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [heads, ["---"] * len(heads), *rows]
    cells = ([" ".join(text.split()).replace("|", "\\|") for text in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


GENERATED: Mapping[str, Callable[[], str]] = {
    "commands": describe_commands,
    "config": describe_configs,
    "datasets": describe_datasets,
}
"""Names of the generated pages, and the functions that return their text."""
