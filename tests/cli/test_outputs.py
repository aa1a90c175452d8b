"""No command writes over what it reads, or inside a store, however the output is spelled."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest
import yaml
from loops import for_each, mostly_slow
from typer.testing import CliRunner

from clusterscale.cli import app
from clusterscale.errors import ExistsError, InputError
from clusterscale.storage import check_new, check_outputs

FORM = "{name: long, place: zone, count: people, step: 1h}"


def linked(path):
    """Return another name of a file or folder: a symbolic link."""
    link = Path("links") / f"link-to-{path.name}"
    link.symlink_to(path.absolute())
    return str(link)


def hard_linked(path):
    """Return a hard link of a file; of a folder, its name through two links."""
    link = Path("links") / f"hard-{path.name}"
    if path.is_dir():
        (Path("links") / "up").symlink_to(path.absolute().parent)
        link.symlink_to(Path("up") / path.name)
    else:
        os.link(path, link)
    return str(link)


SPELLINGS = {
    "as it is": str,
    "absolute": lambda path: str(path.absolute()),
    "dot": lambda path: f"./{path}",
    "up": lambda path: f"links/../{path}",
    "slashes": lambda path: f"{path.parent}//{path.name}",
    "URL": lambda path: f"file://{path.absolute()}",
    "relative URL": lambda path: f"file://{path}",
    "link": linked,
    "URL of a link": lambda path: f"file://{Path(linked(path)).absolute()}",
    "hard link": hard_linked,
}


@pytest.fixture
def world(cube, tmp_path, monkeypatch):
    """A folder with something that each command reads, and a function that digests all of it."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(cube.uri, "cube.zarr")
    shutil.copytree(cube.uri, "dense.zarr")
    for name in ("links", "data", "run/results.zarr", "run/screen/results.zarr"):
        Path(name).mkdir(parents=True)
    table = "zone,time,people\n{}1,2026-03-02T08:00Z,9\n{}2,2026-03-02T08:00Z,12\n"
    files = {
        "data/t.csv": table.format("A", "A"),
        "data/r.csv": "zone,time,people\nA,2026-03-02T08:00Z,21\n",
        "data/t.csv-metadata.json": "{}",
        "data/of.csv": "place,parent\nA1,A\nA2,A\n",
        "p.yaml": f"format: {FORM}\nmechanism: {{name: exact}}\ntables:\n"
        "  - {counts: data/r.csv}\n  - {counts: data/t.csv, parents: data/of.csv}\n",
        "events.csv": "user,timestamp,roi\n1,2026-03-02T08:00Z,a\n",
        "people.csv": "user\n1\n",
        "policy.yaml": "worst_auc: 0.9\n",
        "run/audit.json": "{}",
        "run/results.zarr/zarr.json": "{}",
        "run/screen/screen.json": "{}",
    }
    for name, text in files.items():
        Path(name).write_text(text)
    publish = {
        "mechanism": {"name": "exact"}, "period": {"name": "day", "first": 0, "epochs": 24},
        "series": "s", "releases": "published", "without_guarantee": True,
    }  # fmt: skip
    audit = {
        "targets": {"random": 2}, "group_sizes": [10], "priors": [{"name": "perfect"}],
        "attacks": [{"name": "projection"}], "mechanisms": [{"name": "exact"}],
    }  # fmt: skip
    config = {"cube": "cube.zarr", "output": "runs/new", "audit": audit, "publish": publish}
    Path("c.yaml").write_text(yaml.safe_dump(config | {"cluster": {"name": "serial"}}))
    catalogue = {"audit": {key: audit[key] for key in ("targets", "priors", "attacks")}}
    catalogue |= {"releases": [{"counts": "data/t.csv"}], "cube": "cube.zarr", "output": "ledger"}
    Path("releases.yaml").write_text(yaml.safe_dump(catalogue))

    def digest():
        return {
            str(path): hashlib.blake2b(path.read_bytes()).hexdigest()
            for path in sorted(Path().rglob("*"))
            if path.is_file() and "links" not in path.parts
        }

    return digest


