"""Calls of code of other packages: it cannot write to its arguments, and its values are checked.

Whatever else it changes in the process, such as the working folder, is changed back, and its fault.
"""

import os
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import fields, is_dataclass
from functools import cached_property, partial, wraps
from types import FunctionType, GeneratorType, MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import ClusterscaleError, PluginError, SharedArrayError, SignalExit

Fault = Callable[..., str]
"""Takes what a method returned and its arguments; returns what is wrong, ``""`` if nothing."""

_READ_ONLY = re.compile("read-?only|cannot set WRITEABLE flag")
_NUMPY = (np, np.fft, np.linalg, np.random)
_END = object()
_leave = os._exit
_inside = threading.local()  # with the number of the process whose code of other packages runs

on_overwrite: list[Callable[[], None]] = []
"""Called when other packages have changed shared arrays: drop what is kept of those."""


def returns(*kinds: type[Any], has: tuple[str, ...] = (), what: str = "") -> Fault:
    """Return a check that a value is of one of some types, or has all of some attributes.

    ``what`` names it in messages, unless the names of the types do.
    """
    names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
    wanted = what or names

    def fault(returned: Any, *args: Any, **options: Any) -> str:
        if isinstance(returned, kinds) and not (isinstance(returned, bool) and bool not in kinds):
            return ""
        if has and all(hasattr(returned, name) for name in has):
            return ""
        return f"returned {_shorten(returned)}, but should return {wanted}"

    return fault


def array_fault(returned: Any, dtype: type[Any], shape: tuple[int, ...], *, finite: bool) -> str:
    """Return what is wrong with an array, ``""`` if it has a type and a shape and no NaN.

    ``finite``: whether it must not be infinite either.
    """
    should = f"but should return {np.dtype(dtype)} of shape {shape}"
    if not isinstance(returned, np.ndarray):
        return f"returned {_shorten(returned)}, {should}"
    if returned.dtype != dtype or returned.shape != shape:
        return f"returned {returned.dtype} of shape {returned.shape}, {should}"
    bad = ~np.isfinite(returned) if finite else np.isnan(returned)
    if bad.any():
        kind = "NaN or infinite" if finite else "NaN"
        return f"returned {int(bad.sum()):,} of {bad.size:,} values that are {kind}"
    return ""


def _shorten(value: Any) -> str:
    text = repr(value)
    text = text if len(text) <= 60 else f"{text[:59]}…"
    return f"{text} ({type(value).__name__})"


def is_foreign(cls: type[Any]) -> bool:
    """Return whether a class is defined outside of this package."""
    return cls.__module__.partition(".")[0] not in ("clusterscale", "builtins")


def read_only(value: Any, seen: list[NDArray[Any]] | None = None) -> Any:
    """Return ``value`` with read-only views of its arrays, without copying any.

    Dataclasses of this package, tuples and lists that contain arrays are replaced by shallow
    copies; anything else is returned as it is. Each array is appended to ``seen``.
    """
    if isinstance(value, np.ndarray):
        if seen is not None:
            seen.append(value)
        return _protect(value)
    if type(value) in (tuple, list):
        items = [read_only(item, seen) for item in value]
        same = all(item is before for item, before in zip(items, value, strict=True))
        return value if same else type(value)(items)
    if not is_dataclass(value) or isinstance(value, type) or is_foreign(type(value)):
        return value
    before = {field.name: getattr(value, field.name) for field in fields(value)}
    after = {name: read_only(item, seen) for name, item in before.items()}
    changed = {name: item for name, item in after.items() if item is not before[name]}
    value = copy(value) if changed else value
    for name, item in changed.items():
        object.__setattr__(value, name, item)
    return value


