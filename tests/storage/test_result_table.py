"""Tables of results: times, and dimensions of which there is nothing."""

import numpy as np
import pytest

from clusterscale.errors import DamagedError, MissingError
from clusterscale.schema import TEXT, Variable
from clusterscale.storage import manifest
from clusterscale.storage.result_table import create_table, open_table, seal_table

VARIABLES = {
    "row": Variable(("row",), "iu", "1", "number"),
    "name": Variable(("row",), TEXT, "", "name"),
    "time": Variable(("row",), "M", "", "when"),
    "value": Variable(("row", "column"), "f", "1", "value"),
    "column": Variable(("column",), TEXT, "", "column"),
}


def write(uri, n_rows, *, complete=True):
    columns = {
        "row": range(n_rows),
        "name": [f"n{i}" for i in range(n_rows)],
        "time": [i * 86_400 - 10**9 for i in range(n_rows)],
        "column": ["a", "b"],
    }
    create_table(uri, VARIABLES, columns, {"row": 2}, {"format": "test", "complete": complete})
    seal_table(uri)


@pytest.mark.parametrize("n_rows", [0, 1, 5])
def test_what_is_known_is_there_and_the_rest_is_not_a_number(tmp_path, n_rows):
    write(str(tmp_path / "results.zarr"), n_rows)
    found = open_table(tmp_path, "table", "test", VARIABLES).load()
    assert found.sizes == {"row": n_rows, "column": 2}
    assert found.name.values.tolist() == [f"n{i}" for i in range(n_rows)]
    assert found.value.isnull().all()
    if n_rows:
        assert found.time.values[0] == np.datetime64("1938-04-24T22:13:20")


def test_a_chunk_of_missing_values_is_written_so_that_a_lost_one_is_noticed(tmp_path):
    store = tmp_path / "results.zarr"
    write(str(store), 5)
    chunks = sorted(path for path in store.rglob("*") if path.is_file() and "c" in path.parts)
    assert len(chunks) == 3 * 3 + 1 + 3 * 2
    for chunk in chunks:
        content = chunk.read_bytes()
        chunk.unlink()
        manifest.seal(str(store))
        with pytest.raises(DamagedError, match=f"{chunk.relative_to(store)} is missing; run"):
            open_table(tmp_path, "table", "test", VARIABLES)
        chunk.write_bytes(content)
        manifest.seal(str(store))
    assert open_table(tmp_path, "table", "test", VARIABLES).value.isnull().all()


def test_what_is_not_complete_is_not_opened(tmp_path):
    write(str(tmp_path / "results.zarr"), 2, complete=False)
    with pytest.raises(MissingError, match="this table has not finished"):
        open_table(tmp_path, "table", "test", VARIABLES)
