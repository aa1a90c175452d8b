"""The page in a real browser: it draws, without an error and without the network."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from report.made import SERIES, make_screen, make_traits
from report.made_trend import make_trend, render

from clusterscale.reauditing import json_safe
from clusterscale.reporting import (
    Run,
    describe,
    render_sign_off,
    write_page,
    write_report,
)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.nightly(group="browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]

# of its maker, whatever page it shows: time, updates, accounts
_CHROMIUM_ASKS = re.compile(r"https?://([a-z0-9-]+\.)*(google|googleapis)\.com/")

# clicks and types as a reader would, and puts what came of it on the page
_ACT = """<script>addEventListener("load", function () {
  function table(words) { return Array.from(document.querySelectorAll("table"))
    .find(function (t) { return t.caption.textContent.indexOf(words) >= 0; }); }
  function firsts(t) { return Array.from(t.querySelectorAll("tbody tr"))
    .filter(function (r) { return !r.hidden && !r.querySelector(".group"); })
    .map(function (r) { return r.cells[0].textContent; }); }
  function click(t, column) { t.tHead.rows[0].cells[column].querySelector("button").click(); }
  function type(t, words) { var bar = t.closest(".scroll").previousElementSibling;
    var input = bar.querySelector("input"); input.value = words;
    input.dispatchEvent(new Event("input")); return bar.querySelector("output").textContent; }
  function press(t, words) { Array.from(t.closest(".scroll").previousElementSibling
    .querySelectorAll("button")).find(function (b) { return b.textContent === words; }).click(); }
  var found = {}, all = table("All users, by AUC"), plain = table("Results by group size");
  found.first = firsts(all);
  click(all, 1); found.down = firsts(all); found.sorted = all.tHead.rows[0].cells[1].ariaSort;
  click(all, 1); found.up = firsts(all);
  press(all, "Next"); found.next = firsts(all);
  found.told = type(all, "row 7"); found.filtered = firsts(all);
  found.none = type(all, "nobody"); found.empty = firsts(all); type(all, "");
  click(plain, 2); found.plain = Array.from(plain.tBodies).map(function (body) {
    return Array.from(body.rows).slice(1).map(function (r) { return r.cells[2].textContent; }); });
  found.few = type(plain, "spectral"); found.left = firsts(plain);
  var kept = null, create = URL.createObjectURL;
  URL.createObjectURL = function (blob) { kept = blob; return create(blob); };
  press(all, "Download as CSV");
  kept.text().then(function (text) { found.saved = text.split("\\r\\n");
    var held = document.createElement("script"); held.type = "text/plain"; held.id = "found";
    held.textContent = JSON.stringify(found); document.body.appendChild(held); });
});</script>"""

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


def dump(path, profile, width=1280):
    """Return the page after its scripts ran, and what it wrote to the console.

    Nothing but the file itself was asked for: that is checked by Chromium's own log of the network.
    """
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += ["--enable-logging=stderr", f"--user-data-dir={profile}"]
    command += [f"--window-size={width},3000", f"--log-net-log={profile}.log"]
    command += ["--virtual-time-budget=10000", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    asked = set(re.findall(r'"url":"([^"]*)"', Path(f"{profile}.log").read_text()))
    others = {url for url in asked if not _CHROMIUM_ASKS.match(url)}
    assert not others, others
    return done.stdout, re.findall(r"CONSOLE.*?\] (.*)", done.stderr)


def test_all_open_figures_are_drawn_without_an_error(make_results, tmp_path):
    results = make_results(mechanisms=("exact", "laplace(epsilon=1.0)"))
    html, console = dump(Path(write_report(results, tmp_path / "a.html")), tmp_path / "profile")
    # in the first fold: eleven measures, three group sizes, the boxes
    assert html.count('data-drawn="done"') == html.count("bk-Figure") == 15
    assert html.count('data-figure="tradeoff-') == 33
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


def test_a_page_that_asked_the_network_would_be_caught(tmp_path):
    (tmp_path / "a.html").write_text('<img src="http://localhost:9/x">')
    with pytest.raises(AssertionError, match="localhost:9"):
        dump(tmp_path / "a.html", tmp_path / "profile")


@pytest.fixture
def whole(make_results):
    """An audit, a screen and traits, with sixty users."""
    results = make_results(mechanisms=("exact", "laplace(epsilon=1.0)"))
    return Run.of([results, make_screen(n_users=60), make_traits()])


@pytest.mark.parametrize("width", [1280, 390])
def test_every_section_is_there_and_draws_on_wide_and_narrow_screens(whole, tmp_path, width):
    path = Path(write_report(whole, tmp_path / "a.html"))
    check = """<script>addEventListener("load", function () { setTimeout(function () {
      document.body.dataset.wide = document.documentElement.scrollWidth;
      document.body.dataset.cut = Array.from(document.querySelectorAll(".scroll"))
        .filter(function (it) { return it.scrollWidth > it.clientWidth; })
        .map(function (it) { return it.getAttribute("aria-label"); }).join(";"); }, 2000);
    });</script>"""
    path.write_text(path.read_text().replace("</body>", check + "</body>"))
    html, console = dump(path, tmp_path / "profile", width)
    for name in ("overview", "exposed", "everyone", "people", "traits", "map", "cells", "times"):
        assert f'<section id="{name}"' in html
    opened = html.count("bk-Figure")
    assert opened == html.count('data-drawn="done"')
    assert opened >= 12 + 1 + 1 + 4 + 1
    assert int(re.search(r'data-wide="(\d+)"', html)[1]) <= max(width, 500)  # Chromium's narrowest
    if width == 1280:
        assert re.search(r'data-cut="([^"]*)"', html)[1] == "", "no table is cut off"
    assert all("bokeh" in line and "idle" in line for line in console), console


def test_the_page_to_sign_prints_on_two_sheets(whole, tmp_path):
    reasons = [{"check": f"check {i}", "level": "pass", "text": "a reason " * 12} for i in range(9)]
    outcome = {"verdict": "pass", "policy": "p.yaml", "group_size": 50, "reasons": reasons}
    run = replace(whole, chosen="laplace(epsilon=1.0)")
    path = tmp_path / "a.html"
    series = SERIES | {"refused": "its budget is spent " * 9}
    facts = json_safe(describe(run, outcome, series)) | {"digest": "d"}
    path.write_text(render_sign_off(run, facts))
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={tmp_path / 'a.pdf'}"]
    subprocess.run([*command, path.as_uri()], capture_output=True, timeout=120, check=True)
    assert len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "a.pdf").read_bytes())) <= 2


def test_tables_sort_filter_page_and_save(whole, tmp_path):
    path = Path(write_report(whole, tmp_path / "a.html"))
    path.write_text(path.read_text().replace("</body>", _ACT + "</body>"))
    html, console = dump(path, tmp_path / "profile")
    assert all("bokeh" in line and "idle" in line for line in console), console
    found = json.loads(re.search(r'id="found">(.*?)</script>', html, re.DOTALL)[1])
    events = dict(enumerate(whole.screen.n_events.values[:, 0].tolist()))
    assert found["first"][0] == "row 7"
    assert len(found["first"]) == 20
    assert found["sorted"] == "descending"

    def sizes(rows):
        return [events[int(row.removeprefix("row "))] for row in rows]

    assert sizes(found["down"]) == sorted(events.values(), reverse=True)[:20]
    assert sizes(found["up"]) == sorted(events.values())[:20]
    assert sizes(found["next"]) == sorted(events.values())[20:40]
    assert found["told"] == "1–1 of 1 found"
    assert found["filtered"] == ["row 7"]
    assert found["none"] == "0–0 of 0 found"
    assert found["empty"] == []
    for body in found["plain"]:
        assert body == sorted(body, reverse=True)
    assert set(found["left"]) == {"spectral"}
    assert found["few"] == f"{len(found['left'])} of {sum(map(len, found['plain']))}"
    assert found["saved"][0] == '"User","Events","exact","laplace(epsilon=0.1)"'
    assert len(found["saved"]) == 62


def test_the_exact_setting_is_shown_where_the_pointer_is_and_saved(make_results, tmp_path):
    plain = {"name": "laplace", "epsilon": 0.1}
    plan = {"mechanisms": [plain, plain | {"integers": "round"}]}
    labels = ("exact", "laplace(epsilon=0.1)", "laplace(epsilon=0.1, integers='round')")
    results = make_results(mechanisms=labels, plan=json.dumps(plan))
    path = Path(write_report(Run.of([results, make_screen()]), tmp_path / "a.html"))
    hints = """<script>addEventListener("load", function () { setTimeout(function () {
      var held = document.createElement("script"); held.type = "text/plain"; held.id = "hints";
      held.textContent = JSON.stringify(Array.from(document.querySelectorAll("[title]"))
        .map(function (node) { return [node.tagName, node.textContent, node.title]; }));
      document.body.appendChild(held); }, 2000); });</script>"""
    path.write_text(path.read_text().replace("</body>", hints + _ACT + "</body>"))
    html, console = dump(path, tmp_path / "profile")
    assert all("bokeh" in line and "idle" in line for line in console), console
    found = json.loads(re.search(r'id="hints">(.*?)</script>', html, re.DOTALL)[1])
    title = "Laplace noise, ε 0.1 per user"
    for name, text, label in (
        ("TH", title, labels[1]),
        ("TH", f"{title}, rounded", labels[2]),
        ("SUMMARY", f"{title}, rounded", labels[2]),
        ("B", f"{title}, rounded", labels[2]),
        ("LI", title, labels[1]),
    ):
        assert [name, text, label] in [[tag, words.strip(), hint] for tag, words, hint in found]
    saved = json.loads(re.search(r'id="found">(.*?)</script>', html, re.DOTALL)[1])["saved"]
    assert saved[0] == '"User","Events","exact","laplace(epsilon=0.1)"'


@pytest.mark.parametrize("width", [1280, 390])
def test_a_trend_draws_and_links_on_wide_and_narrow_screens(tmp_path, width):
    hostile = '<img src="http://localhost:9/x" onerror="document.title=1">$$x$$</script>'
    table = make_trend(23, series=("cabs", hostile), mechanism=hostile)
    path = Path(write_page(render(table), tmp_path / "a.html"))
    check = """<script>addEventListener("load", function () { setTimeout(function () {
      document.body.dataset.wide = document.documentElement.scrollWidth;
      var rows = document.querySelector("#verdicts tbody").rows;
      document.body.dataset.told = Array.from(rows).map(function (row) { return [
        row.querySelector("th a").getAttribute("href"), row.cells[2].textContent,
        row.cells[2].firstChild.className].join(" "); }).join(";"); }, 2000); });</script>"""
    path.write_text(path.read_text().replace("</body>", check + _HOVER + "</body>"))
    html, console = dump(path, tmp_path / "profile", width)
    assert html.count('data-drawn="done"') == html.count("bk-Figure") == 3
    assert int(re.search(r'data-wide="(\d+)"', html)[1]) <= max(width, 500)  # Chromium's narrowest
    looks = {"pass": "good", "warn": "middling", "fail": "bad"}
    newest = table[::-1][:20]
    assert re.search(r'data-told="([^"]*)"', html)[1].split(";") == [
        f"{run}/report.html {verdict}ed {looks[verdict]}"
        for run, verdict in zip(newest.run, newest.verdict, strict=True)
    ]
    found = re.search(r'data-found="([^"]*)"', html)[1].split()
    assert found
    assert {"IMG", "UNKNOWN"}.isdisjoint(found)
    assert "<title>Exposure over releases</title>" in html
    assert all("bokeh" in line and "idle" in line for line in console), console
