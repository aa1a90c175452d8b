"""Small tables of HTML: whole, and nothing in them but text."""

from hypothesis import given
from hypothesis import strategies as st
from tables import TAGS, Reader

from clusterscale.html_tables import grid, list_facts

cells = st.text(max_size=20) | st.lists(st.text(max_size=20), max_size=3)


@given(st.text(max_size=20), st.dictionaries(st.text(max_size=20), cells, max_size=4))
def test_facts_are_text(title, facts):
    found = Reader(list_facts(title, facts))
    assert set(found.tags) <= TAGS
    assert found.tags.count("tr") == len(facts)
    told = [title, *facts]
    told += [
        text for each in facts.values() for text in ([each] if isinstance(each, str) else each)
    ]
    for text in told:
        assert "".join(text.split()) in "".join("".join(found.texts).split())


@given(st.text(max_size=20), st.lists(st.lists(cells, min_size=2, max_size=2), max_size=4))
def test_a_grid_is_text(title, rows):
    found = Reader(grid(title, ["<a>", "b"], rows))
    assert set(found.tags) <= TAGS
    assert found.tags.count("td") == 2 * len(rows)
    assert "<a>" in found.texts


def test_nothing_has_a_colour():
    html = list_facts("a", {"b": "c"}) + grid("a", ["b"], [["c"]])
    assert {value for _, value in Reader(html).attributes} == {"text-align: left", "row", "col"}
