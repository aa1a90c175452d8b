"""Results of a plug-in are computed again after any change of its code, and never reused.

Each way to change code is followed by an audit with certificates, a screen, certificates alone,
a gate and a re-audit in the folders of the older code. ``pytest -n 0 -m slow -s`` prints a table.
"""

import importlib
import json
import sys
import warnings
from zipfile import ZipFile

import numpy as np
import pytest

import clusterscale as cs
from clusterscale.analyses.audit import AuditPlan
from clusterscale.errors import InputError
from clusterscale.reauditing import Catalogue, Reaudit, ReauditPlan, find_releases
from clusterscale.runtime import SerialExecutor

pytest.importorskip("dask")
pytestmark = pytest.mark.slow

FIELDS = {
    "seed": 3,
    "targets": {"random": 2},
    "group_sizes": [6],
    "periods": [{"name": "all", "first": 0, "epochs": 24}],
    "priors": [{"name": "known_subset", "alpha": 0.5, "training": 20, "challenges": 20}],
    "attacks": [{"name": "projection"}],
    "utility": {"groups": 2, "measures": [{"name": "pearson"}]},
    "verdict": {"trials": 1000},
}
SOURCE = '''
from typing import Literal

import numpy as np

from clusterscale.contracts import Guarantee, Mechanism

{before}


class Noise(Mechanism):
    """Noise on each count."""

    name: Literal["noise"] = "noise"
    noise_scope = "cell"

    @property
    def guarantee(self):
        {inside}
        reason = "noise is added"
        return Guarantee("user", 1.8 / {scale}, 0.0, "add_remove", reason, sensitivity=60.0)

    def release(self, counts, *, group_size, rng):
        {inside}
        return counts + rng.laplace(scale={scale}, size=counts.shape)
'''
SCALES = (8.0, 0.5)
LOCAL = ("acme_noise", "acme_helper")


def source(scale, before="", inside="pass"):
    return SOURCE.format(scale=scale, before=before, inside=inside)


def load(folder, text, *more):
    """Write modules, import the first as a new process would, and return its class."""
    for name, content in (("acme_noise", text), *more):
        (folder / f"{name}.py").write_text(content)
    return fresh_class()


def fresh_class():
    for name in LOCAL:
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    if code := sys.modules.get("clusterscale.study.foreign_code"):
        code._owners.cache_clear()
        code._known.cache_clear()
    return importlib.import_module("acme_noise").Noise


