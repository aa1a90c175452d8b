"""Mean relative errors of NDSS18 Table III, on the San Francisco cabs.

Pyrgelis, Troncoso, De Cristofaro: Knock Knock, Who's There? Section VII-C.
"""

EPSILONS = (0.01, 0.1, 1.0, 10.0)

TABLE_3 = {
    "LPA(Δ/ε)": (131.9, 129.3, 114.4, 41.9),
    "GSM": (129.6, 94.7, 14.1, 1.4),
    "FPA": (85.9, 11.3, 1.1, 0.11),
    "EFPAG": (57.9, 6.1, 0.6, 0.04),
    "LPA(1/ε)": (24.7, 2.5, 0.2, 0.001),
}
