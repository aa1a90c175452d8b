"""The notebook of the guide runs in a kernel, and shows its objects, the progress and figures."""

from pathlib import Path

import pytest

import clusterscale
from clusterscale.cli.guide import written

pytestmark = [pytest.mark.nightly(group="guide"), pytest.mark.timeout(1800)]

NEEDED = "pip install 'clusterscale[docs]'"


def read():
    nbformat = pytest.importorskip("nbformat", reason=NEEDED)
    notebook = nbformat.read(written()["notebook"], 4)
    nbformat.validate(notebook)
    return notebook


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Return the outputs of each cell by its last line, and the folder in which they ran."""
    nbclient = pytest.importorskip("nbclient", reason=NEEDED)
    folder = tmp_path_factory.mktemp("notebook")
    notebook = read()
    options = {"kernel_name": "python3", "timeout": 1200}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR"):
            patch.setenv(f"JUPYTER_{name}", str(folder / name))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        patch.setenv("PYTHONPATH", str(Path(clusterscale.__file__).parents[1]))
        client = nbclient.NotebookClient(
            notebook, resources={"metadata": {"path": str(folder)}}, **options
        )
        client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return {cell.source.splitlines()[-1]: cell.outputs for cell in cells}, folder


def test_the_notebook_is_kept_without_outputs():
    for cell in read().cells:
        assert not cell.get("outputs")
        assert not cell.get("execution_count")


def test_nothing_is_printed_and_nothing_warns(executed):
    shown = [output for outputs in executed[0].values() for output in outputs]
    assert not [output for output in shown if output.output_type == "stream"]
    assert not [output for output in shown if "Warning" in output.data["text/plain"]]


def test_the_progress_of_the_audit_is_shown_to_its_end(executed):
    bar, summary = executed[0]["results.clusterscale"]
    assert '<progress max="1" value="1">' in bar.data["text/html"]
    assert bar.data["text/plain"].startswith("results 1 of 1, 0:"), "the last stage writes them"
    assert "Strongest attacks" in summary.data["text/html"]


def test_a_cube_a_plan_and_a_gate_are_tables(executed):
    for line, text in (
        ("cube", "fingerprint"),
        ("plan", "noise for a visit"),
        ('cs.gate("runs/notebook", mechanism="noise for a visit", group_size=50)', "exposure"),
    ):
        (output,) = executed[0][line]
        assert "<table>" in output.data["text/html"]
        assert text in output.data["text/html"]


def test_figures_are_pictures_with_descriptions(executed):
    shown, folder = executed
    (curves,) = shown["results.clusterscale.plot.auc()"]
    assert curves.data["text/html"].count("data:image/png;base64") == 3
    assert curves.data["text/html"].count('alt="Cumulative distribution of AUC') == 3
    (tradeoff,) = shown["figures[0]"]
    assert tradeoff.data["image/png"]
    assert tradeoff.metadata["image/png"]["alt"].startswith("Mean privacy gain and utility loss")
    assert "(nearly) empty release" in (folder / "tradeoff.svg").read_text()
    assert (folder / "report.html").stat().st_size > 0
