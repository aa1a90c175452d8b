"""No secret in an address, none in anything shown or stored; no code out of stores or configs."""

from __future__ import annotations

import ast
import json
import pickle
import re
from pathlib import Path
from urllib.parse import quote, quote_plus

import numpy as np
import pytest
import zarr
from cube import crowd
from loops import for_each
from typer.testing import CliRunner

import clusterscale
from clusterscale import storage
from clusterscale.cli import app
from clusterscale.config import parse
from clusterscale.cube import TraceCube
from clusterscale.cube.attributes import digest
from clusterscale.cube.dense import pack
from clusterscale.errors import ConfigError, DamagedError, FormatError, InputError
from clusterscale.redaction import check_url, clean, in_markdown, one_line

CANARY = "Sing0-canary/secret+value"
CONFIG = """
cube: {cube}
output: {output}
audit:
  seed: 1
  targets: {{random: 2}}
  group_sizes: [3]
  periods: [{{name: all, first: 0, epochs: 6}}]
  priors: [{{name: known_subset, alpha: 0.5}}]
  mechanisms: [{{name: exact}}]
  attacks: [{{name: logistic}}]
"""
WITH_SECRETS = [
    f"s3://AKIAABCDEFGHIJKLMNOP:{CANARY}@bucket/cube",
    f"s3://:{CANARY}@bucket/cube",
    f"ftp://ann:{CANARY}@host:21/cube",
    f"https://host/cube?X-Amz-Signature={CANARY}",
    f"https://host/cube?partNumber=1&token={CANARY}",
    f"abfs://box@account.dfs.core.windows.net/cube?sig={CANARY}",
    f"s3://bucket/cube?aws_secret_access_key={CANARY}",
    f"s3://bucket/cube?AccessKey={CANARY}",
    f"gs://bucket/cube?api-key={CANARY}",
    f"simplecache::s3://ann:{CANARY}@bucket/cube",
    f"zip://inner::https://host/cube.zip?auth={CANARY}",
]
WITHOUT = [
    "cube.zarr",
    "/data/ann:b@c/cube",
    "file:///data/cube",
    "s3://bucket/cube",
    "s3://bucket/cube?versionId=3",
    "abfs://box@account.dfs.core.windows.net/cube",
    "sftp://ann@host:2222/cube",
    "https://host:8080/cube?partNumber=2",
    "simplecache::s3://bucket/cube",
]


@pytest.mark.parametrize("url", WITH_SECRETS)
def test_addresses_with_secrets_are_refused_and_not_repeated(url, tmp_path):
    for use in (check_url, storage.exists, storage.open_store, TraceCube):
        with pytest.raises(InputError, match="give credentials through the environment") as caught:
            use(url)
        assert CANARY not in str(caught.value)
    for cube, output in ((url, "out"), ("cube", url)):
        with pytest.raises(ConfigError, match="give credentials through the environment") as told:
            parse(CONFIG.format(cube=cube, output=output))
        assert CANARY not in str(told.value)


@pytest.mark.parametrize("protocol", ["s3", "S3", "gs", "https"])
def test_a_token_before_the_host_is_refused_and_hidden(protocol):
    url = f"{protocol}://AB0c-token@host/cube"
    with pytest.raises(InputError, match="a key or token before @") as caught:
        check_url(url)
    assert "AB0c" not in str(caught.value)
    assert clean(f"{url} is there") == f"{protocol}://[hidden]@host/cube is there"
    assert check_url(f"{protocol}://host/ann@home/cube")


@pytest.mark.parametrize(
    "encode",
    [
        quote,
        quote_plus,
        lambda text: quote(text, safe=""),
        lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text)),
        lambda text: quote(quote(text, safe=""), safe=""),
        lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    ],
)
def test_secrets_are_hidden_percent_encoded_too(encode, monkeypatch):
    secret = "Sing0 canary/secret+värde=="
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    assert clean(f"GET https://host/{encode(secret)} failed") == "GET https://host/[hidden] failed"
    url = encode("ftp://ann:Geh3im@host/cube")
    assert "Geh3im" not in clean(f"redirected to {url}")


@for_each("url", WITHOUT)
def test_other_addresses_pass(url):
    assert check_url(url) == url
    assert clean(url) == url
    assert parse(CONFIG.format(cube=url, output=url)).output == url


@for_each(
    "command",
    [
        "audit --output {url}",
        "screen --output {url}",
        "report {url}",
        "report out --output {url}",
        "inspect {url}",
        "synth tfl {url}",
        "pack {url} cube",
        "pack cube {url}",
        "ingest {url} cube --start 2008-05-19 --epochs 3",
        "ingest records {url} --start 2008-05-19 --epochs 3",
        "ingest records cube --start 2008-05-19 --epochs 3 --points {url}",
        "ingest records cube --start 2008-05-19 --epochs 3 --pseudonymise {url}",
    ],
)
def test_commands_refuse_them(command):
    done = CliRunner().invoke(app, command.format(url=WITH_SECRETS[0]).split())
    assert isinstance(done.exception, InputError)
    assert CANARY not in f"{done.output}{done.exception}"


