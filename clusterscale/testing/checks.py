"""Named checks, those that hold for every kind, and registering classes during a test."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import getdoc, isfunction
from pkgutil import resolve_name
from typing import Any, get_args

from clusterscale.contracts import ConfigModel
from clusterscale.registry import register

__all__ = ["Check", "expect", "named", "registered", "run"]

Check = Callable[..., None]


def expect(right: Any, message: str) -> None:
    """Raise an ``AssertionError`` with ``message`` unless ``right``; ``-O`` does not remove it."""
    if not right:
        raise AssertionError(message)


def named(base: type[Any], module: Mapping[str, Any] | None = None) -> Iterator[tuple[str, Check]]:
    """Yield the name and the function of each check of entries that derive from ``base``.

    These are the checks of this module and of ``module``, as its ``globals()``: its public
    functions that it does not export, in their order. Each takes a class or an object, and raises
    nothing but an ``AssertionError``.
    """
    for names in (globals(), module or {}):
        for name, check in names.items():
            own = isfunction(check) and check.__module__ == names["__name__"]
            if own and not name.startswith("_") and name not in names["__all__"]:
                yield name, _naming(check, base)


def run(checks: Iterable[tuple[str, Check]], *subject: Any) -> None:
    """Call all checks on a class or an object."""
    for _, check in checks:
        check(*subject)


@contextmanager
def registered(*classes: type[Any]) -> Iterator[None]:
    """Register classes within a context; see :func:`clusterscale.register`.

    Parameters
    ----------
    *classes
        Classes with a literal name.

    Yields
    ------
    None
        Afterwards they are not registered.

    Raises
    ------
    InputError
        As :func:`clusterscale.register`.
    """
    try:
        for cls in classes:
            register(cls)
        yield
    finally:
        for cls in classes:
            resolve_name(cls._registry).discard(cls)


def _naming(check: Check, base: type[Any]) -> Check:
    @wraps(check)
    def run_check(subject: Any, *data: Any) -> None:
        cls = subject if isinstance(subject, type) else type(subject)
        where = f"{cls.__name__}: {check.__name__}"
        should = (getdoc(check) or "").split("\n\n")[0].replace("\n", " ")
        try:
            entry = cls() if isinstance(subject, type) else subject
        except Exception as error:
            raise AssertionError(
                f"{where}: {cls.__name__}() raises {type(error).__name__}: {error}; "
                "if it needs settings, give an object instead of the class"
            ) from error
        expect(
            isinstance(entry, base),
            f"{where}: it must derive from {base.__module__}.{base.__name__}",
        )
        try:
            check(entry, *(() if check.__module__ == __name__ else data))
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}. {should}") from error
        except Exception as error:
            raise AssertionError(
                f"{where}: it raises {type(error).__name__}: {error}. {should}"
            ) from error

    return run_check


def is_documented(entry: ConfigModel) -> None:
    """The class has a docstring that says what it does and where that comes from."""
    expect(type(entry).__doc__, "the class has no docstring")


def has_a_name(entry: Any) -> None:
    """The class has a literal name, with itself as its default, and the label begins with it."""
    field = type(entry).model_fields.get("name")
    literal = get_args(field.annotation) if field is not None else ()
    expect(
        field is not None and literal == (field.default,) == (entry.name,),
        'the field is missing or has another type: write name: Literal["my_name"] = "my_name"',
    )
    label, name = entry.label, entry.name
    titled = getattr(entry, "title", "")
    expect(titled or label.startswith(name), f"the label {label!r} does not begin with {name!r}")


def is_a_value(entry: ConfigModel) -> None:
    """An object cannot be changed, and equal objects have equal hashes and labels."""
    copy = entry.model_copy()
    expect(copy == entry, "a copy does not equal the object")
    expect(hash(copy) == hash(entry), "a copy has another hash")
    expect(copy.label == entry.label, "a copy has another label")
    try:
        setattr(entry, "name", "other")  # noqa: B010
    except (ValueError, AttributeError):
        return
    raise AssertionError("its fields can be set: leave frozen=True in model_config")


def survives_pickling(entry: ConfigModel) -> None:
    """Pickled and unpickled, as on the way to a worker, an object equals the original.

    Define the class at the top level of a module.
    """
    copy = pickle.loads(pickle.dumps(entry))
    expect(copy == entry, "the unpickled object differs")
    expect(hash(copy) == hash(entry), "the unpickled object has another hash")


def survives_a_config(entry: ConfigModel) -> None:
    """Its fields, written to a config and read again, give an equal object."""
    fields = entry.model_dump(mode="json")
    again = type(entry).model_validate(fields)
    expect(again == entry, f"the fields {fields} give another object")
