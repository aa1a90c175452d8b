"""Tables of PETS17 §5: mean relative errors on the San Francisco cabs."""

EPSILONS = (0.001, 0.01, 0.1, 1.0)

TABLE_4 = {  # by ε
    "Lap(S·T'/ε)": (26.8, 26.3, 26.2, 26.2),
    "Lap(Δ/ε)": (26.9, 26.5, 25.9, 24.3),
    "Lap(T'/ε)": (26.1, 25.9, 22.4, 8.3),
    "FPA": (24.1, 8.8, 1.1, 0.3),
    "Lap(1/ε)": (19.9, 5.1, 0.6, 0.1),
}

TABLE_5 = {0.1: 0.4, 0.3: 0.7, 0.5: 1.1, 0.7: 1.6, 0.9: 2.9}  # SpotMe, by p
