"""What cannot be merged."""

from loops import for_each
from mechanisms.published import refusal

WAYS = {"coarsen_space": "factor, groups, strata, parents", "coarsen_time": "factor, groups"}


@for_each("name", WAYS)
@for_each(
    ("params", "message"),
    [
        ({}, "give exactly one of {ways}"),
        ({"factor": 2, "groups": [[0, 1]]}, "give exactly one of {ways}"),
        ({"factor": 1}, "a factor of 1 merges nothing"),
        ({"factor": 0}, "factor: is 0, but should be greater than or equal to 1"),
        ({"factor": 2.0}, "factor: is 2.0, but should be a whole number"),
        ({"groups": [[0, 1], [1, 2]]}, "groups: 1 is in two groups"),
        ({"groups": []}, "groups: no group has two or more members, so nothing is merged"),
        ({"groups": [[0], [1]]}, "groups: no group has two or more members, so nothing is merged"),
        ({"groups": [[0, -1]]}, "groups.0.1: is -1, but should be greater than or equal to 0"),
        ({"groups": [0, 1]}, "groups.0: is 0, but should be a list"),
    ],
)
def test_nonsense_is_refused(name, params, message):
    assert refusal(name, **params).splitlines()[0] == message.format(ways=WAYS[name])