def with_releases(folder):
    """Write a config that publishes in another folder, and return its name."""
    config = yaml.safe_load(Path("c.yaml").read_text())
    config["publish"]["releases"] = folder
    Path("links/other.yaml").write_text(yaml.safe_dump(config))
    return "links/other.yaml"


INGEST = ("--start", "2026-03-02T00:00", "--epochs", "24", "--column", "roi=roi", "--force")
INIT = ("init", "--force", "--cube", "cube.zarr", "--limit", "few")
TABLE = ("check", "data/t.csv", "--method", "exact", "--format", FORM, "--force")

COMMANDS = {  # what would be written over, and the words that do it
    "check --json": ("data/t.csv", lambda at: (*TABLE, "--json", at)),
    "check --junit": ("data/t.csv-metadata.json", lambda at: (*TABLE, "--junit", at)),
    "check --page": ("data/t.csv", lambda at: (*TABLE, "--page", at)),
    "check --page of parents": ("data/of.csv", lambda at: ("check", "p.yaml", "--page", at)),
    "check --json of a publication": ("p.yaml", lambda at: ("check", "p.yaml", "--json", at)),
    "check --repair": ("data", lambda at: ("check", "p.yaml", "--repair", at)),
    "check --repair in a store": (
        "cube.zarr", lambda at: ("check", "p.yaml", "--repair", f"{at}/fixed")
    ),
    "init": ("cube.zarr", lambda at: (*INIT, f"{at}/audit.yaml")),
    "init of people": ("people.csv", lambda at: (*INIT, at, "--who", "people.csv")),
    "init --table": ("data/t.csv", lambda at: ("init", at, "--table", "data/t.csv", "--force")),
    "audit": ("cube.zarr", lambda at: ("audit", "c.yaml", "--output", at, "--force")),
    "screen": ("cube.zarr", lambda at: ("screen", "c.yaml", "--output", f"{at}/x", "--force")),
    "publish": ("cube.zarr", lambda at: ("publish", with_releases(f"{at}/releases"))),
    "ingest": (
        "cube.zarr", lambda at: ("ingest", "events.csv", f"{at}/cube", *INGEST)
    ),
    "ingest of a store": (
        "cube.zarr", lambda at: ("ingest", "cube.zarr/zarr.json", at, *INGEST)
    ),
    "pack": ("dense.zarr", lambda at: ("pack", "dense.zarr", at, "--force")),
    "synth": ("cube.zarr", lambda at: ("synth", "milan", f"{at}/x", "--users", "5", "--force")),
    "report": ("run/audit.json", lambda at: ("report", "run", "--output", at, "--force")),
    "report of tables": (
        "run/results.zarr", lambda at: ("report", "run", "--output", at, "--format", "csv")
    ),
    "report --sign-off": (
        "run/audit.json",
        lambda at: ("report", "run", "--sign-off", "--force", "--output", at),
    ),
    "gate": ("run/audit.json", lambda at: ("gate", "run", "--json", at)),
    "gate with a policy": (
        "policy.yaml", lambda at: ("gate", "run", "--policy", "policy.yaml", "--json", at)
    ),
    "reaudit --json": ("data/t.csv", lambda at: ("reaudit", "releases.yaml", "--json", at)),
    "reaudit": ("cube.zarr", lambda at: ("reaudit", "releases.yaml", "--output", f"{at}/x")),
    "reproduce": (
        "cube.zarr", lambda at: ("reproduce", "ndss18", "--cabs", "cube.zarr", "--output", at)
    ),
    "reproduce --figures": (
        "cube.zarr",
        lambda at: ("reproduce", "ndss18", "--cabs", "cube.zarr", "--figures", at),
    ),
    "certificates": ("cube.zarr", lambda at: ("certificates", f"{at}/keys")),
}  # fmt: skip


