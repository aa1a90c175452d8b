"""Work grows with the size of what is given, and what would take far more is refused by name."""

from collections import Counter
from collections.abc import Collection

import pytest

from clusterscale.api import check
from clusterscale.config import load_publication
from clusterscale.errors import FormatError, InputError
from clusterscale.reading import tables
from clusterscale.release import publication
from clusterscale.release.publication import Hierarchy, Publication, PublicationTable, find_cycle


def chain(n):
    return {f"c{i}": [f"c{i + 1}"] for i in range(n)}


class Listed(Collection):
    """Names, which counts how often it is asked for one."""

    def __init__(self, names):
        self.names, self.n_asked = set(names), 0

    def __contains__(self, name):
        self.n_asked += 1
        return name in self.names

    def __iter__(self):
        return iter(self.names)

    def __len__(self):
        return len(self.names)


def test_a_code_list_in_one_chain_is_read_and_walked_in_linear_work():
    n = 20_000
    hierarchy = Hierarchy(chain(n), "of.csv")
    assert len(list(hierarchy.above(f"c{n - 900}"))) == 900
    assert hierarchy.lists_all(f"c{n}", listed := Listed(["c0"]))
    assert listed.n_asked == n
    assert not hierarchy.lists_all(f"c{n}", {"elsewhere"})
    with pytest.raises(InputError, match=r"of\.csv: 'c0' is a part of more than 1,000 places"):
        list(hierarchy.above("c0"))


def test_crossing_parents_are_walked_once_each():
    # Of 2 places a step, each is a part of both of the next: there are 2 ** 40 ways up.
    n, pairs = 40, {}
    for i in range(n):
        pairs |= {f"{side}{i}": [f"a{i + 1}", f"b{i + 1}"] for side in "ab"}
    hierarchy = Hierarchy(pairs)
    assert len(list(hierarchy.above("a0"))) == 2 * n
    assert hierarchy.lists_all(f"a{n}", listed := Listed(["a0", "b0"]))
    assert listed.n_asked == 2 * n
    wide = {end: [f"{end}{i}" for i in range(40)] for end in "xy"}
    with pytest.raises(InputError, match="'x → y' is a part of more than 1,000 places"):
        list(Hierarchy(wide).above("x → y"))


def test_a_long_circle_is_named_by_its_first_places():
    pairs = chain(20_000) | {"c20000": ["c0"]}
    assert len(find_cycle(pairs)) == 20_002
    with pytest.raises(InputError) as caught:
        Hierarchy(pairs, "of.csv")
    assert "c0 is a part of c1" in str(caught.value)
    assert "(19,996 more)" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_many_tables_are_read_once_each_and_their_people_looked_up_once(tmp_path, monkeypatch):
    n, listed = 20, []
    for i in range(n):
        text = f"place,time,count\nA,2026-03-02,{20 + i}\nB,2026-03-02,{30 + i}\n"
        (tmp_path / f"t{i}.csv").write_text(text)
        listed.append(f"  - {{counts: t{i}.csv, people: group {i:04} of {i**7}, alone: true}}\n")
    (tmp_path / "p.yaml").write_text(
        "format: {name: long, step: 1d, timezone: UTC}\nmechanism: {name: exact}\n"
        "group_size: 200\ntables:\n" + "".join(listed)
    )
    n_read, n_labels, seen = Counter(), Counter(), []
    read, label = tables._from_csv, PublicationTable.label.fget

    def counted(piece, *rest):
        n_read[piece.file.name] += 1
        return read(piece, *rest)

    def labelled(table):
        n_labels[table.counts] += 1
        return label(table)

    monkeypatch.setattr(tables, "_from_csv", counted)
    check([str(tmp_path / "p.yaml")], progress=seen.append)
    assert len(n_read) == n
    assert set(n_read.values()) == {1}
    assert {now.stage for now in seen} == {"reading tables", "bounding counts", "checking tables"}
    assert [now.n_done for now in seen if now.stage == "reading tables"] == list(range(n + 1))

    plan = load_publication(str(tmp_path / "p.yaml"))
    monkeypatch.setattr(PublicationTable, "label", property(labelled))
    for _ in range(10):
        assert {plan.people_of(f"t{i}.csv") for i in range(n)} == {
            f"group {i:04} of {i**7}" for i in range(n)
        }
    assert max(n_labels.values()) <= 3  # and not once for each other table and each time


def test_people_of_a_copy_with_other_tables_are_its_own():
    plan = Publication(tables=(PublicationTable(counts="a.csv", people="residents"),))
    assert plan.people_of("a.csv") == "residents"
    other = plan.model_copy(update={"tables": (PublicationTable(counts="a.csv", people="women"),)})
    assert (other.people_of("a.csv"), plan.people_of("a.csv")) == ("women", "residents")
    assert other.people_of("men") == "men"


def test_a_file_with_more_different_texts_than_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CLUSTERSCALE_TABLE_MEMORY", "1e5")
    (tmp_path / "of.csv").write_text(
        "place,parent\n" + "".join(f"c{i},c{i + 1}\n" for i in range(200))
    )
    (tmp_path / "t.csv").write_text("place,time,count\nc199,2026-03-02,9\n")
    (tmp_path / "p.yaml").write_text(
        "format: {name: long, step: 1d}\nmechanism: {name: exact}\n"
        "tables: [{counts: t.csv, parents: [of.csv]}]\n"
    )
    plan = load_publication(str(tmp_path / "p.yaml"))
    with pytest.raises(FormatError, match="different texts in columns would take"):
        publication.read_hierarchies(plan)
