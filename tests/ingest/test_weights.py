"""A table of weights gives every user of the records one weight, or says what is wrong with it."""

import pandas as pd
import pytest

pytest.importorskip("dask")

from ingest.oracle import START, ingest_records

from clusterscale.cube import TraceCube
from clusterscale.errors import InputError, MissingError, SourceError
from clusterscale.ingestion import Events
from clusterscale.ingestion.inputs import pseudonyms

pytestmark = [pytest.mark.dask, pytest.mark.usefixtures("small_chunks")]

KEY = b"0123456789abcdef"
FACTORS = {f"u{i}": 1 + 0.5 * i for i in range(9)}


@pytest.fixture
def records(tmp_path):
    rows = [(user, START + 10 * i, i % 8, 1) for i in range(60) for user in [f"u{i % 7}"]]
    pd.DataFrame(rows, columns=["card", "timestamp", "lat", "lon"]).to_csv(
        tmp_path / "records.csv", index=False
    )
    return tmp_path / "records.csv"


def build(records, table, name="cube.zarr", **options):
    uri = str(records.with_name(name))
    options = {"reader": Events(user="card"), "weights": str(table), **options}
    ingest_records(str(records), uri, **options)
    return TraceCube(uri)


def write(records, factors=FACTORS, name="factors.csv"):
    """Write a table in another order than the users, with a column that is not read."""
    table = pd.DataFrame({"card": list(factors), "tariff": "b", "weight": list(factors.values())})
    table, path = table.iloc[::-1], records.with_name(name)
    table.to_parquet(path) if name.endswith("parquet") else table.to_csv(path, index=False)
    return path


def found(cube):
    return dict(zip(map(str, cube.user_ids()), cube.weights.tolist(), strict=True))


@pytest.mark.parametrize("name", ["factors.csv", "factors.parquet"])
def test_every_user_of_the_cube_gets_the_weight_of_the_table(records, name):
    cube = build(records, write(records, name=name))
    assert found(cube) == {f"u{i}": 1 + 0.5 * i for i in range(7)}
    assert cube.mean_weight == 2.5
    assert cube.attributes["provenance"]["weights"] == name


def test_pseudonyms_have_the_weight_of_their_user(records):
    cube = build(records, write(records), pseudonymise=KEY)
    hashes = pseudonyms(list(FACTORS), KEY)
    expected = dict(zip(hashes, FACTORS.values(), strict=True))
    assert found(cube) == {name: expected[name] for name in found(cube)}


def test_users_who_are_left_out_need_no_weight(records):
    cube = build(records, write(records, {"u0": 2.0, "u1": 3.0}), top_users=2)
    assert found(cube) == {"u0": 2.0, "u1": 3.0}


def test_a_repeated_row_says_nothing_new(records):
    path = records.with_name("twice.csv")
    text = write(records).read_text()
    path.write_text(text + "\n".join(text.splitlines()[1:]) + "\n")
    assert found(build(records, path)) == {f"u{i}": 1 + 0.5 * i for i in range(7)}


WRONG = {
    "absent": ({"u0": 1.0, "u9": 2.0}, r"6 of 7 users of the records have no weight: give"),
    "zero": (FACTORS | {"u2": 0.0}, r"the weights of 1 of 9 users are not positive numbers"),
    "negative": (FACTORS | {"u2": -1, "u8": -2}, r"the weights of 2 of 9 users are not positive"),
    "text": (FACTORS | {"u2": "many"}, r"the weights of 1 of 9 users are not positive numbers"),
    "empty": (FACTORS | {"u2": ""}, r"the weights of 1 of 9 users are not positive numbers"),
    "no user": (FACTORS | {"": 1.0}, r"1 row cannot be read: a row has a card and a weight"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_table_is_refused_with_the_number_of_users_and_no_name(records, fault):
    factors, message = WRONG[fault]
    kind = InputError if fault == "absent" else SourceError
    with pytest.raises(kind, match=rf"factors\.csv: {message}") as caught:
        build(records, write(records, factors))
    assert not any(user in str(caught.value) for user in FACTORS)
    assert not records.with_name("cube.zarr").exists()


def test_two_weights_of_a_user_are_refused(records):
    path = write(records)
    path.write_text(path.read_text() + "u1,b,7\nu3,b,7\n")
    with pytest.raises(SourceError, match="2 of 9 users have two different weights: give each"):
        build(records, path)


def test_a_missing_table_or_column_is_named(records):
    with pytest.raises(MissingError, match=r"none\.csv: there is no such file or folder"):
        build(records, records.with_name("none.csv"))
    with pytest.raises(SourceError, match=r"records\.csv has no column weight: its columns are"):
        build(records, records)
