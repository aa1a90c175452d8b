"""The guide: its commands run and show what it says, its links hold, and it is complete."""

import doctest
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from loops import for_each
from typer.testing import CliRunner

from clusterscale.cli import app
from clusterscale.cli.guide import PAGES, read_page, write_page, written
from clusterscale.cli.reference import GENERATED
from clusterscale.config import load_either, load_policy, load_publication, parse_entry
from clusterscale.errors import ClusterscaleError
from clusterscale.release import TABLE_FORMATS
from clusterscale.schema import RESULTS

BLOCK = re.compile(r'^```(\w+)(?: title="([\w.-]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)#\s]*)(?:#([^)\s]+))?\)", re.DOTALL)
STARTS_FROM = {"weekly": "regulator"}  # a tutorial that uses the files of another
READS = {"cabs": "sfcabs.parquet"}  # a tutorial on real data, and the file that it reads
# Written or generated elsewhere: by other tests, or when the site is built.
TESTED_ELSEWHERE = {"python", "plug-ins"}
ON_THE_SITE = {"changelog", "contributing", "deployment", "examples", "security"}

WRITTEN = {name: read_page(name) for name in written()}
TUTORIALS = [
    name
    for name, text in WRITTEN.items()
    if "\n```console\n" in text and name not in TESTED_ELSEWHERE
]


def blocks(page):
    """Return the language, file name and text of each block of a page."""
    return BLOCK.findall(WRITTEN[page])


def write_files(page, folder):
    for _, name, text in blocks(page):
        if name:
            (folder / name).write_text(text)


def one_line(text):
    return " ".join(text.split())


def run_console(text, code):
    """Run the commands of a block; check the lines that follow each, and return the exit code."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.replace("\\\n", "").partition("\n")
        if command == "echo $?":
            output = str(code)
        elif command.startswith("cat "):
            output = one_line(Path(command.removeprefix("cat ")).read_text())
        else:
            words = shlex.split(command)
            assert words[0] == "clusterscale", command
            done = CliRunner().invoke(app, words[1:])
            code, output = done.exit_code, one_line(done.output)
            if isinstance(done.exception, ClusterscaleError):  # printed and counted by the program
                code, output = 2, one_line(f"error: {done.exception}")
            else:
                assert done.exception is None or isinstance(done.exception, SystemExit), command
        position = 0
        for line in filter(None, map(one_line, expected.splitlines())):
            found = output.find(line, position)
            assert found >= 0, f"{command}: {line!r} is not in\n{output}"
            position = found + len(line)
    return code


@pytest.mark.nightly(group="guide")
@pytest.mark.timeout(1800)  # each runs several audits
@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("page", TUTORIALS)
def test_tutorials_run_and_show_what_they_say(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "publish", raising=False)
    if page in READS:
        records = request.getfixturevalue("real_data") / READS[page]
        (tmp_path / records.name).symlink_to(records.resolve())
    if page in STARTS_FROM:
        write_files(STARTS_FROM[page], tmp_path)
    write_files(page, tmp_path)
    code, names, parser = 0, {}, doctest.DocTestParser()
    for language, name, text in blocks(page):
        if language == "console":
            code = run_console(text, code)
        elif language == "python" and not name:
            example = parser.get_doctest(text, names, page, None, 0)
            assert example.examples, f"{page}: a block that shows nothing"
            result = doctest.DocTestRunner(verbose=False).run(example, clear_globs=False)
            assert result.failed == 0
            names = example.globs
    monkeypatch.delitem(sys.modules, "publish", raising=False)


@pytest.mark.parametrize("page", [*WRITTEN])
def test_configs_of_the_guide_are_valid(page, tmp_path):
    for language, name, text in blocks(page):
        if language == "yaml" and name:
            path = tmp_path / name
            path.write_text(text)
            keys = yaml.safe_load(text).keys()
            if "name" in keys:
                assert parse_entry(TABLE_FORMATS, str(path))
            elif "tables" in keys:
                assert load_publication(path)
            else:
                is_policy = not {"cube", "releases"} & keys
                assert load_policy(path) if is_policy else load_either(path)


@for_each("page", [*WRITTEN])
def test_configs_of_the_guide_are_not_wrapped_on_80_columns(page):
    """A comment that is wrapped would continue as a key; a block has a margin of one column."""
    for indent, text in re.findall(r"^( *)```yaml.*?\n(.*?)^ *```$", WRITTEN[page], re.M | re.S):
        most = 77 if indent else 78  # within a list, the margin is wider
        assert not [line for line in text.splitlines() if len(line) > most]


@for_each("page", [*WRITTEN])
def test_links_of_the_guide_lead_somewhere(page):
    for target, anchor in LINK.findall(re.sub(r"```.*?```", "", WRITTEN[page], flags=re.DOTALL)):
        if "://" in target:
            continue
        name = target.removesuffix(".md") or page
        assert name in {*WRITTEN, *GENERATED, *ON_THE_SITE, *TESTED_ELSEWHERE}, target
        if anchor and name in WRITTEN:
            heads = re.findall(r"^#+ (.+)$", WRITTEN[name], re.MULTILINE)
            slugs = [
                re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads
            ]
            assert anchor in slugs, target
    for drawing in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", WRITTEN[page]):
        assert (PAGES / drawing).is_file()


def test_the_first_page_lists_every_page():
    listed = {target.removesuffix(".md") for target, _ in LINK.findall(WRITTEN["index"])}
    assert listed >= {*WRITTEN, *GENERATED} - {"index"}


def test_every_command_has_its_place():
    from typer.main import get_command

    named = set(re.findall(r"`([a-z]+)`", WRITTEN["which-command"]))
    assert named >= set(get_command(app).commands)


@for_each(
    ("name", "text"),
    [
        ("commands", "## config schema"),
        ("commands", "`--explain`"),
        ("config", "## Settings of priors\n\n### "),
        ("config", "### KnownSubset"),
        ("config", "[AuditPlan](#auditplan) or null"),
        ("datasets", f"| {RESULTS['auc'].long_name} |"),
    ],
)
def test_the_reference_is_generated(name, text):
    page = read_page(name)
    assert text in page
    assert ":class:" not in page
    anchors = set(re.findall(r"\]\(#([\w-]+)\)", page))
    heads = re.findall(r"^##+ ([\w ]+)$", page, re.MULTILINE)
    assert anchors <= {head.lower().replace(" ", "-") for head in heads}


def test_the_guide_is_read_on_the_terminal():
    done = CliRunner().invoke(app, ["guide", "which-command"])
    assert done.exit_code == 0
    assert "Which command when" in done.output


def test_links_on_the_terminal_are_commands():
    """Each opens what it names; pages that the package does not have are named as files."""
    shown = {
        page: one_line(CliRunner().invoke(app, ["guide", page]).output)
        for page in ("which-command", "weekly", "tables")
    }
    assert "options are in clusterscale guide commands." in shown["which-command"]
    assert "tutorial (clusterscale guide regulator)" in shown["weekly"]
    assert "Deployment (deploy/README.md in the repository)" in shown["weekly"]
    for text in shown.values():
        assert not re.search(r"\([\w-]*(\.md|#)[^ ]*\)", text)
        named = re.findall(r"clusterscale guide ([\w-]+)", text)
        assert set(named) <= {*WRITTEN, *GENERATED}


def test_a_section_of_a_page_is_shown_alone():
    done = CliRunner().invoke(app, ["guide", "tables#formats"])
    assert "Conventions" in done.output, "the section and those below it"
    assert "What else is found" not in done.output
    done = CliRunner().invoke(app, ["guide", "tables#format"])
    assert "did you mean 'formats'" in str(done.exception)


def test_a_page_that_does_not_exist_is_refused_with_the_closest():
    done = CliRunner().invoke(app, ["guide", "pitfall"])
    assert done.exit_code != 0
    assert "pitfalls" in str(done.exception)


def test_all_pages_are_one_file_that_needs_no_network(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert CliRunner().invoke(app, ["guide", "game", "--open"]).exit_code == 0
    assert opened[0].endswith("guide.html#game")
    html = Path(write_page(str(tmp_path)).removeprefix("file://").partition("#")[0]).read_text()
    assert not re.search(r'(src|<link[^>]*href)="', html)
    assert html.count("<svg") == len(list((PAGES / "drawings").glob("*.svg")))
    sections = set(re.findall(r'<section id="([\w-]+)"', html))
    assert sections >= {*WRITTEN, *GENERATED}
