"""Lists in a config: at least one item, none twice."""

from typing import Any

from pydantic import AfterValidator, Strict

__all__ = ["NonEmptyUnique", "OptionalUnique", "distinct"]


def distinct(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return ``items``; raise ValueError if there is none, or two share an id or a label."""
    if not items:
        raise ValueError("give at least one")
    labels = [str(getattr(item, "label", item)) for item in items]
    for keys in (labels, [getattr(item, "id", item) for item in items]):
        twice = sorted(
            {label for label, key in zip(labels, keys, strict=True) if keys.count(key) > 1}
        )
        if twice:
            raise ValueError(f"{', '.join(twice)} is listed twice")
    return items


NonEmptyUnique = [Strict(False), AfterValidator(distinct)]
OptionalUnique = [Strict(False), AfterValidator(lambda items: items and distinct(items))]
