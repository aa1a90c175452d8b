"""What mechanisms declare of their noise is compared with what they draw."""

from itertools import product

from doubles.says import FALSE, OTHERS, Says
from loops import for_each, mostly_slow
from oracles.entries import build

from clusterscale.mechanisms import MECHANISMS, create, declared_noise
from clusterscale.mechanisms.declared_noise import noise_fault
from clusterscale.testing.population import bounds

EVENT = {"name": "laplace", "epsilon": 1.0, "unit": "event"}
BUILT_IN = [build(MECHANISMS, name) for name in MECHANISMS]
HONEST = [
    create(**EVENT, clip=True, integers="round"),
    create(**EVENT, integers="floor"),
    create("laplace", epsilon=0.01, unit="event", discrete=True, clip=True),
    create("gaussian", epsilon=1.0, delta=0.1, discrete=True),
    create("chain", steps=[{"name": "sample_events", "remove": 0.5}, EVENT]),
    Says(how="laplace", stated="real", scope="cell", scale=20.0),
    Says(how="geometric", stated="whole", scope="cell"),
    Says(how="rounded", stated="real", scope="cell"),
    Says(how="in series", scope="series"),
    Says(how="in all cells"),
]


@mostly_slow("seeds", [(1,), range(2, 7)])
def test_what_is_drawn_is_as_declared(seeds, monkeypatch):
    for mechanism, seed in product(HONEST + BUILT_IN * (len(seeds) > 1), seeds):
        monkeypatch.setattr(declared_noise, "_SEED", seed)
        declared_noise._fault.cache_clear()
        assert not noise_fault(mechanism.bind(bounds())), mechanism.label
    declared_noise._fault.cache_clear()


@mostly_slow("how", [*FALSE, *OTHERS], n_quick=1)
@for_each("scale", [1.0, 80.0])
def test_noise_that_is_not_as_declared_is_found(how, scale):
    """Also of noise that is small beside its scale, or none in one release of fifty."""
    stated = "real" if how in ("in the last place", *OTHERS) else "whole"
    assert noise_fault(Says(how=how, stated=stated, scope="cell", scale=scale)), how


@mostly_slow(
    ("how", "scope"),
    [("in all cells", "cell"), ("in all cells", "series"), ("in series", "cell"),
     ("in pairs", "cell"), ("in opposite pairs", "cell"), ("in the last place", "series"),
     ("in a batch", "series"), ("sums", "cell"), ("total", "cell")],
)  # fmt: skip
def test_scopes_that_are_too_narrow_are_found(how, scope):
    fault = noise_fault(Says(how=how, scope=scope, scale=10.0))
    assert fault.startswith(f"noise_scope is {scope}, but"), fault
