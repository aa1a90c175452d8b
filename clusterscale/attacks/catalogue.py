"""The attacks that can be used alone. To add one, add its module and a line here."""

from clusterscale.attacks.cells import Cells
from clusterscale.attacks.closed_form import Contradiction, Diagonal, Projection
from clusterscale.attacks.learned import Forest, Logistic, Nearest, Perceptron
from clusterscale.attacks.likelihood import Likelihood
from clusterscale.attacks.spectral import Spectral
from clusterscale.contracts import Attack
from clusterscale.registry import Registry

__all__ = ["SINGLE"]

SINGLE: Registry[Attack] = Registry(
    "attack",
    Cells,
    Contradiction,
    Diagonal,
    Forest,
    Likelihood,
    Logistic,
    Nearest,
    Perceptron,
    Projection,
    Spectral,
)
