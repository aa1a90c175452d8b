"""Texts that YAML would expand, change or never finish are refused in few words."""

import os
import random

import pytest
from loops import for_each

from clusterscale.config import load, parse
from clusterscale.config.plain_yaml import content_of
from clusterscale.config.reading import CONFIGS
from clusterscale.errors import ClusterscaleError, ConfigError, InputError

BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
REFUSED = {
    "aliases that expand": (BOMB, "at most 100,000 values"),
    "an alias of itself": ("a: &a [*a]", "contains it"),
    "depth": ("a: " + "[" * 3000, "nested more than 50 deep"),
    "digits": ("a: 1" + "0" * 400, "too many digits"),
    "infinite": ("a: .inf", "not a finite number"),
    "overflow": ("a: 1.0e+400", "not a finite number"),
    "a tag": ("a: !!binary aGk=", "is not allowed"),
    "a set": ("a: !!set {b, c}", "is not allowed"),
    "a mapping as key": ("a: {? {b: c} : d}", "not a list or a mapping"),
    "NUL": ("a: \0", "control character"),
    "escaped NUL": (r'a: "\0"', "control character"),
    "an escape sequence": (r'a: "\e[31m"', "control character"),
    "length": ("a" * 2**21, "at most 1,048,576"),
}
VALUES = ["!!set {a}", "2021-02-30", "1" + "0" * 400, ".nan", "-1", "[[]]", "{a: {b: 1}}", '"\\0"']
VALUES += ["null", "[" * 99, "x" * 5000, "*a", "{name: laplace, epsilom: 1}", "[{name: []}]", "0b_"]


@for_each("name", REFUSED)
def test_refused(name):
    text, words = REFUSED[name]
    with pytest.raises(ConfigError, match=r"^x\.yaml: ") as caught:
        content_of(text, "x.yaml")
    assert words in str(caught.value)
    assert len(str(caught.value)) < 200


def test_dates_stay_text():
    assert content_of("a: 2021-02-30", "x") == {"a": "2021-02-30"}


def test_aliases_remain():
    text = "a: &a {b: 1}\nc: *a"
    assert content_of(text, "x") == {"a": {"b": 1}, "c": {"b": 1}}


def test_a_mark_of_the_byte_order_is_skipped(tmp_path):
    (tmp_path / "run.yaml").write_bytes(
        b"\xef\xbb\xbf" + (CONFIGS / "quickstart.yaml").read_bytes()
    )
    assert load(tmp_path / "run.yaml").cube.preset == "tfl"


@pytest.mark.parametrize("content", ["é".encode("latin-1"), "a: b".encode("utf-16")])
def test_other_encodings(tmp_path, content):
    (tmp_path / "run.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path / "run.yaml")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "run.yaml")
    with pytest.raises(InputError, match="is a FIFO, not a regular file"):
        load(tmp_path / "run.yaml")


def test_many_faults_are_counted():
    with pytest.raises(ConfigError) as caught:
        parse("\n".join(f"key{i}: 1" for i in range(50)))
    lines = str(caught.value).splitlines()
    assert len(lines) <= 10
    assert lines[-1].endswith("more")


@for_each("seed", range(30))
def test_changed_configs_are_valid_or_refused_in_ten_lines(seed):
    rng = random.Random(seed)
    lines = (CONFIGS / "quickstart.yaml").read_text(encoding="utf-8").splitlines()
    for _ in range(rng.choice([1, 1, 3])):
        row = rng.randrange(len(lines))
        lines[row] = f"{lines[row].partition(':')[0]}: {rng.choice(VALUES)}"
    message = refusal_of("\n".join(lines))
    assert len(message.splitlines()) <= 10
    assert len(message) < 1200


def refusal_of(text):
    try:
        parse(text)
    except ClusterscaleError as error:
        return str(error)
    return ""
