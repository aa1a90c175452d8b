"""One random stream per named purpose.

Philox is a counter-based generator: distinct keys give independent streams (Salmon et al.,
SC'11). The key of a stream is a hash of the root seed and of a path that names the purpose of the
draw, so a draw depends neither on the order of tasks nor on the number of workers.
"""

from hashlib import blake2b

import numpy as np


def stream(seed: int, *path: str | int) -> np.random.Generator:
    """Return the generator that belongs to ``path`` under the root ``seed``.

    ``path`` is the purpose of the draw, broad to narrow, e.g. ``"groups", 17, 100``; ``1`` and
    ``"1"`` name different streams, and so do ``"ab", "c"`` and ``"a", "bc"``. It is a fresh
    Philox generator: the same arguments always give the same bits. Raises TypeError if ``seed``
    or a part of ``path`` is neither text nor an integer.
    """
    digest = blake2b(digest_size=16)
    for part in (seed, *path):
        digest.update(_encode(part))
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest.digest(), "little")))


def _encode(part: str | int) -> bytes:
    if isinstance(part, bool) or not isinstance(part, (str, int, np.integer)):
        raise TypeError(f"a seed path holds text and integers, not {part!r}")
    kind, body = ("s", part) if isinstance(part, str) else ("i", str(int(part)))
    raw = body.encode()
    return f"{kind}{len(raw)}:".encode() + raw
