"""Texts that YAML would expand, change or never finish are refused in few words."""

import os
import random
import re
from datetime import date

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from loops import for_each

from clusterscale.config import load, parse
from clusterscale.config.plain_yaml import content_of
from clusterscale.config.reading import CONFIGS, load_policy, load_publication, parse_entry
from clusterscale.errors import ClusterscaleError, ConfigError, InputError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.models import dump_yaml
from clusterscale.release import TABLE_FORMATS

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


DIFFERENT = ["010", "-010", "1_0", "1_000.5", "1:30", "190:20:30", "1:30.5", "0b11", "0o7", "08"]
DIFFERENT += ["01009", "1e5", "1.5e3", "1E-2", "-.5", "+.5e3", "-0x1F", "8e3", "89283082800e123"]
DIFFERENT += [one for word in ("yes", "no", "on", "off") for one in (word, word.title())]
ALIKE = {"10": 10, "-3": -3, "+3": 3, "0": 0, "1.5": 1.5, "1.": 1.0, ".5": 0.5, "1.0e-3": 1e-3}
ALIKE |= {"true": True, "False": False, "null": None, "~": None, "0x1F": 31, "y": "y", "N": "N"}
ALIKE |= {"2026-03-02": "2026-03-02", "2026-03-02T08:00": "2026-03-02T08:00", "1h": "1h"}
ALIKE |= {"8928308280fffff": "8928308280fffff", "1.2.3": "1.2.3", "A_1": "A_1", "00": 0, "007": 7}
TEMPLATES = ("k: {}", "a: [1, {}]", "{{a: {{b: {}}}}}", "{}: 5")


@for_each("text", DIFFERENT)
def test_what_two_versions_of_yaml_read_differently_is_refused(text):
    for template in TEMPLATES:
        with pytest.raises(
            ConfigError, match=r"x: line 1, column \d+: .* in YAML 1\.1 and .* 1\.2"
        ):
            content_of(template.format(text), "x")
    for quoted in (f"'{text}'", f'"{text}"', f"!!str {text}"):
        assert content_of(f"k: {quoted}", "x") == {"k": text}


@for_each("text", ALIKE)
def test_what_they_read_alike_is_read(text):
    assert content_of(f"k: {text}", "x") == {"k": ALIKE[text]}
    assert type(content_of(f"k: {text}", "x")["k"]) is type(ALIKE[text])


@given(text=st.text("0123456789_.+-eExob:naf", min_size=1, max_size=6))
def test_plain_values_are_refused_unless_both_versions_read_the_same(text):
    """An oracle of YAML 1.2: the tables of its core schema (section 10.3.2)."""
    core = text
    if re.fullmatch("[-+]?[0-9]+", text):
        core = int(text)
    elif re.fullmatch(r"0o[0-7]+", text):
        core = int(text[2:], 8)
    elif re.fullmatch(r"0x[0-9a-fA-F]+", text):
        core = int(text[2:], 16)
    elif re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text):
        core = float(text)
    try:
        old = yaml.load(text, Loader=yaml.SafeLoader)
        assume(not isinstance(old, date | dict | list))
    except (yaml.YAMLError, ValueError):
        assume(False)
    if (type(old), old) == (type(core), core) and old not in (float("inf"), float("-inf")):
        assert content_of(text, "x") == core
    else:
        with pytest.raises(ConfigError):
            content_of(text, "x")


@given(
    st.dictionaries(
        st.text("019_.+-eExob:nofys", max_size=5),
        st.one_of(
            st.text("0189_.+-eExob:nofys", max_size=6),
            st.integers(),
            st.floats(allow_nan=False, allow_infinity=False),
            st.booleans(),
            st.none(),
        ),
    )
)
def test_what_is_written_is_read_back(values):
    assume(all(len(str(value)) < 40 for value in values.values()))
    for style in (None, True):
        assert content_of(dump_yaml(values, default_flow_style=style), "x") == values


@for_each(
    ("text", "call"),
    [
        ("{name: threshold, k: 010}", lambda text: parse_entry(MECHANISMS, text)),
        ("{name: laplace, epsilon: 1:30}", lambda text: parse_entry(MECHANISMS, text)),
        ("{name: long, hidden: [no]}", lambda text: parse_entry(TABLE_FORMATS, text)),
        ("utility: {hotspot_f1: 1_0}", None),
    ],
)
def test_mechanisms_formats_and_policies_are_read_so(text, call, tmp_path):
    (tmp_path / "a.yaml").write_text(text)
    for act in filter(None, (call, *([] if call else [load_policy, load_publication]))):
        with pytest.raises(ConfigError, match=r"in YAML 1\.1 and"):
            act(text if call else tmp_path / "a.yaml")
