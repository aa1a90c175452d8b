"""The page about plug-ins quotes the example, whose parts are short enough to be quoted."""

import inspect
import tomllib
from pathlib import Path

import pytest
from acme_privacy import attack, measure, mechanism
from loops import for_each

import clusterscale

pytest.importorskip("dask")
from acme_privacy import analysis, reader

PAGE = Path(clusterscale.__file__).parent / "guide" / "plug-ins.md"
EXAMPLE = Path(__file__).with_name("example")


@for_each("module", [analysis, attack, measure, mechanism, reader])
def test_the_page_quotes_each_module(module):
    _, _, code = inspect.getsource(module).partition('"""\n\n')
    assert f"```python\n{code}```" in PAGE.read_text()
    assert len(code.splitlines()) <= 65


def test_the_page_quotes_the_entry_points():
    text = (EXAMPLE / "pyproject.toml").read_text()
    start, end = text.index('[project.entry-points."'), text.index("[tool.hatch")
    assert f"```toml\n{text[start:end].strip()}\n```" in PAGE.read_text()
    for points in tomllib.loads(text)["project"]["entry-points"].values():
        for name, value in points.items():
            where, _, cls = value.partition(":")
            module = {one.__name__: one for one in (analysis, attack, measure, mechanism, reader)}[
                where
            ]
            assert getattr(module, cls).model_fields["name"].default == name
