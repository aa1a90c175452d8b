"""Pseudonymise user ids with keyed hashes, which cannot be reversed without the key."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import fsspec

from clusterscale import storage
from clusterscale.errors import InputError, MissingError

__all__ = ["check_key", "pseudonyms", "read_key"]

DIGEST_BYTES = 16  # two of a billion users collide with probability 10⁻²¹


def read_key(path: str) -> bytes:
    """Return the key in a file: its raw bytes, 16 to 64 of them.

    Create one with ``head -c 32 /dev/urandom > KEYFILE``.

    Raises
    ------
    MissingError
        If there is no such file.
    InputError
        If the file is too short or too long for a key.
    """
    if not storage.exists(path):
        raise MissingError(f"{path}: there is no such key file")
    with fsspec.open(path, "rb") as stream:
        key = bytes(stream.read(1 << 16))
    check_key(key, where=path)
    return key


def check_key(key: bytes, *, where: str) -> None:
    """Check the size of a key.

    Raises
    ------
    InputError
        If it does not have 16 to 64 bytes.
    """
    if not 16 <= len(key) <= 64:
        raise InputError(f"{where}: a key has 16 to 64 bytes, this one has {len(key)}")


def pseudonyms(users: Iterable[str], key: bytes) -> list[str]:
    """Return the keyed BLAKE2b hash of each id, 32 hexadecimal digits.

    >>> pseudonyms(["ann"], b"0123456789abcdef")
    ['ba6f61e1790fb1cc3c1f3bced18a4f25']
    """
    return [blake2b(user.encode(), key=key, digest_size=DIGEST_BYTES).hexdigest() for user in users]
