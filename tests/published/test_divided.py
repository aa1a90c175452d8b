"""A table with many categories is read once, and each part is what reading it alone gives."""

import numpy as np
import pandas as pd
import pytest

from clusterscale.config.reading import load_publication
from clusterscale.reading import tables
from clusterscale.release import TABLE_FORMATS
from clusterscale.release import long as long_tables
from clusterscale.release.publication import read_strata


def rows(n_ages=30, seed=1):
    rng = np.random.default_rng(seed)
    frame = pd.MultiIndex.from_product(
        [["P1", "P2", "P3"], ["2026-03-02T08:00:00Z", "2026-03-02T09:00:00Z"],
         [f"a{i:02}" for i in range(n_ages)], ["f", " m"]], names=["place", "time", "age", "sex"],
    ).to_frame(index=False)  # fmt: skip
    frame["count"] = rng.integers(0, 9, len(frame)).astype(str)
    frame.loc[rng.random(len(frame)) < 0.1, "count"] = "<5"
    return frame.sample(frac=1, random_state=1)


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder"])
def test_each_part_is_what_reading_it_alone_gives(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BATCH", 50)
    monkeypatch.setattr(long_tables, "_PIECE", 1000)
    frame, uri = rows(), str(tmp_path / f"t.{kind}")
    if kind == "csv":
        frame.to_csv(uri, index=False)
    elif kind == "parquet":
        frame.to_parquet(uri, row_group_size=70)
    else:
        for sex, part in frame.groupby("sex"):
            folder = tmp_path / "t.folder" / f"sex={sex.strip()}"
            folder.mkdir(parents=True)
            part.drop(columns="sex").to_csv(folder / "a.csv", index=False)
    form = TABLE_FORMATS.create("long", where={"age": [f"a{i:02}" for i in range(9)] + ["none"]})
    parts = list(form.divided(uri, ("age", "sex")))
    assert [texts for texts, _ in parts] == form.texts_of(uri, ("age", "sex"))
    assert len(parts) == 18
    for texts, part in parts:
        where = {**form.where, **{name: (text,) for name, text in texts.items()}}
        assert part.where == where
        found, alone = part.read(uri), form.model_copy(update={"where": where}).read(uri)
        np.testing.assert_array_equal(found.values, alone.values)
        assert (found.rois, found.bands) == (alone.rois, alone.bands)
        np.testing.assert_array_equal(found.epochs, alone.epochs)


def test_messages_name_the_line_of_the_file(tmp_path):
    frame = rows(2)
    frame.iloc[7, frame.columns.get_loc("count")] = "many"
    frame.to_csv(tmp_path / "t.csv", index=False)
    form = TABLE_FORMATS.create("long")
    parts = form.divided(str(tmp_path / "t.csv"), ("age", "sex"))
    with pytest.raises(ValueError, match="line 9, column count: 'many'"):
        [part.read(str(tmp_path / "t.csv")) for _, part in parts]


def test_a_text_that_no_row_has_is_told_in_no_part_but_its_own(tmp_path):
    rows(3).to_csv(tmp_path / "t.csv", index=False)
    form = TABLE_FORMATS.create("long", where={"age": ["a00", "a01", "of none"]}, add_rows=True)
    for _, part in form.divided(str(tmp_path / "t.csv"), ("sex",)):
        assert "no row has 'of none' in age" in part.read(str(tmp_path / "t.csv")).changes
        assert not any("'a01'" in change for change in part.read(str(tmp_path / "t.csv")).changes)


@pytest.mark.parametrize("n_ages", [2, 60])
def test_a_publication_reads_a_file_once(n_ages, tmp_path, monkeypatch):
    read, batches = [], tables.batches

    def counted(piece, *options):
        read.append(piece)
        return batches(piece, *options)

    monkeypatch.setattr(tables, "batches", counted)
    rows(n_ages).to_csv(tmp_path / "t.csv", index=False)
    config = tmp_path / "p.yaml"
    config.write_text(
        f"tables: [{{counts: '{tmp_path}/t.csv', strata: {{age: null, sex: null}}, "
        "group_size: 9, mechanism: {name: exact}}]"
    )
    assert len(list(read_strata(load_publication(config)))) == 2 * n_ages
    assert len(read) == 1
