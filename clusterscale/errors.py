"""What can go wrong, as a tree.

Every error of clusterscale is a :class:`ClusterscaleError` and also the builtin error that a
caller would expect, so ``except ValueError`` keeps working::

    ClusterscaleError
    ├── InputError (ValueError)            the caller gave something unusable
    │   ├── ConfigError                    a config or a part of one; names the path of the key
    │   ├── SourceError                    records to ingest; names file, column and value
    │   ├── UnknownNameError               no such mechanism, attack, …; names the known ones
    │   └── PoolError                      a pool of users is too small for the group size
    ├── MissingError (FileNotFoundError)   nothing is stored at that address
    ├── ExistsError (FileExistsError)      something is stored there already
    ├── FormatError (ValueError)           something is there, but not what is needed
    ├── DamagedError (OSError)             bytes are not what was written; names the chunk
    ├── StoreError (OSError)               a store cannot be used, though it was tried again
    ├── ClusterError (RuntimeError)        the cluster cannot do the work, or was lost
    │   ├── WorkerLostError                workers died, again and again, over one item
    │   └── StalledError                   nothing was finished for too long
    └── PackageError (ImportError)         an optional package is absent; names the extra
"""

TEMPORARY = 75
"""Exit code where a cluster or a store gave out and the same command goes on: EX_TEMPFAIL of
sysexits.h, which ``os`` has not on every system."""


class ClusterscaleError(Exception):
    """Root of all errors that clusterscale raises on purpose."""


class InputError(ClusterscaleError, ValueError):
    """The caller gave something unusable."""


class ConfigError(InputError):
    """A config, or a part of one built from Python, is wrong; the message names each key."""


class SourceError(InputError):
    """Records cannot be read as asked; the message names file, column and first bad value."""


class UnknownNameError(InputError):
    """A name is not in its registry; the message lists the known names."""


class PoolError(InputError):
    """A pool of users cannot supply the groups; the message names the largest size that fits."""


class MissingError(ClusterscaleError, FileNotFoundError):
    """Nothing is stored at that address."""


class ExistsError(ClusterscaleError, FileExistsError):
    """Something is stored at that address already and was not to be overwritten."""


class FormatError(ClusterscaleError, ValueError):
    """The store is of another kind, of another version, or was never completed."""


class DamagedError(ClusterscaleError, OSError):
    """Stored bytes are not what was written; the message names the array and the chunk."""


class StoreError(ClusterscaleError, OSError):
    """A store refused, failed or is full, also when tried again; the message names the place."""


class ClusterError(ClusterscaleError, RuntimeError):
    """The cluster cannot do the work, or was lost; what was finished is kept."""


class WorkerLostError(ClusterError):
    """Every worker that took this item up died of it, alone as it was."""


class StalledError(ClusterError):
    """Nothing was finished for longer than the cluster's patience."""


class PackageError(ClusterscaleError, ImportError):
    """An optional package is absent; the message names the extra that installs it."""
