"""A report appears whole or not at all, at a path or a URL."""

import os
from pathlib import Path

import pytest

from clusterscale import storage
from clusterscale.errors import StoreError
from clusterscale.reporting import render, write_report


@pytest.mark.usefixtures("no_figures")
def test_the_file_is_the_page_and_its_folder_is_made(make_results, tmp_path):
    results = make_results()
    path = Path(write_report(results, tmp_path / "new" / "deep" / "audit.html", title="Köln · 7"))
    assert path.read_text(encoding="utf-8") == render(results, title="Köln · 7")
    assert [p.name for p in path.parent.iterdir()] == ["audit.html"]


@pytest.mark.usefixtures("no_figures")
def test_a_url_will_do(make_results):
    results = make_results()
    uri = write_report(results, "memory://reports/audit.html")
    assert uri == "memory://reports/audit.html"
    assert storage.read(uri).decode() == render(results)
    storage.remove("memory://reports")


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_report_and_no_debris(make_results, tmp_path, monkeypatch, step):
    path = tmp_path / "audit.html"
    path.write_text("old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(StoreError, match=rf"^{path} is full; finished work is kept"):
        write_report(make_results(), path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["audit.html"]
