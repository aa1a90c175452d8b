"""A report appears whole or not at all."""

import pytest

from clusterscale.report import render, write_report


def test_the_file_is_the_page_and_its_folder_is_made(make_results, tmp_path):
    results = make_results()
    path = write_report(results, tmp_path / "new" / "deep" / "audit.html", title="Köln · 7")
    assert path.read_text(encoding="utf-8") == render(results, title="Köln · 7")
    assert [p.name for p in path.parent.iterdir()] == ["audit.html"]


def test_a_path_may_be_text(make_results, tmp_path):
    assert write_report(make_results(), str(tmp_path / "a.html")).exists()


@pytest.mark.parametrize("step", ["write_text", "replace"])
def test_a_failure_leaves_the_old_report_and_no_debris(make_results, tmp_path, monkeypatch, step):
    path = tmp_path / "audit.html"
    path.write_text("old")

    def full(self, *args, **kwargs):
        if step == "write_text":
            self.write_bytes(b"<!DOCTYPE")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(path), step, full)
    with pytest.raises(OSError, match="No space"):
        write_report(make_results(), path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["audit.html"]
