"""Many cases of one test: as a loop that names the case which fails, or mostly in the slow tier."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest


def for_each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[..., Any]:
    """Call a test once for each case, as ``pytest.mark.parametrize`` would, but as one test.

    For cases whose ids would tell nothing. All share what fixtures made. An exception gets a note
    that names its case.
    """
    each_name = _split(names)
    cases = list(cases)
    if any(hasattr(case, "marks") for case in cases):
        raise TypeError("the cases of a loop have no marks and no ids of their own")
    given = [
        dict(zip(each_name, (case,) if len(each_name) == 1 else case, strict=True))
        for case in cases
    ]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            for case in given:
                try:
                    test(**case, **fixtures)
                except BaseException as error:  # pytest's failures are no Exceptions
                    error.add_note(f"with {', '.join(f'{one}={case[one]!r}' for one in each_name)}")
                    raise

        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in each_name]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


def mostly_slow(
    names: str | tuple[str, ...], cases: Iterable[Any], *, n_quick: int = 1, **options: Any
) -> pytest.MarkDecorator:
    """Parametrize a test of which only the first few cases are in the quick tier."""
    n_names, marked = len(_split(names)), []
    for i, case in enumerate(cases):
        values = case if n_names > 1 else (case,)
        param = case if hasattr(case, "marks") else pytest.param(*values)
        slow = (pytest.mark.slow,) if i >= n_quick else ()
        marked.append(param._replace(marks=(*param.marks, *slow)))
    return pytest.mark.parametrize(names, marked, **options)


def _split(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one.strip() for one in names.split(",")) if isinstance(names, str) else names
