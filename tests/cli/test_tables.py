"""Tables on a terminal of 80 columns: letters for long labels, and the key that explains them."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from clusterscale.cli.tables import Key, add_numbers, new_table, show_pairs

LABELS = st.lists(
    st.text(st.characters(codec="ascii", categories=("L", "N", "P", "Zs")), min_size=1), unique=True
)


def shown(part=None, *, key=None, width=80):
    console = Console(width=width, file=io.StringIO())
    if part is not None:
        console.print(part)
    if key is not None:
        key.show(console)
    return console.file.getvalue()


def test_short_labels_stay_and_long_ones_get_one_letter_each():
    key = Key()
    labels = [f"mechanism number {i}" for i in range(28)]
    assert key.short("cross_validated") == "cross_validated"
    assert [key.short(label) for label in labels] == [key.short(label) for label in labels]
    assert [key.letter(label) for label in labels][-3:] == ["Z", "AA", "AB"]
    assert shown(key=Key()) == ""


@given(labels=LABELS)
def test_a_key_shows_every_label_and_fits(labels):
    key = Key(longest=8)
    for label in labels:
        key.short(label)
    text = shown(key=key)
    known = [label for label in labels if len(label) > 8]
    longest_word = max((len(word) for label in labels for word in label.split()), default=0)
    if longest_word < 70:
        assert all(len(line) <= 80 for line in text.splitlines())
    packed = "".join(text.split())
    for label in known:
        assert "".join(label.split()) in packed


def test_names_of_mechanisms_wrap_and_only_those_that_cannot_have_a_letter():
    key, table = Key(), new_table("mechanism")
    add_numbers(table, *(["privacy loss"] * 6))
    name = "Laplace noise, ε 0.1 per user and day, rounded"
    long = "at most 3 visits per user and day, then " + name
    for label in (name, long, "laplace(epsilon=0.1,unit=user_day)", "exact"):
        table.add_row(key.name(label), *(["0.500"] * 6))
    text = shown(table, key=key)
    labels = (name, long, "laplace(epsilon=0.1,unit=user_day)", "exact")
    assert [key.name(label) for label in labels] == [name, "A", "B", "exact"]
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"Laplace noise, ε .*0\.500", text)
    assert key.names([name, "exact", "a"], 2) == f"{name}; exact; …"
    assert key.names(["exact", "[a]"]) == r"exact, \[a]"


def test_labels_are_no_markup():
    key = Key()
    table = new_table()
    table.add_column("mechanism")
    table.add_row(key.short("[red]x[/]"))
    table.add_row(key.short("[bold red]a longer label[/]"))
    text = shown(table, key=key)
    assert "[red]x[/]" in text
    assert "[bold red]a longer label[/]" in text


def test_names_of_columns_are_broken_between_words_only():
    table = new_table()
    add_numbers(table, *(["privacy loss"] * 8))
    table.add_row(*(["0.500"] * 8))
    words = re.findall(r"[a-z]+", shown(table))
    assert set(words) == {"privacy", "loss"}


@pytest.mark.parametrize("width", [60, 80])
def test_values_are_broken_between_words_and_never_within(width):
    path = "/a/long/path/" + "x" * 45
    console = Console(width=width, file=io.StringIO())
    rows = {"why": "everyone and a task need more than a worker has, " * 3, "a path": path}
    show_pairs(console, path * 2, rows)
    lines = console.file.getvalue().splitlines()
    assert lines[0] == path * 2, "a path that is longer than a line is left whole"
    assert all(len(line) <= width for line in lines[1:])
    assert path in "\n".join(lines[1:])
    assert set(" ".join(lines[1:]).split()) >= set(rows["why"].split())
