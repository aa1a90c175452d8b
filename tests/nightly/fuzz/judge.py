"""What no command may do, whatever its input is: faults of exit codes, outputs and files."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator

__all__ = ["GOOD_CODES", "MOST_OUTPUT", "REFUSALS", "find_faults", "find_left"]

GOOD_CODES = (0, 1, 2, 3, 4, 75)
REFUSALS = (2, 75)

_IDS = re.compile(r"example\.org|resident\d{3,}")
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_MOST_LINES, _MOST_MESSAGE = 10, 4_000
MOST_OUTPUT = 400_000  # characters


def find_left(before: set[str], after: set[str], allowed: tuple[str, ...]) -> list[str]:
    """Return the new paths that no pattern allows."""
    patterns = [f"folder/{pattern}" for pattern in allowed]
    return sorted(
        path
        for path in after - before
        if not any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)
    )


def find_faults(code: int, output: str) -> Iterator[tuple[str, str]]:
    """Yield the faults of an exit code and the output of one command."""
    message = output[at:] if (at := output.rfind("error: ")) >= 0 else output
    if "Traceback (most recent call last)" in output or "Exception ignored in" in output:
        yield "traceback", output[-2_000:]
    elif code not in GOOD_CODES:
        yield "exit code", f"{code}: {message[:1_000]}"
    if code in REFUSALS:
        if not message.strip():
            yield "no message", f"exit code {code}"
        if len(message.splitlines()) > _MOST_LINES or len(message.encode()) > _MOST_MESSAGE:
            yield "message too long", message[:1_000]
    if len(output) > MOST_OUTPUT:
        yield "message too long", f"{len(output):,} characters of output"
    if found := _IDS.search(output):
        yield "id leaked", output[max(found.start() - 100, 0) : found.end() + 20]
    if found := _CONTROLS.search(output):
        yield "control character", repr(output[max(found.start() - 100, 0) : found.end() + 20])
