"""Features of GeoJSON: a collection (RFC 7946), whole or one by one, or one a line (RFC 8142)."""

import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from clusterscale.errors import SourceError
from clusterscale.reading import sources, tables
from clusterscale.reading.sources import File, Piece

_CHUNK = 1 << 20  # characters read at a time from a collection
_COLLECTION = re.compile(r'^\s*\{\s*"features"|"type"\s*:\s*"FeatureCollection"')
_FEATURES = re.compile(r'"features"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")


def text_of(value: object) -> str | None:
    """Return text or a number as text, None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return value if isinstance(value, str) else repr(value)


def load(content: bytes, uri: str) -> dict[str, Any]:
    """Return a whole collection with its other members; raises SourceError if it is none."""
    try:
        collection = json.loads(content)
    except (ValueError, RecursionError):
        raise SourceError(f"{uri} is not JSON") from None
    found: dict[str, Any] = collection if isinstance(collection, dict) else {}
    if found.get("type") != "FeatureCollection" or not isinstance(found.get("features"), list):
        raise SourceError(f"{uri} is not a GeoJSON FeatureCollection")
    if not found["features"]:
        raise SourceError(f"{uri} has no features")
    return found


def is_collection(file: File) -> bool:
    """Return whether a file begins like a collection."""
    with sources.open_text(file) as stream:
        head = stream.read(1 << 16)
    return _COLLECTION.search(head.decode("utf-8-sig", errors="replace")) is not None


def lines(piece: Piece) -> Iterator[object]:
    """Yield the value of each line, None if it is not JSON."""
    for block in sources.text_blocks(piece, tables.BLOCK):
        for line in block.splitlines():
            line = line.removeprefix(b"\xef\xbb\xbf").strip(b"\x1e \t")
            if line:
                value = None
                with suppress(ValueError, RecursionError):
                    value = json.loads(line)
                yield value


def members(file: File) -> Iterator[object]:
    """Yield the features of a collection one by one, without loading all of them."""
    with sources.open_text(file) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig")
        n_read = 0
        try:
            for feature in _array(text, file.name):
                yield feature
                n_read += 1
        except SourceError:
            raise
        except (ValueError, RecursionError):
            raise SourceError(
                f"{file.name} is not a complete FeatureCollection: "
                f"invalid JSON after {n_read} features"
            ) from None


def _array(text: io.TextIOWrapper, where: str) -> Iterator[object]:
    buffer, start = "", None
    while start is None:
        more = text.read(_CHUNK)
        if not more:
            raise SourceError(f"{where} is a FeatureCollection without features")
        buffer += more
        start = _FEATURES.search(buffer)
    buffer, position, size = buffer[start.end() :], 0, _CHUNK
    decode_next = json.JSONDecoder().raw_decode
    while True:
        gap = _BETWEEN.match(buffer, position)
        position = gap.end() if gap else position
        if buffer[position : position + 1] == "]":
            return
        try:
            feature, position = decode_next(buffer, position)
        except ValueError:
            more = text.read(size)
            if not more:
                raise
            # Double the size, so that a large feature is not parsed again after every chunk.
            buffer, position, size = buffer[position:] + more, 0, size * 2
            continue
        size = _CHUNK
        yield feature
