"""Functions for everything that the command line does, and to play the game on arrays.

=============== ======================================== =====================================
function        what it does                             what it returns
=============== ======================================== =====================================
ingest          records to a cube                        the cube
inspect         reads all of a cube                      its sizes, and statistics of users
audit           attacks targets                          dataset, one value per case
screen          scores every user in closed form         dataset, one row per user
certify         bounds any adversary, for every user     dataset, one row per user
traits          compares the most and least exposed      dataset of characteristics
recover         infers locations from a release          dataset of errors per user
advise          searches for what to publish             dataset, one row per candidate
analyse         runs an analysis of another package      its dataset
check           checks published tables without traces   verdict and findings of each table
repair_tables   hides cells so that nothing follows      what was hidden, and why
read_table      reads a published table of any format    dataset over (roi, epoch)
publish         makes a release within a budget          the release, over (roi, epoch)
reaudit         audits the new releases of a catalogue   dataset, the verdict on each release
gate            evaluates a run against a policy         verdict and reasons
report          writes the page of a run                 location of the page
sign_off        writes the page to sign, and its JSON    location of the page
play            plays the game on groups of one's own    dataset, one value per attack
attack          trains an attack on releases             dataset, one score per release
=============== ======================================== =====================================

All are names of the package: ``import clusterscale as cs; cs.audit(…)``. The page
``clusterscale/guide/python.md`` has examples.
"""

from typing import Any

import lazy_loader

from clusterscale.errors import ClusterscaleError

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a function on first use; the analyses of other packages are functions, too."""
    if name in __all__:
        return _load(name)
    if name.startswith("_"):
        raise AttributeError(name)
    from clusterscale.study import ANALYSES

    try:
        plan = ANALYSES[name]
    except ClusterscaleError:
        raise AttributeError(f"module 'clusterscale' has no attribute {name!r}") from None
    from clusterscale.api.analyses import function_of

    return function_of(plan)
