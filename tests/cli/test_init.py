"""A config that ``clusterscale init`` writes fits the cube, for every answer."""

import json
import re

import pytest
import yaml
from jsonschema import Draft202012Validator
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
        (("--size", 5000), "no config was written"),
    ],
)
def test_what_cannot_be_written_is_refused(weeks, tmp_path, words, says):
    cube = ("--cube", weeks.uri) if words else ()
    with pytest.raises(InputError, match=says):
        init(tmp_path / "audit.yaml", *cube, *words)
    assert not list(tmp_path.iterdir())
