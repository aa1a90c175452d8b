"""What the papers say in words, each statement by itself, as quick studies find it.

``CLUSTERSCALE_PAPERS=runs/papers pytest -m papers -n 0`` holds them to the whole studies instead,
which ``clusterscale reproduce all`` has left in that folder. A statement passes where it holds, is
skipped where so few people leave it open, and fails where ours break it by more than chance, unless
its study says why they do.
"""

import functools
import os
from math import isnan

import pytest

from clusterscale.config import find_studies, load_study
from clusterscale.report.reproduced import AGREES, BREAKS, EXPLAINED, OPEN

pytest.importorskip("distributed")
pytestmark = [pytest.mark.papers, pytest.mark.dask, pytest.mark.timeout(7200)]

DONE = os.environ.get("CLUSTERSCALE_PAPERS")
STUDIES = {name: load_study(path, quick=not DONE) for name, path in find_studies(["all"]).items()}
STATEMENTS = [
    pytest.param(name, claim.text, id=f"{name}: {claim.text}")
    for name, study in STUDIES.items()
    for claim in study.claims
]
COMPARED = [name for name, study in STUDIES.items() if study.is_real and study.published]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Return what a study tells, computed when it is asked for first."""
    from clusterscale.papers import Cubes, reproduce
    from clusterscale.runtime import Local

    folder = DONE or str(tmp_path_factory.mktemp("papers"))
    data = os.environ.get("CLUSTERSCALE_DATA")
    cubes = Cubes(f"{folder}/cubes", f"{data}/sfcabs.parquet" if data else None)
    with Local(workers=2, memory="5GB").open() as executor:

        @functools.cache
        def tell(name):
            study = STUDIES[name]
            if not cubes.has(study):
                pytest.skip("set CLUSTERSCALE_DATA to a folder of real mobility data")
            return reproduce(name, study, cubes, f"{folder}/{name}", executor, memory=5_000_000_000)

        yield tell


@pytest.mark.parametrize(("name", "text"), STATEMENTS)
def test_statement(told, name, text):
    found = {each.text: each for each in told(name).kept}
    if text not in found:
        pytest.skip("left out of the quick study")
    kept = found[text]
    margin = f"margin {kept.margin:+.3f} ± {kept.half:.3f} ({kept.told})"
    print(margin)
    if kept.verdict == OPEN:
        pytest.skip(f"open: {margin}")
    if kept.verdict == BREAKS and kept.why:
        pytest.xfail(f"{kept.why}: {margin}")
    assert kept.verdict != BREAKS, margin


@pytest.mark.parametrize("name", COMPARED)
def test_most_numbers_agree_and_of_the_others_something_is_said(told, name):
    compared = told(name).compared
    assert not [each for each in compared if isnan(each.ours)]
    others = [each for each in compared if each.verdict not in (AGREES, EXPLAINED)]
    assert len(others) < 0.6 * len(compared)
    for each in others:
        print(f"{each.item} {each.setting}: {each.paper}, ours {each.ours:.4g}: {each.why}")
