"""What the page says of promises that were tried: kept, broken, or not to be told."""

from functools import partial

import numpy as np
import pytest
from report.page import Page

from clusterscale.reporting import render
from clusterscale.reporting.audit.model import AuditReport

MECHANISMS = ("exact", "laplace(epsilon=0.1)", "suppress_small(below=5)")
PROMISES = "Guarantees of differential privacy"
VERDICTS = "Worst case for each publication method"


@pytest.fixture
def make(make_results):
    """Build the results of an audit of defences, small unless told otherwise."""
    return partial(make_results, mechanisms=MECHANISMS, sizes=(5,), attacks=("logistic", "b"))


def judged(results, verdict, seen, mechanism=1, **where):
    """Return the results with another verdict on a mechanism."""
    at = {"mechanism": [mechanism]} | where
    for name, value in (("verdict", verdict), ("epsilon_seen", seen)):
        values = results[name].astype(object) if name == "verdict" else results[name].copy()
        values[at] = value
        results = results.assign({name: values})
    return results


@pytest.mark.usefixtures("no_figures")
def test_a_broken_promise_stands_out(make):
    results = judged(make(), "broken", 0.4321)
    page = Page(render(results))
    words = " ".join(page.text.split())
    assert page.tables[PROMISES][1][4] == "brokenε at least 0.432"
    assert "Of 1 guarantee, 1 is broken." in words
    assert "Guarantees broken in tests." in words
    assert (
        "laplace(epsilon=0.1) declares ε = 0.1 for one event; the observed ε is at least 0.432, "
        "from 20,000 releases with the unit and as many without." in words
    )


@pytest.mark.usefixtures("no_figures")
def test_the_findings_name_a_broken_promise_and_no_sound_one(make):
    words = " ".join(Page(render(judged(make(), "broken", 0.4))).text.split())
    assert (
        "A guarantee is broken. Releases of laplace(epsilon=0.1) were distinguished better" in words
    )
    assert "A guarantee is broken" not in Page(render(judged(make(), "consistent", 0.05))).text


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_the_worst_of_all_group_sizes_is_the_verdict(make):
    """With the sizes and the period where it was seen, where there are several."""
    results = make(sizes=(100, 5, 50), periods=("a", "b"))
    results = judged(results, "too few samples", 0.01, period=[0])
    results = judged(results, "broken", 0.3, period=[1], group_size=[0])
    results = judged(results, "broken", 0.2, period=[1], group_size=[1])
    first, second = (each for each in AuditReport(results).tests if each.mechanism == MECHANISMS[1])
    assert (first.verdict, first.observed, first.group_sizes) == (
        "too few samples",
        0.01,
        (5, 50, 100),
    )
    assert (second.verdict, second.observed) == ("broken", 0.3)
    assert second.group_sizes == (5, 100)
    page = Page(render(results))
    words = " ".join(page.text.split())
    assert "the observed ε is at least 0.3 in b in groups of 5, 100, from 20,000 releases" in words
    assert page.tables[PROMISES][2][4] == "too few samplesε at least 0.01"
    assert "no ε observed" in Page(render(judged(make(), "consistent", 0.0))).text


def unrounded(results, *words):
    told = np.array([words] * results.sizes["period"], dtype=object)
    return results.assign(float_noise=(("period", "mechanism"), told))


@pytest.mark.usefixtures("no_figures")
def test_unrounded_noise_is_flagged_with_the_remedy(make):
    page = Page(render(unrounded(make(), "no", "yes", "no")))
    words = " ".join(page.text.split())
    assert words.count("Not safe to publish as floating-point numbers.") == 1
    assert "The low-order bits of unrounded noisy values can reveal the count" in words
    assert (
        "Instead, publish whole numbers: integers: round, or for laplace discrete: true." in words
    )
    verdicts = page.tables[VERDICTS]
    promises = {row[0]: row[-1] for row in verdicts[1:]}
    assert promises[MECHANISMS[1]] == "ε 0.1 for an event: consistentunsafe as floats"
    assert "unsafe as floats" not in promises["exact"] + promises[MECHANISMS[2]]


@pytest.mark.usefixtures("no_figures")
def test_unrounded_noise_without_a_promise_is_flagged_too(make):
    page = Page(render(unrounded(make(), "no", "no", "yes")))
    assert {row[0]: row[-1] for row in page.tables[VERDICTS][1:]}[
        MECHANISMS[2]
    ] == "–unsafe as floats"


@pytest.mark.usefixtures("no_figures")
def test_rounded_noise_is_not_flagged_and_what_old_results_omit_is_said(make):
    results = unrounded(make(), "no", "no", "no")
    text = Page(render(results)).text
    assert "floating-point" not in text
    assert "unsafe as floats" not in text
    old = " ".join(Page(render(results.drop_vars("float_noise"))).text.split())
    assert "which do not record whether noise is published unrounded" in old
    assert "Not safe to publish" not in old
