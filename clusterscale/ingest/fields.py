"""Field types shared by several readers."""

from __future__ import annotations

from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator

__all__ = ["Delimiter", "Zone"]


def _known(zone: str) -> str:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{zone!r} is not an IANA name such as 'Europe/London' or 'UTC'") from None
    return zone


def _single(delimiter: str) -> str:
    if len(delimiter.encode()) != 1 or delimiter in '"\r\n':
        raise ValueError(f"{delimiter!r} is not one character such as ',' or ';'")
    return delimiter


Zone = Annotated[str, AfterValidator(_known)]
Delimiter = Annotated[str, AfterValidator(_single)]
