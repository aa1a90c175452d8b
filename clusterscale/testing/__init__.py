"""Contract tests: what a mechanism, attack, prior, utility measure or reader must do.

Each ``check_KIND`` calls all checks of its kind on a class or an object, and raises an
``AssertionError`` that names the first failed check, what is wrong and what would be right.
``checks_of_KIND`` yields the name and the function of each check, for a test of its own each:

>>> import pytest
>>> from clusterscale.mechanisms import create
>>> from clusterscale.testing import check_mechanism, checks_of_mechanism
>>> check_mechanism(create("laplace", epsilon=1.0, unit="event"))
>>> @pytest.mark.parametrize(("name", "check"), list(checks_of_mechanism()))
... def test_contract(name, check):
...     check(create("suppress_small", up_to=2))

A class is built without settings; a class that needs some is given as an object. The classes are
tested on a population that :mod:`clusterscale.testing.population` draws. :func:`registered`
registers classes for the duration of a test.
"""

from clusterscale.testing.attacks import check_attack, checks_of_attack
from clusterscale.testing.checks import registered
from clusterscale.testing.mechanisms import check_mechanism, checks_of_mechanism
from clusterscale.testing.priors import check_prior, checks_of_prior
from clusterscale.testing.readers import check_reader, checks_of_reader
from clusterscale.testing.utility import check_utility, checks_of_utility

__all__ = ["check_attack", "check_mechanism", "check_prior", "check_reader", "check_utility"]
__all__ += ["checks_of_attack", "checks_of_mechanism", "checks_of_prior", "checks_of_reader"]
__all__ += ["checks_of_utility", "registered"]