@mostly_slow("spelling", ["link", *(name for name in SPELLINGS if name != "link")])
def test_no_command_writes_over_what_it_reads(spelling, world):
    """27 commands and options, each in ten spellings."""
    before = world()
    for name, (target, words) in COMMANDS.items():
        for link in Path("links").iterdir():
            link.unlink()
        at = SPELLINGS[spelling](Path(target))
        done = CliRunner().invoke(app, words(at))
        assert isinstance(done.exception, InputError), (name, at, done.exception, done.output)
        assert any(part in str(done.exception) for part in ("is read", "replaced", "Zarr store")), (
            name,
            done.exception,
        )
        assert world() == before, name


def test_facts_beside_a_page_to_sign_are_an_output_too(world):
    before = world()
    done = CliRunner().invoke(app, ["report", "run", "--sign-off", "--output", "run/audit.html"])
    assert "run/audit.json, which is read" in str(done.exception)
    assert world() == before


def test_addresses_are_compared_by_what_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder/sub").mkdir(parents=True)
    Path("folder/a.csv").write_text("a")
    Path("link").symlink_to("folder")
    os.link("folder/a.csv", "b.csv")
    for output, given in (
        ("b.csv", "link/a.csv"),
        ("link/sub/../a.csv", "folder/a.csv"),
        ("link/new/x", "folder/"),
        ("folder", "link/a.csv"),
        ("file://link", "folder"),
        ("s3://bucket/cube/", "s3a://bucket//cube"),
        ("s3://bucket/a/../cube/x", "s3://bucket/cube"),
        ("gs://bucket", "gcs://bucket/cube"),
    ):
        with pytest.raises(InputError):
            check_outputs([output], [given])
    check_outputs(
        ["new.csv", "folder/new.csv", "s3://bucket/cubes", None, "exact"],
        ["folder/a.csv", "s3://bucket/cube", "gs://bucket", None, "exact", "no\0path", "x" * 9999],
    )


def test_only_files_of_this_package_and_the_same_run_are_renewed(tmp_path):
    page = '<meta name="generator" content="clusterscale"><p>fingerprint 0abc</p>'
    written = {
        "own page": (page, True),
        "page of another run": (page.replace("0abc", "1abc"), False),
        "page of others": ("<p>fingerprint 0abc</p>", False),
        "facts": ('{\n "rule": "exact",\n "cube": "0abc"}', True),
        "config": ('{"rule": "0abc"}', False),
        "empty": ("", False),
    }
    for name, (text, is_own) in written.items():
        file = tmp_path / name
        file.write_text(text)
        if is_own:
            check_new([None, file], renews=["0abc"])
        for options in ({}, {"force": False}, *([] if is_own else [{"renews": ["0abc"]}])):
            with pytest.raises(ExistsError, match=f"{name} exists: name another file, or"):
                check_new([tmp_path / "new", file], **options)
        check_new([file], force=True)
    with pytest.raises(ExistsError):
        check_new([tmp_path], renews=())
    check_new([tmp_path / "new", None])


@for_each("option", ["--json", "--junit"])
def test_verdicts_replace_verdicts_and_no_other_file(option, world):
    before = world()
    words = ("check", "data/t.csv", "--method", "exact", "--format", FORM, option)
    for _ in range(2):  # as in a pipeline, each time
        done = CliRunner().invoke(app, [*words, "verdict"])
        assert done.exit_code in (0, 3), done.exception
    Path("verdict").write_text("minutes of a meeting")
    refused = CliRunner().invoke(app, [*words, "verdict"])
    assert "verdict exists: name another file, or overwrite" in str(refused.exception)
    assert Path("verdict").read_text() == "minutes of a meeting"
    assert CliRunner().invoke(app, [*words, "verdict", "--force"]).exit_code in (0, 3)
    Path("verdict").unlink()
    for others in (("gate", "run"), ("reaudit", "releases.yaml"))[: 2 if option == "--json" else 0]:
        Path("verdict").write_text("minutes of a meeting")
        refused = CliRunner().invoke(app, [*others, option, "verdict"])
        assert "verdict exists: name another file, or remove it" in str(refused.exception)
        Path("verdict").unlink()
    assert world() == before
