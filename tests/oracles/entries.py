"""One working example of every entry of every registry."""

# Fields that an entry cannot do without; an entry that needs none is not listed.
NEEDED = {
    "adaptive_ranges": {"ranges": 3},
    "address": {"address": "tls://localhost:8786"},
    "bottom_code": {"at": 4, "least": 2},
    "cap_contributions": {"per_day": 3},
    "chain": {
        "steps": [
            {"name": "cap_contributions", "per_day": 3},
            {"name": "laplace", "epsilon": 1.0, "unit": "user_day", "clip": True},
            {"name": "suppress_small", "below": 3},
        ]
    },
    "coarsen_space": {"factor": 2},
    "coarsen_time": {"groups": [[0, 1, 5], [7, 6]]},
    "enhanced_fourier": {"epsilon": 1.0, "delta": 0.1},
    "fixed_ranges": {"size": 3},
    "fourier": {"epsilon": 1.0, "coefficients": 3},
    "gateway": {"address": "http://localhost:8000"},
    "gaussian": {"epsilon": 1.0, "delta": 0.1},
    "cell_key": {"deviation": 2, "variance": 1.0},
    "dominance": {"n": 2, "share": 0.8},
    "expand": {"factor": 2.5},
    "laplace": {"epsilon": 1.0, "unit": "event"},
    "perturb_small": {"below": 3, "epsilon": 1.0},
    "randomized_response": {"p": 0.3},
    "round_to_base": {"base": 3},
    "sample_events": {"remove": 0.2},
    "sample_traces": {"remove": 0.2},
    "suppress_small": {"up_to": 2},
    "suppress_unpopular": {"fraction": 0.5},
    "tables": {
        "tables": [
            {"name": "laplace", "epsilon": 1.0, "unit": "event"},
            {
                "name": "chain",
                "steps": [
                    {"name": "coarsen_time", "factor": 4},
                    {"name": "laplace", "epsilon": 0.5, "unit": "event"},
                ],
            },
        ]
    },
    "threshold": {"k": 3},
    "top_code": {"at": 4},
    "truncated_laplace": {"epsilon": 1.0},
    "unscaled_fourier": {"epsilon": 1.0, "coefficients": 3},
    "known_subset": {"alpha": 0.5, "training": 60, "challenges": 40, "validation": 20},
    "zero_knowledge": {"reference": 60, "training": 20, "challenges": 10, "validation": 10},
}


def build(registry, name):
    return registry.create(name, **NEEDED.get(name, {}))
