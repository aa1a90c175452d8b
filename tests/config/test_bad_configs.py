"""Configs that must be refused, each with the exact words."""

import copy

import pytest
import yaml
from loops import for_each

from clusterscale.config import built_in, parse
from clusterscale.config.reading import parse_releases
from clusterscale.errors import ConfigError

GOOD = yaml.safe_load(built_in())

# Texts that are no config at all.
TEXTS = {
    "empty": (
        "",
        "a config is a mapping with keys cube, output, audit, recovery, publish, traits, "
        "certify, advise, analyses, cluster",
    ),
    "a list": (
        "- cube",
        "a config is a mapping with keys cube, output, audit, recovery, publish, traits, "
        "certify, advise, analyses, cluster",
    ),
    "a tab": (
        "cube: x\n\toutput: y\n",
        "line 2, column 1: found character '\\t' that cannot start any token",
    ),
    "an open bracket": (
        "cube: [1, 2\n",
        "line 2, column 1: expected ',' or ']', but got '<stream end>'",
    ),
    "a key twice": ("cube: a\ncube: b\n", "line 2, column 1: key 'cube' is listed twice"),
    "a list as key": (
        "? [cube]\n: a\n",
        "line 1, column 3: a key is text, not a list or a mapping",
    ),
    "a Python object": (
        "cube: !!python/object/apply:os.getcwd []\n",
        "line 1, column 7: "
        "the tag 'tag:yaml.org,2002:python/object/apply:os.getcwd' is not allowed",
    ),
}

# A place in a good config, what to put there (None: take it away), and the words.
CHANGES = [
    (
        "clutser",
        {},
        "clutser: is not a known key: choose from cube, output, audit, recovery, publish, traits, "
        "certify, advise, analyses, cluster; did you mean 'cluster'?",
    ),
    ("audit", None, "the top level: set audit, recovery, publish or several of them"),
    ("output", None, "output: is missing"),
    ("output", 5, "output: is 5, but should be text"),
    ("cube", 7, "cube: is 7, but should be a mapping of keys to values"),
    ("cube.path", None, "cube.path: is missing"),
    (
        "cube.preset",
        "tlf",
        "cube: preset 'tlf' is not known: choose from cdr, milan, sfc, tfl; did you mean 'tfl'?",
    ),
    (
        "cube.preset",
        None,
        "cube: users and seed are of simulated people: state preset or known, too",
    ),
    ("cube.users", 0, "cube.users: is 0, but should be greater than or equal to 1"),
    (
        "cube.users",
        2**63,
        "cube.users: is 9223372036854775808, but should be less than 9223372036854775808",
    ),
    ("cube.users", "many", "cube.users: is 'many', but should be a whole number"),
    ("audit.seed", 1.5, "audit.seed: is 1.5, but should be a whole number"),
    (
        "audit.sed",
        1,
        "audit.sed: is not a known key: choose from seed, targets, priors, "
        "attacks, utility, verdict, screen, control, false_positive_rate, precision, "
        "null_roi, group_sizes, groups, periods, mechanisms; did you mean 'seed'?",
    ),
    ("audit.null_roi", "yes", "audit.null_roi: is 'yes', but should be true or false"),
    ("audit.targets", None, "audit.targets: is missing"),
    (
        "audit.targets",
        "everyone",
        "audit.targets: is 'everyone', but should be a mapping of keys to values",
    ),
    (
        "audit.targets.random",
        3,
        "audit.targets: give exactly one of tertiles, random, most_exposed, listed, all",
    ),
    ("audit.targets", {"listed": []}, "audit.targets.listed: give at least one"),
    ("audit.group_sizes", 10, "audit.group_sizes: is 10, but should be a list"),
    ("audit.group_sizes", [], "audit.group_sizes: give at least one"),
    ("audit.group_sizes", [10, 10], "audit.group_sizes: 10 is listed twice"),
    (
        "audit.group_sizes.0",
        1,
        "audit.group_sizes.0: is 1, but should be greater than or equal to 2",
    ),
    ("audit.group_sizes.0", "10", "audit.group_sizes.0: is '10', but should be a whole number"),
    (
        "audit.priors.0.alpha",
        0,
        "audit.priors.0.known_subset.alpha: is 0, but should be greater than 0",
    ),
    (
        "audit.priors.0.alpha",
        2,
        "audit.priors.0.known_subset.alpha: is 2, but should be less than or equal to 1",
    ),
    (
        "audit.priors.0.alpha",
        ".nan",
        "audit.priors.0.known_subset.alpha: is '.nan', but should be a number",
    ),
    (
        "audit.priors.0.name",
        "omniscient",
        "audit.priors.0: 'omniscient' is not known: "
        "choose from different_groups, known_subset, perfect, same_groups, zero_knowledge",
    ),
    (
        "audit.priors.0.training",
        401,
        "audit.priors.0.known_subset.training: is 401, but should be a multiple of 2",
    ),
    (
        "audit.mechanisms.1.name",
        "lapace",
        "audit.mechanisms.1: 'lapace' is not known: "
        "choose from adaptive_ranges, bottom_code, cap_contributions, cell_key, chain, "
        "coarsen_space, coarsen_time, dominance, enhanced_fourier, exact, expand, fixed_ranges, "
        "fourier, gaussian, laplace, perturb_small, randomized_response, round_to_base, "
        "sample_events, sample_traces, share_of_total, suppress_small, suppress_unpopular, tables, "
        "threshold, top_code, truncated_laplace, unscaled_fourier; "
        "did you mean 'laplace'?",
    ),
    ("audit.mechanisms.1.name", None, "audit.mechanisms.1: needs a name"),
    ("audit.mechanisms.1", 5, "audit.mechanisms.1: is 5, but should be a mapping with a name"),
    ("audit.mechanisms.1", "exact", "audit.mechanisms: exact is listed twice"),
    ("audit.mechanisms.1", "laplace", "audit.mechanisms.1.laplace.epsilon: is missing"),
    (
        "audit.priors.0",
        "known_subset(alpha=0.5)",
        "audit.priors.0: 'known_subset(alpha=0.5)' is not known: choose from different_groups, "
        "known_subset, perfect, same_groups, zero_knowledge; did you mean 'known_subset'?",
    ),
    ("audit.mechanisms.1", {"name": "exact"}, "audit.mechanisms: exact is listed twice"),
    (
        "audit.mechanisms.1.epsilon",
        -1,
        "audit.mechanisms.1.laplace.epsilon: is -1, but should be greater than 0",
    ),
    (
        "audit.mechanisms.1.epsilon",
        "0.001",
        "audit.mechanisms.1.laplace.epsilon: is '0.001', "
        "but should be a number: write 0.001, without quotes",
    ),
    (
        "audit.mechanisms.1",
        {"name": "chain", "steps": [{"name": "suppress_small"}]},
        "audit.mechanisms.1.chain.steps.0.suppress_small: give exactly one of below, up_to",
    ),
    (
        "audit.mechanisms.1",
        {"name": "chain", "steps": [{"name": "laplace", "epsilon": 1.0, "epsilom": 1.0}]},
        "audit.mechanisms.1.chain.steps.0.laplace.epsilom: is not a known key: choose from title, "
        "clip, integers, name, epsilon, sensitivity, unit, discrete; did you mean 'epsilon'?",
    ),
    (
        "audit.utility",
        {"groups": 0},
        "audit.utility.groups: is 0, but should be greater than or equal to 1",
    ),
    (
        "audit.mechanisms.1.epsilom",
        1,
        "audit.mechanisms.1.laplace.epsilom: is not a known key: "
        "choose from title, clip, integers, name, epsilon, sensitivity, unit, discrete; "
        "did you mean 'epsilon'?",
    ),
    (
        "audit.attacks.0.elimination_step",
        0,
        "audit.attacks.0.logistic.elimination_step: is 0, but should be greater than 0",
    ),
    (
        "audit.periods.0.first",
        -1,
        "audit.periods.0.first: is -1, but should be greater than or equal to 0",
    ),
    (
        "audit.periods.0.epochs",
        0,
        "audit.periods.0.epochs: is 0, but should be greater than or equal to 1",
    ),
    ("audit.periods.0.name", None, "audit.periods.0.name: is missing"),
    (
        "cluster.name",
        "slrum",
        "cluster: 'slrum' is not known: choose from address, gateway, htcondor, kubernetes, "
        "local, lsf, moab, oar, pbs, serial, sge, slurm, slurm-allocation; did you mean 'slurm'?",
    ),
    (
        "cluster",
        {"name": "address", "address": "tsl://127.0.0.1:1"},
        "cluster.address.address: is 'tsl://127.0.0.1:1', but should match pattern "
        r"'^(tls|tcp)://\S+:\d+$'",
    ),
    ("cluster.workers", 0, "cluster.local.workers: is 0, but should be greater than or equal to 1"),
]


