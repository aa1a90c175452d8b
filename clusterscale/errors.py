"""Exception hierarchy.

Every error of clusterscale is a :class:`ClusterscaleError` and also the builtin error that a
caller would expect, so ``except ValueError`` keeps working::

    ClusterscaleError
    ├── InputError (ValueError)            an argument or input is invalid
    │   ├── ConfigError                    an invalid config; names the path of the key
    │   ├── SourceError                    unreadable records; names file, column and value
    │   ├── UnknownNameError               no such mechanism, attack, …; lists the known ones
    │   └── PoolError                      a pool of users is too small for the group size
    ├── RefusedError (ValueError)          a release that a budget or a policy does not allow
    ├── MissingError (FileNotFoundError)   nothing is stored at that address
    ├── ExistsError (FileExistsError)      something is already stored there
    ├── FormatError (ValueError)           the store is not of the expected format
    ├── DamagedError (OSError)             stored bytes are corrupt; names the chunk
    ├── StoreError (OSError)               a store failed, also after retries
    ├── ClusterError (RuntimeError)        the cluster is unusable or was lost
    │   ├── WorkerLostError                one item repeatedly killed its workers
    │   └── StalledError                   no item finished for too long
    ├── StudyError (RuntimeError)          tasks failed whose results the next ones need
    │   └── PartialResultError             parts of a task failed; has the result of the others
    ├── PackageError (ImportError)         an optional package is missing; names the extra
    └── PluginError (TypeError)            a class of another package breaks its contract
        └── SharedArrayError               it has changed arrays that others use
"""

TEMPORARY = 75
"""Exit code when a cluster or store failed and the same command can resume: EX_TEMPFAIL of
sysexits.h, which ``os`` does not define on every system."""


class ClusterscaleError(Exception):
    """Base class of all errors that clusterscale raises."""


class InputError(ClusterscaleError, ValueError):
    """An argument or input is invalid."""


class ConfigError(InputError):
    """A config, or a part of one built in Python, is invalid; the message names each key."""


class SourceError(InputError):
    """Records cannot be read; the message names the file, column and first bad value."""


class UnknownNameError(InputError):
    """A name is not in its registry; the message lists the known names."""


class PoolError(InputError):
    """A pool of users is too small for the groups; the message names the largest size that fits."""


class RefusedError(ClusterscaleError, ValueError):
    """A release that is not published: it would exceed a budget, or a policy does not pass it."""


class MissingError(ClusterscaleError, FileNotFoundError):
    """Nothing is stored at that address."""


class ExistsError(ClusterscaleError, FileExistsError):
    """Something is already stored at that address, and ``force`` was not set."""


class FormatError(ClusterscaleError, ValueError):
    """The store is of another kind, of another version, or was never completed."""


class DamagedError(ClusterscaleError, OSError):
    """Stored bytes are corrupt; the message names the array and the chunk."""


class StoreError(ClusterscaleError, OSError):
    """A store denied access, failed after all retries or is full; the message names the URI."""


class ClusterError(ClusterscaleError, RuntimeError):
    """The cluster is unusable or was lost; finished work is kept."""


class WorkerLostError(ClusterError):
    """Every worker that ran this item died, even when it ran alone."""


class StalledError(ClusterError):
    """No item finished within the cluster's stall timeout."""


class StudyError(ClusterscaleError, RuntimeError):
    """Tasks of a study failed that others need; finished ones are kept."""


class PartialResultError(StudyError):
    """Parts of a task failed; ``result`` is that of the task, without these parts."""

    result: object = None


class PackageError(ClusterscaleError, ImportError):
    """An optional package is missing; the message names the extra that installs it."""


class PluginError(ClusterscaleError, TypeError):
    """A class of another package breaks its contract; the message names class and method."""


class SharedArrayError(PluginError):
    """A class of another package has changed arrays that others use, which are useless now."""


class SignalExit(SystemExit):
    """A signal ends the process; no other ``SystemExit`` may pass through foreign code."""


SHARED_ERRORS = (ClusterError, DamagedError, MemoryError, SharedArrayError, StoreError)
"""Errors of what all parts of a task use: the task has failed, whichever part raised them."""
