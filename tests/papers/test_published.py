"""Published numbers as data: nested as they are said to be, each at a place of its own."""

import pytest
from loops import for_each
from papers.made import published
from pydantic import ValidationError

from clusterscale.papers.study import PublishedNumbers, ResultSelection


def test_one_number():
    (figure,) = PublishedNumbers(item="Table 1", source="text", values=0.5).figures()
    assert figure.value == 0.5
    assert figure.selection == ResultSelection()


def test_numbers_stand_where_their_labels_say():
    table = PublishedNumbers.model_validate(
        published(
            of="utility",
            at={"measure": "pearson"},
            by={"group_size": [10, 100], "mechanism": ["exact", "laplace"]},
            values=[[1, 2], [None, 4]],
        )
    )
    found = {
        (each.selection.at["group_size"], each.selection.at["mechanism"]): each.value
        for each in table.figures()
    }
    assert found == {(10, "exact"): 1, (10, "laplace"): 2, (100, "laplace"): 4}
    assert all(each.selection.at["measure"] == "pearson" for each in table.figures())
    assert all(each.selection.of == "utility" for each in table.figures())


@for_each(
    ("fields", "message"),
    [
        ({"values": [0.9]}, "a list of 2 along group_size"),
        ({"values": 0.9}, "a list of 2 along group_size"),
        ({"values": [0.9, "0.6"]}, "'0.6', which is not a number"),
        ({"values": [0.9, True]}, "True, which is not a number"),
        ({"at": {"group_size": 10}}, "group_size is in both at and by"),
        ({"tolerance": 0.1}, "because is needed with tolerance or allowance"),
        ({"allowance": 0.1}, "because is needed with tolerance or allowance"),
        ({"because": "of other data"}, "because is needed with tolerance or allowance"),
        ({"as_in_paper": {"attack": "nearest"}}, "as_in_paper needs differs"),
        (
            {"as_in_paper": {"period": "week"}, "differs": "so"},
            "period is in neither at nor by",
        ),
        (
            {"as_in_paper": {"group_size": 100}, "differs": "so"},
            "as_in_paper must have 2 labels along group",
        ),
        (
            {"as_in_paper": {"group_size": [10]}, "differs": "so"},
            "as_in_paper must have 2 labels along gr",
        ),
        ({"unstated": "how", "differs": "so"}, "unstated excludes differs and because"),
        ({"reduce": "share_above"}, "share_below, and only these, need a limit"),
        ({"limit": 0.6}, "share_below, and only these, need a limit"),
        ({"step": 0.0}, "greater than 0"),
        ({"colour": "red"}, "Extra inputs"),
    ],
)
def test_what_does_not_fit_is_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        PublishedNumbers.model_validate(published(**fields))
