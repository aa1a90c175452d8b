"""Results as tables: the same numbers, whatever the format."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from report.made import make_screen, make_traits

from clusterscale.errors import InputError
from clusterscale.reporting import Run, tables, write_tables
from clusterscale.reporting.tables import frames


@pytest.fixture
def run(make_results):
    """An audit with failures, a screen and traits."""
    failed = np.zeros((12, 1, 1, 3, 1, 3), bool)
    failed[0] = True
    return Run.of([make_results(failed=failed), make_screen(), make_traits()])


def read(path):
    return pd.read_csv(path) if path.endswith("csv") else pd.read_parquet(path)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_every_number_is_in_its_row(run, tmp_path, form):
    written = write_tables(run, tmp_path / "t", form)
    assert {path.rpartition("/")[2] for path in written} >= {
        f"audit-cases.{form}",
        f"audit-verdicts.{form}",
        f"screen-users.{form}",
        f"traits-characteristics.{form}",
    }
    for kind, name in (("audit", "cases"), ("screen", "users")):
        dataset = getattr(run, kind)
        table = read(str(tmp_path / "t" / f"{kind}-{name}.{form}"))
        dims = dataset.auc.dims
        assert tuple(table.columns[: len(dims)]) == dims
        again = table.set_index(list(dims)).auc.to_xarray().reindex_like(dataset.auc)
        assert np.allclose(again.values, dataset.auc.values, equal_nan=True)
    assert {"pseudonym", "tertile", "n_events"} <= set(read(written[0]).columns)


def test_cases_that_were_not_run_have_no_row(run, tmp_path):
    status = run.audit["status"].astype(object)
    status[3] = "missing"
    run = Run.of([run.audit.assign(status=status)])
    write_tables(run, tmp_path, "csv")
    table = pd.read_csv(tmp_path / "audit-cases.csv")
    assert int(run.audit.target[3]) not in set(table.target)
    assert set(table.status) == {"done", "failed"}


def test_pieces_make_the_whole(monkeypatch, tmp_path):
    screened = make_screen()
    whole = pd.concat(frames(screened, "auc", ["auc", "n_events"]))
    monkeypatch.setattr(tables, "_ROWS", 12)
    pieces = list(frames(screened, "auc", ["auc", "n_events"]))
    assert len(pieces) > 10
    pd.testing.assert_frame_equal(pd.concat(pieces).reset_index(drop=True), whole)
    write_tables(Run.of([screened]), tmp_path, "parquet")
    assert len(pd.read_parquet(tmp_path / "screen-users.parquet")) == len(whole)


@pytest.mark.slow
def test_netcdf_is_the_dataset(run, tmp_path):
    run.screen.attrs["complete"] = True
    write_tables(run, tmp_path, "netcdf")
    for kind, dataset in run.parts():
        with xr.open_dataset(tmp_path / f"{kind}.nc", engine="h5netcdf") as again:
            assert again.attrs["format"] == dataset.attrs.get("format", again.attrs["format"])
            assert set(again.variables) == set(dataset.variables)
            for name in dataset.variables:
                if dataset[name].dtype.kind in "fiu":
                    assert np.array_equal(again[name], dataset[name], equal_nan=True), name
                else:
                    assert [*again[name].values.ravel()] == [*dataset[name].values.ravel()], name


def test_another_format_is_refused(run, tmp_path):
    with pytest.raises(InputError, match="format 'xlsx' is not one of csv, parquet, netcdf"):
        write_tables(run, tmp_path, "xlsx")
