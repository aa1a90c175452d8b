"""Config lists: non-empty, without duplicates."""

from typing import Any

from pydantic import AfterValidator, Strict

__all__ = ["NonEmptyUnique", "OptionalUnique", "distinct"]


def distinct(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return ``items``; raise ValueError if it is empty or two have the same label."""
    if not items:
        raise ValueError("give at least one")
    labels = [getattr(item, "label", item) for item in items]
    twice = sorted({str(label) for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} is listed twice")
    return items


NonEmptyUnique = [Strict(False), AfterValidator(distinct)]
OptionalUnique = [Strict(False), AfterValidator(lambda items: items and distinct(items))]
