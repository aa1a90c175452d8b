"""Calls of the API: executors, progress, verdicts, the accessor and figures."""

import io
import sys

import pytest
import xarray as xr
from loops import mostly_slow
from rich.console import Console

import clusterscale as cs
from clusterscale.api.execution import LineBar, open_executor, show_progress
from clusterscale.errors import FormatError, InputError, PackageError
from clusterscale.study import Progress


@pytest.fixture(scope="module")
def run(cube, shared_plan_fields, tmp_path_factory):
    """A finished audit of two targets: its folder, plan and the progress that was reported."""
    plan = cs.AuditPlan(
        **{**shared_plan_fields, "targets": {"random": 2}, "group_sizes": [3]},
        utility={"measures": [{"name": "pearson"}], "groups": 2},
        verdict={"trials": 1000},
    )
    folder, seen = tmp_path_factory.mktemp("run"), []
    cs.audit(plan, cube, folder, cs.SerialExecutor(), progress=seen.append)
    return folder, plan, seen


@pytest.mark.slow
def test_an_audit_reports_progress_and_resumes(run, cube):
    folder, plan, seen = run
    stages = list(dict.fromkeys(now.stage for now in seen))
    assert stages == ["visits", "ceilings", "audit", "results"], "certificates are first"
    first = next(now for now in seen if now.stage == "audit")
    assert (first.n_done, seen[-1].n_done) == (0, seen[-1].n_tasks)
    again = []
    results = cs.audit(plan, cube, folder, cs.SerialExecutor(), progress=again.append)
    assert [(now.stage, now.n_done) for now in again] == [("audit", first.n_tasks)]
    assert results.identical(cs.open_results(str(folder)))


def test_a_cluster_is_opened_and_its_memory_used():
    with open_executor(cs.Serial()) as (executor, usable):
        assert isinstance(executor, cs.SerialExecutor)
        assert usable > 0
    with (
        pytest.raises(InputError, match="executor is of type str, but should be an executor"),
        open_executor("local"),
    ):
        pass


def test_no_progress_is_shown_outside_terminals(capsys):
    for progress in (True, False):
        with show_progress(progress, "audit") as tell:
            tell(Progress("audit", 3, 1))
    assert capsys.readouterr() == ("", "")


class Displays:
    """What a notebook shows, in place of IPython: each state of one output."""

    def __init__(self):
        self.states = []

    def display(self, data, *, raw, display_id):
        assert raw
        assert display_id
        self.update(data, raw=True)
        return self

    def update(self, data, *, raw):
        self.states.append(data)


def test_a_notebook_shows_the_progress_without_widgets(monkeypatch):
    shown = Displays()
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setitem(sys.modules, "IPython", shown)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    with show_progress(True, "<audit>") as tell:
        assert "&lt;audit&gt; <progress></progress>" in shown.states[-1]["text/html"]
        tell(Progress("audit", 3000, 1))
        tell(Progress("audit", 3000, 2, 998))
    assert '<progress max="3000" value="1000">' in shown.states[-1]["text/html"]
    assert shown.states[-1]["text/plain"].startswith("audit 1,000 of 3,000, 0:")


@pytest.mark.slow
def test_failed_tasks_are_a_warning(run, cube, monkeypatch, tmp_path):
    folder, plan, _ = run
    monkeypatch.setattr("clusterscale.analyses.audit.analysis.count_failed", lambda results: 2)
    with pytest.warns(RuntimeWarning, match="2 tasks of the audit failed"):
        cs.audit(plan, cube, folder, cs.SerialExecutor())


def test_gate_and_report_of_a_folder(run):
    folder, _, _ = run
    verdict = cs.gate(folder)
    assert verdict.verdict in ("warn", "fail")
    assert verdict.mechanism.startswith("laplace")
    assert {reason["check"] for reason in verdict.reasons} >= {"exposure"}
    assert f"<strong>{verdict.verdict}: laplace" in verdict._repr_html_()
    assert "groups of 3; period all; 2 targets" in verdict._repr_html_()
    assert cs.report([folder], folder / "one.html") == str(folder / "one.html")
    with pytest.raises(InputError, match="`output` is missing"):
        cs.report([folder])


@mostly_slow(("size", "level"), [(None, "warn"), (3, "pass"), (4, "warn")])
def test_a_gate_is_for_the_audited_size_only(run, size, level):
    reasons = {one["check"]: one for one in cs.gate(run[0], group_size=size).reasons}
    assert reasons["group_size"]["level"] == level


def test_the_accessor_has_findings_tables_and_figures(run):
    results = cs.open_results(str(run[0]))
    shown = results.clusterscale
    assert next(finding.mechanism for finding in shown.findings) == "exact"
    assert "exact, groups of 3, all, known_subset" in repr(shown.findings[0])
    table = shown.to_dataframe()
    assert len(table) == results.auc.size
    assert list(shown.to_dataframe("utility").measure.unique()) == ["pearson"]
    with pytest.raises(InputError, match="no table 'case' of this audit"):
        shown.to_dataframe("case")
    assert [len(draw()) for draw in (shown.plot.auc, shown.plot.loss, shown.plot.tradeoff)] == [
        2,
        2,
        1,
    ]
    with pytest.raises(FormatError):
        _ = xr.Dataset().clusterscale.findings


@pytest.mark.slow
def test_figures_are_saved_with_their_names(run, tmp_path):
    pytest.importorskip("matplotlib")
    results = cs.open_results(str(run[0]))
    (tradeoff,) = cs.figures.tradeoff(results)
    text = (tmp_path / "a.svg", tmp_path / "b.svg")
    for path in text:
        assert tradeoff.save(path) == str(path)
    first, second = (path.read_text() for path in text)
    assert first == second
    assert "utility loss" in first
    assert "Laplace noise" in first
    boxes = cs.figures.loss(results)[0]
    assert boxes.save(tmp_path / "loss.png").endswith("loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert "logistic" in _svg(cs.figures.auc(results)[0], tmp_path)
    png, shown = boxes._repr_png_()
    assert png.startswith(b"\x89PNG")
    assert shown["alt"] == boxes.description
    with pytest.raises(InputError, match="does not end in"):
        boxes.save(tmp_path / "loss.gif")


def test_without_matplotlib_the_error_says_what_to_install(run, tmp_path, monkeypatch):
    figure = cs.figures.auc(cs.open_results(str(run[0])))[0]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PackageError, match="pip install"):
        figure.save(tmp_path / "auc.png")
    assert figure._repr_png_() is None


def _svg(figure, folder):
    figure.save(folder / "auc.svg")
    return (folder / "auc.svg").read_text()


def test_every_public_name_exists():
    for name in cs.__all__:
        assert getattr(cs, name) is not None


def test_readers_by_mapping(tmp_path):
    with pytest.raises(InputError, match="reader: `name` is missing"):
        cs.ingest("a", tmp_path / "b", reader={"user": "x"}, start="2024-01-01", epochs=1)


def test_progress_is_a_line_every_half_minute_in_a_log():
    now = [0.0]
    file = io.StringIO()
    bar = LineBar(console=Console(file=file, width=80), get_time=lambda: now[0])
    line = bar.add_task("audit", total=None)
    for second in range(100):
        now[0] = float(second)
        bar.update(line, total=200, completed=second)
    assert file.getvalue().splitlines() == [
        "audit: 30 of 200, 0:02:50 left",
        "audit: 60 of 200, 0:02:20 left",
        "audit: 90 of 200, 0:01:50 left",
    ]
