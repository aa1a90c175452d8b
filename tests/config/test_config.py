"""Good configs: every one that comes with the project, and what the rest of the file promises."""

import json
from pathlib import Path

import pytest
import yaml

from clusterscale.analyses.audit import AuditPlan
from clusterscale.config import Config, ReleasesConfig, built_in, load, load_either, parse, schema
from clusterscale.config.run import CubeSource
from clusterscale.errors import ConfigError, ExistsError, MissingError

FOLDER = Path(__file__).parents[2] / "configs"
FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_config_loads_and_says_what_it_is_for(path):
    assert isinstance(load_either(path), ReleasesConfig if path.stem == "releases" else Config)
    head = path.read_text()
    for word in ("Answers:", "Costs:", "Change:"):
        assert word in head, f"{path.name} must say what it answers, costs and where to change it"


def test_there_are_configs():
    assert {"quickstart", "cabs"} <= {path.stem for path in FILES}


def test_the_package_carries_the_quickstart():
    assert built_in() == (FOLDER / "quickstart.yaml").read_text()


def test_shown_defaults_are_read_back_the_same():
    config = parse(built_in())
    again = parse(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
    assert again.audit.digest == config.audit.digest
    assert again == config


def test_nobody_is_counted_as_nowhere_unless_the_config_says_so(plan_fields):
    """Runs that say which keep the ids that they had when the default was the other."""
    plan_fields |= {"group_sizes": [3], "mechanisms": [{"name": "exact"}]}
    plan_fields |= {"attacks": [{"name": "projection"}]}
    del plan_fields["null_roi"]
    silent, true, false = (
        AuditPlan(**plan_fields, **some) for some in ({}, {"null_roi": True}, {"null_roi": False})
    )
    assert not silent.null_roi
    assert silent.digest == false.digest == "bbec22e4dcf998e95fc1ad82b1e4569f"
    assert true.digest == "96cb66fc6ddcd902ca34a73a536ca0d1"
    assert not parse(built_in()).audit.null_roi


def test_a_path_alone_is_a_cube():
    text = yaml.safe_dump(yaml.safe_load(built_in()) | {"cube": "cubes/mine.zarr"})
    assert parse(text).cube == CubeSource(path="cubes/mine.zarr")


def test_schema_names_every_entry():
    described = json.loads(schema())
    text = json.dumps(described)
    for name in ("known_subset", "laplace", "projection", "group_sizes", "serial"):
        assert f'"{name}"' in text
    assert described["additionalProperties"] is False


def test_no_such_file(tmp_path):
    with pytest.raises(MissingError) as caught:
        load(tmp_path / "no.yaml")
    assert str(caught.value) == f"{tmp_path}/no.yaml: there is no such config file"


def test_a_file_that_is_not_text(tmp_path):
    path = tmp_path / "image.yaml"
    path.write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: this is not UTF-8 text"


def test_a_preset_is_written_once_and_never_over_another(tmp_path):
    source = CubeSource(path=str(tmp_path / "cube"), preset="milan", users=30, seed=1)
    first = source.open()
    stamp = (tmp_path / "cube" / "zarr.json").stat().st_mtime_ns
    assert source.open().fingerprint == first.fingerprint
    assert (tmp_path / "cube" / "zarr.json").stat().st_mtime_ns == stamp
    with pytest.raises(
        ExistsError, match="contains a cube other than milan with 30 users and seed 2"
    ):
        source.model_copy(update={"seed": 2}).open()