def changed(place, value):
    """Return a good config with one value changed."""
    config = copy.deepcopy(GOOD)
    *parents, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    node = config
    for part in parents:
        node = node[part]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return config


def refuse(text):
    with pytest.raises(ConfigError) as caught:
        parse(text, where="run.yaml")
    return str(caught.value)


@for_each("name", TEXTS)
def test_text_that_is_no_config(name):
    text, message = TEXTS[name]
    assert refuse(text) == f"run.yaml: {message}"


@for_each(("place", "value", "message"), CHANGES)
def test_one_wrong_value(place, value, message):
    assert refuse(yaml.safe_dump(changed(place, value))) == f"run.yaml: {message}"


def test_every_fault_is_named_at_once():
    config = changed("output", None)
    config["audit"]["seed"] = "x"
    assert refuse(yaml.safe_dump(config)).splitlines() == [
        "run.yaml: output: is missing",
        "run.yaml: audit.seed: is 'x', but should be a whole number",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frist": 0}, "releases.0.frist: is not a known key: choose from group_size, "),
        ({5: 0}, "releases.0.5: is not text, as keys are"),
    ],
)
def test_a_fault_in_a_list_of_releases_is_named_by_the_path_of_its_key(changes, message):
    entry = {"counts": "w.zarr", "group_size": 3, "mechanism": {"name": "exact"}, **changes}
    audit = {key: GOOD["audit"][key] for key in ("priors", "attacks")}
    content = {"cube": "x", "output": "y", "releases": [entry], "audit": audit}
    with pytest.raises(ConfigError) as caught:
        parse_releases(yaml.safe_dump(content), where="c.yaml")
    assert f"c.yaml: {message}" in str(caught.value)
    assert "[function" not in str(caught.value)
    assert "Tuple" not in str(caught.value)
