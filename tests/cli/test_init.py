"""A config that ``clusterscale init`` writes fits the cube, for every answer."""

import json
import re

import pytest
import yaml
from jsonschema import Draft202012Validator
from loops import mostly_slow
from typer.testing import CliRunner

from clusterscale.cli import app
from clusterscale.config import load
from clusterscale.cube.synthetic import synthesise
from clusterscale.errors import ExistsError, InputError


@pytest.fixture(scope="module")
def weeks(tmp_path_factory):
    """A cube of four weeks."""
    return synthesise("tfl", str(tmp_path_factory.mktemp("init") / "cube.zarr"), users=200, seed=1)


def init(*words):
    return CliRunner().invoke(app, ["init", *map(str, words)], catch_exceptions=False)


@pytest.mark.slow
@pytest.mark.parametrize("knows", ["users", "past", "release"])
def test_what_it_writes_fits_the_cube(weeks, tmp_path, knows):
    file = tmp_path / "new" / "audit.yaml"
    done = init(file, "--cube", weeks.uri, "--knows", knows, "--publishes", "hidden,noise,capped")
    assert done.exit_code == 0, done.output
    config = load(file)
    config.check(weeks)
    assert len(config.audit.mechanisms) == 4  # raw counts are always there for comparison
    text = file.read_text()
    # editors look for the schema beside the file
    (named,) = re.findall(r"^# yaml-language-server: \$schema=(\S+)$", text, re.MULTILINE)
    validator = Draft202012Validator(json.loads((file.parent / named).read_text()))
    validator.validate(yaml.safe_load(text))
    assert not validator.is_valid(yaml.safe_load(text.replace("tertiles", "tertile")))


def test_what_is_there_is_kept(weeks, tmp_path):
    file = tmp_path / "audit.yaml"
    file.write_text("mine")
    with pytest.raises(ExistsError, match="--force"):
        init(file, "--cube", weeks.uri)
    assert file.read_text() == "mine"
    assert init(file, "--cube", weeks.uri, "--size", 30, "--force").exit_code == 0
    assert load(file).audit.group_sizes == (30,)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name the cube to audit"),
        (("--knows", "user"), "--knows 'user' is not known: choose from"),
        (("--publishes", "counts,nothing"), "--publishes 'nothing' is not known"),
        (("--size", "all"), "--size .all.: give a number of people, 2 or more, or everyone"),
    ],
)
def test_what_cannot_be_written_is_refused(weeks, tmp_path, words, says):
    cube = ("--cube", weeks.uri) if words else ()
    with pytest.raises(InputError, match=says):
        init(tmp_path / "audit.yaml", *cube, *words)
    assert not list(tmp_path.iterdir())


@mostly_slow(
    ("knows", "size", "n_people"),
    [("users", "everyone", 800), ("release", 199, 398), ("users", 30, 200), ("past", 60, 200)],
)
def test_an_audit_is_made_at_the_size_of_the_release(weeks, tmp_path, knows, size, n_people):
    """Where the users are too few for groups of that size, others are simulated."""
    file = tmp_path / "audit.yaml"
    done = init(file, "--cube", weeks.uri, "--knows", knows, "--size", size)
    n_counted = 200 if size == "everyone" else size
    assert f"--group-size {n_counted}" in " ".join(done.output.split())
    config = load(file)
    assert config.audit.group_sizes == (n_counted,)
    cube = config.cube.open()
    assert cube.n_users == n_people
    config.check(cube)
    if n_people == 200:
        assert cube.uri == weeks.uri
        return
    assert cube.n_known == 200
    assert "simulated" in file.read_text()
    users = config.audit.choose(cube).users
    assert users.max() < 200, "targets are known people"
    assert load(file).cube.open().fingerprint == cube.fingerprint
