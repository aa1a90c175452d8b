"""Values as JSON can hold them."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["json_safe"]


def json_safe(value: Any) -> Any:
    """Return what JSON can hold: what is not a finite number is null."""
    if isinstance(value, dict):
        return {key: json_safe(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