def _protect(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view; neither ``setflags`` nor ``base`` makes it writeable."""
    if array.dtype.kind in "mM":
        return _protect(array.view(np.int64)).view(array.dtype)  # buffers have no times
    if type(array) is np.ndarray:
        with suppress(ValueError, TypeError, BufferError):  # of a type that buffers do not have
            return np.asarray(array.data.toreadonly())
    array = array.view()
    array.flags.writeable = False
    return array


def _checksum(array: NDArray[Any]) -> int:
    """Return a checksum of the memory that an array is part of; 0 for one of Python objects."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return 0 if array.dtype.hasobject else zlib.crc32(array.ravel(order="K").view(np.uint8).data)


def _folder() -> str:
    with suppress(OSError):  # it was removed
        return os.getcwd()
    return ""


def _refuse_exit(code: int) -> None:
    """Raise SystemExit in code of other packages, which must not end the process unnoticed."""
    if getattr(_inside, "process", 0) == os.getpid():  # not in a child that it has forked
        raise SystemExit(f"os._exit({code})")
    _leave(code)


@contextmanager
def contained(where: str, arrays: Sequence[NDArray[Any]] = ()) -> Iterator[None]:
    """Raise PluginError for what code of other packages must not do, named by ``where``.

    The working folder and NumPy are what they were before afterwards. Raises SharedArrayError if
    one of the arrays has changed.
    """
    folder, settings = _folder(), np.geterr()
    names, sums = [dict(vars(module)) for module in _NUMPY], [_checksum(one) for one in arrays]
    raised: BaseException | None = None
    outer, os._exit = getattr(_inside, "process", 0), _refuse_exit  # type: ignore[assignment]
    _inside.process = os.getpid()
    try:
        yield
    except BaseException as error:
        raised = error
    _inside.process = outer
    faults = []
    for module, before in zip(_NUMPY, names, strict=True):
        for name in [name for name in before if vars(module).get(name) is not before[name]]:
            setattr(module, name, before[name])
            faults.append(f"replaces {module.__name__}.{name}")
    if np.geterr() != settings:
        np.seterr(**settings)
        faults.append("changes how NumPy treats floating-point errors")
    if _folder() != folder:
        os.chdir(folder)
        faults.append("changes the working folder")
    if [_checksum(one) for one in arrays] != sums:
        for drop in on_overwrite:
            drop()
        raise SharedArrayError(f"{where} has changed an array that others use too") from raised
    if raised is not None and (told := _explain(where, raised)) is not raised:
        raise told from raised
    if raised is not None and not isinstance(raised, Exception):  # a signal
        raise raised
    if faults:
        raise PluginError(f"{where} {faults[0]}, which others use too") from raised
    if raised is not None:
        raise raised


def call_foreign(
    owner: object,
    method: str,
    function: Callable[..., Any],
    *args: Any,
    fault: Fault | None = None,
    **options: Any,
) -> Any:
    """Call a method of an object; if another package defines its class, guard the call.

    Errors name the ``owner`` and the ``method``; ``function`` is the bound method. Arrays among
    its arguments are made read-only, and ``fault`` checks what it returns. Raises PluginError
    if it writes to its arguments, changes what others use, ends the program, or returns something
    wrong; SharedArrayError if an array has changed nevertheless.
    """
    cls = type(owner)
    if not is_foreign(cls):
        return function(*args, **options)
    where = f"{cls.__module__}.{cls.__qualname__}.{method}"
    return _call(where, function, *args, fault=fault, **options)


def guard_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that guards calls of one of another package, as :func:`call_foreign` does.

    A function of this package is returned as it is.
    """
    inner = function
    while isinstance(inner, partial):
        inner = inner.func
    owner: Any = inner if isinstance(inner, FunctionType | MethodType) else type(inner)
    if not is_foreign(owner):
        return function
    return partial(_call, f"{owner.__module__}.{owner.__qualname__}", function)


def _call(
    where: str,
    function: Callable[..., Any],
    *args: Any,
    fault: Fault | None = None,
    **options: Any,
) -> Any:
    """Call a function of another package, which errors name by ``where``."""
    shared: list[NDArray[Any]] = []
    args = tuple(read_only(value, shared) for value in args)
    options = {name: read_only(value, shared) for name, value in options.items()}
    with contained(where, shared):
        returned = function(*args, **options)
        if isinstance(returned, GeneratorType):
            return _iterate(where, returned, fault, shared)
        wrong = fault(returned, *args, **options) if fault else ""
    if wrong:
        raise PluginError(f"{where} {wrong}")
    return returned


def _iterate(
    where: str, items: Iterator[Any], fault: Fault | None, shared: Sequence[NDArray[Any]]
) -> Iterator[Any]:
    """Yield the items of a generator of another package, each checked."""
    while True:
        with contained(where, shared):
            item = next(items, _END)
            wrong = fault(item) if fault and item is not _END else ""
        if item is _END:
            return
        if wrong:
            raise PluginError(f"{where} {wrong}")
        yield item


def _explain(where: str, error: BaseException) -> BaseException:
    """Return the error to raise in place of one of another package, which may be the same."""
    if isinstance(error, SystemExit | GeneratorExit) and not isinstance(error, SignalExit):
        code = getattr(error, "code", None)
        return PluginError(
            f"{where} tries to end the program ({type(error).__name__}: {code}): it must raise an "
            "error instead"
        )
    numeric = isinstance(error, ValueError | TypeError) or type(error).__module__[:6] == "numba."
    if isinstance(error, ClusterscaleError) or not numeric or not _READ_ONLY.search(str(error)):
        return error
    return PluginError(
        f"{where} writes to an array that it was given and that others use too "
        f"({str(error).strip().splitlines()[0]}): copy before you change, as in "
        "`counts = counts.copy()`"
    )


def guard(cls: type[Any], faults: Mapping[str, Fault | None]) -> None:
    """Make the methods of a class of another package go through :func:`call_foreign`.

    These are the methods and properties with a name in ``faults``, which check their values,
    also those inherited from this package, and those that override one of this package.
    """
    own = [base for base in cls.__mro__ if not is_foreign(base) and base is not object]
    overridden = {name for name in vars(cls) if any(name in vars(base) for base in own)}
    for name in sorted({*faults, *overridden}):
        value = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
        if name.startswith("__"):
            continue
        if (guarded := _guarded(name, value, faults.get(name))) is not None:
            setattr(cls, name, guarded)
            if isinstance(guarded, cached_property):
                guarded.__set_name__(cls, name)


def _guarded(name: str, value: Any, fault: Fault | None) -> Any:
    """Return a method or property in its guarded form; None if it is neither, or abstract."""
    if getattr(value, "__isabstractmethod__", False):
        return None
    if isinstance(value, property) and value.fget is not None:
        return property(_wrapper(name, value.fget, fault), doc=value.__doc__)
    if isinstance(value, cached_property):
        return cached_property(_wrapper(name, value.func, fault))
    return _wrapper(name, value, fault) if isinstance(value, FunctionType) else None


def _wrapper(name: str, function: Any, fault: Fault | None) -> Any:
    if getattr(function, "_is_guarded", False):
        return function

    @wraps(function)
    def guarded(self: Any, *args: Any, **options: Any) -> Any:
        check = fault and partial(_about, fault, self)
        return call_foreign(self, name, partial(function, self), *args, fault=check, **options)

    guarded._is_guarded = True  # type: ignore[attr-defined]
    return guarded


def _about(fault: Fault, owner: Any, returned: Any, *args: Any, **options: Any) -> str:
    return fault(returned, owner, *args, **options)