@for_each(
    ("text", "expected"),
    [
        (
            "Cannot connect to https://host/cube?X-Amz-Algorithm=A&X-Amz-Credential=AKIA0/x"
            "&X-Amz-Security-Token=abc%2Fd&X-Amz-Signature=0a1b&partNumber=1",
            "Cannot connect to https://host/cube?X-Amz-Algorithm=A&X-Amz-Credential=[hidden]"
            "&X-Amz-Security-Token=[hidden]&X-Amz-Signature=[hidden]&partNumber=1",
        ),
        ("url=s3%3A//b%3Fsig%3Dabc", "url=s3%3A//b%3Fsig%3D[hidden]"),
        ("GET ftp://ann:pass@host/x failed", "GET ftp://[hidden]@host/x failed"),
        ("the key AKIAABCDEFGHIJKLMNOP is unknown", "the key [hidden] is unknown"),
        ("aws_secret_access_key='abc'", "aws_secret_access_key='abc'"),
        ("password=abc", "password=[hidden]"),
        ("chunk 3 of event_cell is missing", "chunk 3 of event_cell is missing"),
        ("group_size=100, mechanism=laplace(epsilon=1.0)",) * 2,
    ],
)
def test_cleaning(text, expected):
    assert clean(text) == expected


def test_secrets_of_the_environment_are_hidden_wherever_they_stand(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    monkeypatch.setenv("FSSPEC_S3_TOKEN", f"{CANARY}-2")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert clean(f"<{CANARY}> <{CANARY}-2> us-east-1") == "<[hidden]> <[hidden]> us-east-1"


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!!python/object:pathlib.Path"])
def test_objects_in_a_config_are_refused(tag, tmp_path):
    made = tmp_path / "made"
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG.format(cube=f"{tag} ['touch {made}']", output="out"))
    done = CliRunner().invoke(app, ["config", "check", str(path)])
    assert isinstance(done.exception, ConfigError)
    assert "is not allowed" in str(done.exception)
    assert not made.exists()


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self):
        return Path.touch, (self.made,)


TEXT, PICKLE = {"id": "vlen-utf8"}, {"id": "pickle", "protocol": 5}
# Zarr 3 knows no arrays of pickled objects. Of text that was pickled on top it lets the codec run.
CODECS = {
    "filter": {"filters": [TEXT, PICKLE]},
    "compressor": {"filters": [TEXT], "compressor": PICKLE},
    "objects": {"filters": [PICKLE]},
}


def store_pickles(group, name, made, size, dims, where="filter"):
    """Put an array of Zarr v2 there whose only chunk is a pickle that makes a file."""
    array = group.create_array(name, shape=(size,), chunks=(size,), dtype="i8", compressors=None)
    array.attrs["_ARRAY_DIMENSIONS"] = dims
    folder = Path(str(group.store.root)) / name
    about = json.loads((folder / ".zarray").read_text())
    about |= {"dtype": "|O", "fill_value": "", **CODECS[where]}
    (folder / ".zarray").write_text(json.dumps(about))
    (folder / "0").write_bytes(pickle.dumps(Payload(made)))


@pytest.fixture
def unsafe(monkeypatch):
    """As with a numcodecs that unpickles whatever comes, which older ones do without being told."""
    pickles = pytest.importorskip("numcodecs.pickles")
    if hasattr(pickles, "ALLOW_UNSAFE_PICKLE_DECODE"):
        monkeypatch.setattr(pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True)


@pytest.mark.parametrize("name", ["user", "trace", "beside"])
@pytest.mark.parametrize("where", CODECS)
@pytest.mark.parametrize("consolidated", [False, True])
def test_a_dense_cube_with_pickles_is_refused_unread(tmp_path, unsafe, name, where, consolidated):
    source, made = tmp_path / "dense", tmp_path / "made"
    group = zarr.create_group(source, zarr_format=2)
    trace = group.create_array("trace", shape=(4, 3, 5), chunks=(4, 3, 5), dtype="i1")
    trace.attrs["_ARRAY_DIMENSIONS"] = ["user", "roi", "epoch"]
    if name == "trace":
        del group["trace"]
    store_pickles(group, name, made, 4, ["user"], where)
    if consolidated and where != "objects":  # which Zarr itself does not know any more
        zarr.consolidate_metadata(source, zarr_format=2)
    told = (
        f"{source}: array {name} is stored with the codec pickle, which can run arbitrary code "
        "from the data: write its values as numbers or text"
    )
    with pytest.raises(FormatError, match="pickle" if where == "objects" else re.escape(told)):
        pack(source, tmp_path / "cube")
    assert not made.exists()


@pytest.mark.parametrize("where", ["filter", "compressor"])
def test_the_payload_works(tmp_path, unsafe, where):
    """Or the tests beside this one would prove nothing."""
    made = tmp_path / "made"
    group = zarr.create_group(tmp_path / "store", zarr_format=2)
    store_pickles(group, "user", made, 4, ["user"], where)
    with pytest.raises(Exception, match=r".*"):
        zarr.open_group(tmp_path / "store", mode="r")["user"][:]
    assert made.exists()


