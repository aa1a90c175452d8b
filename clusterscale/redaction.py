"""Keep secrets out of URLs and out of everything that is shown or stored.

Credentials come from the environment or from the file system's own sources (a profile, a role, a
mounted secret). They are never part of a config, a command or a task.
"""

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from clusterscale.errors import InputError

_HIDDEN = "[hidden]"

# Only letters are compared, so that access-key, accessKey and ACCESS_KEY are equal.
_KEYS = re.compile(
    r"key$|keyid$|secret|token|passw(or)?d|pwd|passphrase|signature|^sig$|^sas$|credential|^auth"
    r"|connectionstring"
)
_PASSWORD = re.compile(r"(?<=://)[^/\s@]*:[^\s@]*@")
_ENCODED_PASSWORD = re.compile(
    r"(?P<start>(?::|%(?:25)*3A)(?:/|%(?:25)*2F){2})(?>[^/\s@]*?%(?:25)*3A)[^\s@]*?"
    r"(?P<at>%(?:25)*40)",
    re.IGNORECASE,
)
# For these protocols, what stands before @ can only be a key or a token; elsewhere it is a name.
_TOKEN = re.compile(r"(?<![^\s'\"(:])(?P<scheme>https?|s3a?|gs|gcs)://[^/\s@?#]+@", re.IGNORECASE)
_PAIR = re.compile(
    r"(?P<key>(?<![\w.%-])[\w.%-]*"
    r"(?:key|secret|token|passw(?:or)?d|signature|credential|(?:\b|%3F|%26)sig)[\w-]*+)"
    r"(?P<equals>=|%3D)(?P<value>[^&\s\"'<>]+)",
    re.IGNORECASE,
)
_ACCESS_KEY = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")
_CONTROLS = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_MARKS = re.compile(r"[\\`<&\[\]]")  # begin HTML, entities, links and code in Markdown
_LONG = re.compile(r"(?<!\S)([\w.'\"({\[-]{0,60})\S{2000,}")
_VARIABLES = re.compile(r"^(AWS|AZURE|FSSPEC|GCP|GOOGLE|GS|S3)_")


def check_url(url: str) -> str:
    """Return ``url`` unless it contains a password or a key; the error repeats neither.

    Raises InputError if it has ``user:password@``, or ``token@`` where only buckets or hosts
    are named, or a query key whose name suggests a credential.
    """
    for part in url.split("::"):
        scheme, separator, _ = part.partition("://")
        if not separator:
            continue
        if _PASSWORD.search(part):
            raise InputError(_refuse(scheme, "a user with a password"))
        if _TOKEN.match(part):
            raise InputError(_refuse(scheme, "a key or token before @"))
        for key, _ in parse_qsl(urlsplit(part).query, keep_blank_values=True):
            if _names_secret(key):
                raise InputError(_refuse(scheme, f"the query key {key!r}"))
    return url


def clean(text: str) -> str:
    """Return ``text`` without passwords in URLs, URL signatures and keys of this environment.

    >>> clean("GET https://host/cube?X-Amz-Signature=0a1b2c&partNumber=2 failed")
    'GET https://host/cube?X-Amz-Signature=[hidden]&partNumber=2 failed'
    >>> clean("ftp://ann:geheim@host/cube is not there")
    'ftp://[hidden]@host/cube is not there'
    """
    for secret in _known():
        text = re.sub("".join(map(_as_in_url, secret)), _HIDDEN, text)
    text = _LONG.sub(r"\1…", text)  # the time of the next ones grows with the square of a word
    text = _PASSWORD.sub(f"{_HIDDEN}@", text)
    text = _ENCODED_PASSWORD.sub(rf"\g<start>{_HIDDEN}\g<at>", text)
    text = _TOKEN.sub(rf"\g<scheme>://{_HIDDEN}@", text)
    text = _PAIR.sub(rf"\g<key>\g<equals>{_HIDDEN}", text)
    return _ACCESS_KEY.sub(_HIDDEN, text)


def without_controls(text: str) -> str:
    r"""Return ``text`` with ``�`` for C0, C1, bidirectional and invisible controls, but for ``\n``.

    >>> without_controls("a\x1b[2Jb")
    'a�[2Jb'
    """
    return _CONTROLS.sub("\ufffd", text)


def one_line(value: Any) -> Any:
    r"""Return a text or path as text without controls and line breaks; other values unchanged.

    >>> one_line("a\nb: 1")
    'a�b: 1'
    """
    if not isinstance(value, str | Path):
        return value
    return without_controls(str(value)).replace("\n", "\ufffd")


def in_markdown(text: str) -> str:
    r"""Return a text of others for a page in Markdown, where it is shown as it is.

    >>> in_markdown("[free](javascript:x) <b>")
    '\\[free\\](javascript:x) \\<b>'
    """
    return _MARKS.sub(r"\\\g<0>", text)


def _refuse(scheme: str, what: str) -> str:
    return (
        f"a {scheme}:// URL must not contain {what}: give credentials through the environment "
        "(AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3://), or through the files and roles "
        "that its file system looks up"
    )


def _names_secret(key: str) -> bool:
    return bool(_KEYS.search(re.sub(r"[^a-z]", "", key.lower())))


def _as_in_url(letter: str) -> str:
    """Return a pattern of a letter, also percent-encoded, once or more often."""
    plain = r"(?: |\+)" if letter == " " else re.escape(letter)
    encoded = "".join(
        f"%(?:25)*(?i:{byte:02X})" for byte in letter.encode(errors="surrogateescape")
    )
    return f"(?:{plain}|{encoded})"


def _known() -> list[str]:
    """Return the secrets in the environment of this process, the longest first."""
    # 8: characters; replacing shorter values would hide ordinary words
    secrets = {
        value
        for name, value in os.environ.items()
        if _VARIABLES.match(name) and _names_secret(name) and len(value) >= 8
    }
    return sorted(secrets, key=len, reverse=True)
