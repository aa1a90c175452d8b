"""What reading adds up or merges is stated, and such a table is never consistent."""

import pandas as pd
import pytest

from clusterscale.api import check, read_table
from clusterscale.errors import SourceError

THRESHOLD = {"name": "threshold", "k": 10, "shown": "hidden"}


@pytest.mark.parametrize(("first", "verdict"), [(2, "fail"), (12, "warn")])
def test_a_threshold_is_checked_on_rows_before_they_are_added(tmp_path, first, verdict):
    file = tmp_path / "trips.csv"
    rows = [f"20260301|{hour}|a|b|{n}" for hour, n in ((0, first), (0, 13), (1, 11))]
    file.write_text("\n".join(["fecha|periodo|origen|destino|viajes", *rows]))
    (found,) = check([str(file)], mechanism=THRESHOLD, group_size=500, form="mitma")
    assert (found.verdict, found.omitted) == (
        verdict,
        "1 row was added to others of one place and time",
    )


def test_folders_of_several_levels_are_never_consistent(tmp_path):
    for level, place in ((1, "ES2"), (2, "ES21")):
        folder = tmp_path / "gold" / f"level={level}" / "day=2"
        folder.mkdir(parents=True)
        table = pd.DataFrame({"place": [place] * 2, "time": [0, 1], "count": [20, 11]})
        table.to_parquet(folder / "part.parquet")
    form = {"name": "long", "slots": True}
    (found,) = check([str(tmp_path / "gold")], mechanism="exact", group_size=90, form=form)
    assert (found.verdict, found.omitted) == (
        "warn",
        "folders of level (1, 2) were read as one table",
    )
    chosen = {**form, "where": {"level": ["2"]}}
    assert read_table(str(tmp_path / "gold"), chosen).roi.values.tolist() == ["ES21"]
    (found,) = check([str(tmp_path / "gold")], mechanism="exact", group_size=90, form=chosen)
    assert found.verdict == "pass"
    with pytest.raises(SourceError, match="no folder is level=3"):
        read_table(str(tmp_path / "gold"), {**form, "where": {"level": ["3"]}})