def test_a_cube_of_an_old_zarr_is_refused_unread(tmp_path, unsafe):
    """Attributes are sealed by no secret: anybody can write a cube that says it is sound."""
    made = tmp_path / "made"
    cube = crowd.write(tmp_path / "cube", crowd.draw(4, 3, 5))
    group = zarr.create_group(tmp_path / "forged", zarr_format=2)
    group.attrs.put({**cube.attributes, "digest": digest(cube.attributes)})
    store_pickles(group, "user", made, 4, ["user"])
    with pytest.raises(
        (DamagedError, FormatError), match=r"has an old Zarr format|does not belong there"
    ):
        TraceCube(tmp_path / "forged").user_ids()
    assert not made.exists()


UNPACKERS = {"load", "loads", "Unpickler"}
# These take their bytes from peers alone, whom TLS vouches for, or from the line before.
ALLOWED = {
    ("testing/attacks.py", "loads"),
    ("testing/checks.py", "loads"),
    ("runtime/learning.py", "loads"),
    ("runtime/dask.py", "loads"),
    ("runtime/scheduling.py", "loads"),
}


def find_calls():
    """Yield file, line and name of each call in the package that could run what it reads."""
    root = Path(clusterscale.__file__).parent
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        picklers, yaml = set(), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in PICKLERS:
                picklers |= {each.asname or each.name for each in node.names}
            elif isinstance(node, ast.Import):
                picklers |= {
                    each.asname or each.name for each in node.names if each.name in PICKLERS
                }
                yaml |= {each.asname or each.name for each in node.names if each.name == "yaml"}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (found := unsafe_name(node, picklers, yaml)):
                yield name, node.lineno, found


PICKLERS = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "pandas"}


def unsafe_name(call, picklers, yaml):
    """Return the name of what is called if it may run what it reads, else an empty text."""
    function = call.func
    if isinstance(function, ast.Name):
        if function.id in {"eval", "exec", "compile", "__import__"}:
            return function.id
        return function.id if function.id in picklers & (UNPACKERS | {"read_pickle"}) else ""
    if not isinstance(function, ast.Attribute):
        return ""
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    if function.attr == "read_pickle" or (owner in picklers and function.attr in UNPACKERS):
        return function.attr
    if owner in yaml and function.attr in {"load", "load_all", "unsafe_load", "full_load"}:
        loaders = [each.value for each in call.keywords if each.arg == "Loader"]
        named = [each.id for each in loaders if isinstance(each, ast.Name)]
        return "" if named == ["_StrictLoader"] else f"yaml.{function.attr}"
    for each in call.keywords:
        is_true = isinstance(each.value, ast.Constant) and each.value.value is True
        if each.arg == "allow_pickle" and is_true:
            return "allow_pickle"
    return ""


def test_nothing_in_the_package_runs_what_it_reads():
    found = list(find_calls())
    assert {(path, name) for path, _, name in found} == ALLOWED, found


@pytest.mark.parametrize(
    "code",
    [
        "import pickle\npickle.load(f)",
        "import pickle as p\np.Unpickler(f)",
        "from cloudpickle import loads\nloads(b)",
        "import yaml\nyaml.load(f)",
        "import yaml\nyaml.load(f, Loader=yaml.Loader)",
        "import yaml\nyaml.unsafe_load(f)",
        "import numpy as np\nnp.load(f, allow_pickle=True)",
        "import pandas as pd\npd.read_pickle(f)",
        "eval('1')",
        "exec('1')",
    ],
)
def test_the_search_finds_what_it_is_for(code, tmp_path, monkeypatch):
    (tmp_path / "module.py").write_text(code)
    monkeypatch.setattr(clusterscale, "__file__", str(tmp_path / "__init__.py"))
    assert [line for _, line, _ in find_calls()] == [code.count("\n") + 1]


def test_the_strict_loader_is_a_safe_one():
    import yaml

    from clusterscale.config.plain_yaml import _StrictLoader

    assert issubclass(_StrictLoader, yaml.SafeLoader)
    assert not np.any([tag and "python" in tag for tag in _StrictLoader.yaml_constructors])


def test_the_work_on_a_long_word_is_bounded():
    """A million letters take no longer than some; before, the time grew with their square."""
    for word in ("x" * 10**6, "key" * 10**5, "%3A%2F%2F%3A" * 10**5, "ab-." * 10**5):
        assert len(clean(f"unknown name {word}: choose another")) < 200
    words = " ".join(["%3A%2F%2F%3A" * 160] * 3)
    assert clean(words) == words
    assert clean("s3%3A%2F%2Fann%3Ageheim%40host/cube") == "s3%3A%2F%2F[hidden]%40host/cube"


def test_lines_and_controls_of_others_are_data():
    for mark in "\n\r\x85\u2028\u2029\u202e\u2066\u061c\u200b\ufeff\U000e0041":
        assert one_line(f"a{mark}b: 1") == "a\ufffdb: 1"
    assert one_line(Path("a\nb")) == "a\ufffdb"
    assert one_line(3) == 3
    assert in_markdown("<script>[a](b)&#x202e;`c`") == ("\\<script>\\[a\\](b)\\&#x202e;\\`c\\`")
