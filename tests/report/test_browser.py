"""The page in a real browser: it draws, without an error and without the network."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clusterscale.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

# points at every pixel of every figure's middle line, then puts what the tooltips hold on the page
_HOVER = """<script>addEventListener("load", function () { setTimeout(function () {
  var found = [];
  function nodes(root, out) { root.querySelectorAll("*").forEach(function (node) { out.push(node);
    if (node.shadowRoot) nodes(node.shadowRoot, out); }); return out; }
  document.querySelectorAll("[data-figure]").forEach(function (box) {
    var target = nodes(box, []).find(function (n) { return n.classList.contains("bk-events"); });
    if (!target) return;
    var r = target.getBoundingClientRect();
    for (var x = 60; x < r.width - 10; x += 4) for (var y = 5; y < r.height - 40; y += 8) {
      target.dispatchEvent(new PointerEvent("pointermove", {clientX: r.left + x,
        clientY: r.top + y, bubbles: true, composed: true, isPrimary: true,
        pointerType: "mouse"}));
      Array.from(document.body.children)
        .filter(function (n) { return /Tooltip/.test(n.className); })
        .forEach(function (n) { nodes(n.shadowRoot || n, []).forEach(function (m) {
          found.push(m.tagName); if (/onerror/.test(m.textContent)) found.push("AS-TEXT");
          if (/\\?\\?\\?/.test(m.textContent)) found.push("UNKNOWN"); }); });
    } });
  document.body.dataset.found = Array.from(new Set(found)).join(" ");
}, 1500); });</script>"""


def dump(path, profile):
    """Return the page after its scripts ran, and what it wrote to the console."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += ["--enable-logging=stderr", f"--user-data-dir={profile}", "--window-size=1280,3000"]
    command += ["--virtual-time-budget=10000", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, re.findall(r"CONSOLE.*?\] (.*)", done.stderr)


def test_all_open_figures_are_drawn_without_an_error(make_results, tmp_path):
    results = make_results(mechanisms=("exact", "laplace(epsilon=1.0)"))
    html, console = dump(Path(write_report(results, tmp_path / "a.html")), tmp_path / "profile")
    # in the first fold: eight measures, three group sizes, the boxes
    assert html.count('data-drawn="done"') == html.count("bk-Figure") == 12
    assert html.count('data-figure="tradeoff-') == 24
    assert all("bokeh" in line and "idle" in line for line in console), console


def test_hostile_text_runs_nothing_and_loads_nothing(make_results, tmp_path):
    hostile = '<img src="http://localhost:9/x" onerror="document.title=1">$$x$$</script>'
    results = make_results(
        attacks=(hostile, "b"), mechanisms=("exact", hostile), n_targets=3, sizes=(5,)
    )
    results = results.isel(measure=[0])
    path = Path(write_report(results, tmp_path / "a.html", title=hostile))
    path.write_text(path.read_text().replace("</body>", _HOVER + "</body>"))
    html, console = dump(path, tmp_path / "profile")
    found = re.search(r'data-found="([^"]*)"', html)[1].split()
    assert "AS-TEXT" in found
    assert {"IMG", "UNKNOWN"}.isdisjoint(found)
    assert "<title>1</title>" not in html
    assert all("bokeh" in line and "idle" in line for line in console), console