def install(folder, version, record, *, name="acme_noise", editable=False):
    """Write the metadata of an installed distribution."""
    for old in folder.glob(f"{name}-*.dist-info"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (about / "top_level.txt").write_text(name)
    (about / "RECORD").write_text(f"{name}.py,sha256={record},1\n")
    url = {"url": "file:///x", "dir_info": {"editable": editable}}
    (about / "direct_url.json").write_text(json.dumps(url))


def module(folder, i):
    return load(folder, source(SCALES[i]))


def editable(folder, i):
    install(folder, "1.0", "same", editable=True)
    return load(folder, source(SCALES[i]))


def installed(folder, i):
    install(folder, "1.0", f"code{i}")
    return load(folder, source(SCALES[i]))


def version(folder, i):
    install(folder, f"1.{i}", "same")
    return load(folder, source(SCALES[1]))


def helper(folder, i):
    text = source("acme_helper.SCALE", inside="import acme_helper", before="import acme_helper")
    return load(folder, text, ("acme_helper", f"SCALE = {SCALES[i]}"))


def installed_helper(folder, i):
    install(folder, f"1.{i}", "same", name="acme_helper")
    return helper(folder, i)


def late_helper(folder, i):
    inside = "from acme_helper import SCALE"
    text = source("SCALE", inside=inside, before="SCALE = 1.0")
    return load(folder, text, ("acme_helper", f"SCALE = {SCALES[i]}"))


def data_file(folder, i):
    package = folder / "acme_noise"
    package.mkdir(exist_ok=True)
    (package / "scale.txt").write_text(str(SCALES[i]))
    read = (
        "from pathlib import Path\nSCALE = float(Path(__file__).with_name('scale.txt').read_text())"
    )
    (package / "__init__.py").write_text(source("SCALE", before=read))
    return fresh_class()


def zipped_helper(folder, i):
    inside = "from acme_helper import SCALE"
    text = source("SCALE", inside=inside, before="SCALE = 1.0")
    with ZipFile(folder / "helper.zip", "w") as archive:
        archive.writestr("acme_helper.py", f"SCALE = {SCALES[i]}")
    sys.path[:] = [str(folder / "helper.zip"), *(one for one in sys.path if "helper" not in one)]
    sys.path_importer_cache.pop(sys.path[0], None)
    return load(folder, text)


def in_memory(folder, i):
    cls = load(folder, source("SCALE", before=f"SCALE = {SCALES[0]}"))
    sys.modules["acme_noise"].SCALE = SCALES[i]
    return cls


def replaced_method(folder, i):
    cls = load(folder, source(SCALES[0]))
    if i:
        made = {"__name__": "acme_noise"}
        exec(source(SCALES[1]), made)
        cls.release, cls.guarantee = (
            vars(made["Noise"])[name] for name in ("release", "guarantee")
        )
    return cls


def notebook(folder, i):
    exec(source(SCALES[i]), vars(sys.modules["__main__"]))
    return sys.modules["__main__"].Noise


def notebook_global(folder, i):
    exec(source("SCALE", before=f"SCALE = {SCALES[i]}"), vars(sys.modules["__main__"]))
    return sys.modules["__main__"].Noise


def notebook_helper(folder, i):
    (folder / "acme_helper.py").write_text(f"def scale():\n    return {SCALES[i]}")
    sys.modules.pop("acme_helper", None)
    importlib.invalidate_caches()
    before = "from acme_helper import scale"
    exec(source("scale()", before=before), vars(sys.modules["__main__"]))
    return sys.modules["__main__"].Noise


WAYS = [module, editable, installed, version, helper, installed_helper, late_helper, data_file]
WAYS += [in_memory, replaced_method, notebook, notebook_global, notebook_helper]


def plan_of(cls):
    return AuditPlan(**FIELDS, mechanisms=[{"name": "exact"}, cls()])


def run_audit(cls, cube, folder, **options):
    found = cs.audit(plan_of(cls), cube, folder / "run", progress=False, **options)
    return found.auc.values, found.epsilon_seen.values


def run_screen(cls, cube, folder, **options):
    return (cs.screen(plan_of(cls), cube, folder / "run", progress=False, **options).auc.values,)


def run_certify(cls, cube, folder, **options):
    found = cs.certify(plan_of(cls), cube, folder / "alone", progress=False, **options)
    return tuple(found[name].values for name in ("auc", "epsilon") if name in found)


ANALYSES = {"audit": run_audit, "screen": run_screen, "certify": run_certify}


def work_on(cls, cube, folder):
    from oracles.releases import dataset, write

    from clusterscale.groups import count_visits

    if not (folder / "releases").exists():
        values = count_visits(cube.traces(None, (0, 12)), np.arange(6)[None])[0]
        told = dataset(values.astype(float), list(cube.regions.names))
        told.attrs = {"group_size": 6, "mechanism": {"name": "noise"}, "first": 0, "series": "day"}
        write(told, folder / "releases", name="day", mode="w")
    audit = {key: FIELDS[key] for key in ("seed", "targets", "priors", "attacks", "utility")}
    plan = ReauditPlan(audit=audit, everyone=False, published=4)
    known = Catalogue(tuple(find_releases(str(folder / "releases"))), cube.uri, f"{folder}/l.json")
    return Reaudit(plan, known, str(folder / "reaudit"))


def same(one, other):
    return all(np.array_equal(*pair, equal_nan=True) for pair in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def references(cube, tmp_path_factory):
    """Return the results of each analysis in folders of their own, by scale of the noise."""
    found = {}
    for scale in SCALES:
        folder = tmp_path_factory.mktemp("reference")
        exec(source(scale), vars(sys.modules["__main__"]))
        cls = sys.modules["__main__"].Noise
        found[scale] = {kind: run(cls, cube, folder) for kind, run in ANALYSES.items()}
    assert not same(found[SCALES[0]]["audit"], found[SCALES[1]]["audit"])
    assert not same(found[SCALES[0]]["screen"], found[SCALES[1]]["screen"])
    return found


@pytest.mark.parametrize(
    ("change", "force"), [*((way, False) for way in WAYS), (module, True), (notebook, True)]
)
def test_no_result_of_other_code_is_reused(
    change, force, references, cube, tmp_path, monkeypatch, capsys
):
    monkeypatch.syspath_prepend(tmp_path)
    # Python would take two texts of one size and one second for the same, and load the first.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = change(tmp_path, 0)
    first = {kind: run(before, cube, tmp_path) for kind, run in ANALYSES.items()}
    start = SCALES[1] if change is version else SCALES[0]
    assert same(first["audit"], references[start]["audit"])
    with warnings.catch_warnings():  # the same code is not computed again
        warnings.simplefilter("error", UserWarning)
        assert same(run_screen(change(tmp_path, 0), cube, tmp_path), first["screen"])
    after, row = change(tmp_path, 1), {}
    try:
        cs.gate(tmp_path / "run", mechanism="noise")
    except InputError as error:
        row["gate"] = "refused" if "other code" in str(error) else str(error)
    else:
        row["gate"] = "stale verdict"
    for kind, run in ANALYSES.items():
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = run(after, cube, tmp_path, force=force)
        right = same(found, references[SCALES[1]][kind])
        again = any("they are computed again" in str(one.message) for one in told)
        row[kind] = "stale" if not right else "again" if again else "untold"
    with capsys.disabled():
        print(
            f"\n{change.__name__:<17}", *(f"{kind} {text}," for kind, text in row.items()), end=" "
        )
    assert row == {"gate": "refused", **dict.fromkeys(ANALYSES, "again")}


def test_no_result_of_code_in_an_archive_is_reused(references, cube, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for i, scale in enumerate(SCALES):
        cls = zipped_helper(tmp_path, i)
        for kind, run in ANALYSES.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                assert same(run(cls, cube, tmp_path), references[scale][kind])
        with pytest.raises(InputError, match="other code"):
            cs.gate(tmp_path / "run", mechanism="noise")


@pytest.mark.parametrize("change", [module, editable, version, helper, notebook_global])
def test_a_release_is_audited_again_with_other_code(change, cube, tmp_path, monkeypatch):
    from clusterscale.testing import registered

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with registered(change(tmp_path, 0)):
        work = work_on(None, cube, tmp_path)
        for one in work.pending():
            work.evaluate(one, SerialExecutor())
        assert len(work.ledger) == 1
        assert work.pending() == []
    with registered(change(tmp_path, 0)):
        assert work_on(None, cube, tmp_path).pending() == []
    with registered(change(tmp_path, 1)):
        assert len(work_on(None, cube, tmp_path).pending()) == 1
