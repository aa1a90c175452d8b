"""TLS between driver, scheduler and workers, with configured or generated certificates."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import rmtree
from subprocess import PIPE, Popen
from tempfile import mkdtemp
from time import time
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from clusterscale.contracts import ConfigModel
from clusterscale.errors import ExistsError, MissingError

if TYPE_CHECKING:
    from distributed import Security


_NAMES = ("ca.pem", "cert.pem", "key.pem")
_PREFIX = "tls-"  # of folders of generated certificates
_LIFETIME = timedelta(days=30)  # of generated certificates
_HOST = "clusterscale"  # workers have no fixed host names, so names are not checked
_EARLY = timedelta(minutes=10)  # tolerated clock skew between nodes

File = Annotated[str, Field(min_length=1)]


class Tls(ConfigModel):
    """PEM files of the trusted authority and of the certificate that all processes share.

    Attributes
    ----------
    ca
        PEM file of the trusted authority, e.g. ``ca.pem``.
    certificate
        PEM file of the certificate, e.g. ``cert.pem``.
    key
        PEM file of its private key, e.g. ``key.pem``.
    """

    ca: File
    certificate: File
    key: File

    def security(self, *, in_memory: bool = False) -> Security:
        """Return Dask's security settings, which require encryption.

        With ``in_memory`` they have the content of the files, which may then be deleted. Raises
        MissingError, naming the key of the config, if a file cannot be read.
        """
        from distributed import Security

        for field in ("ca", "certificate", "key"):
            path = getattr(self, field)
            if not os.access(path, os.R_OK) or not os.path.isfile(path):
                raise MissingError(
                    f"tls.{field}: {path} is not a readable file; "
                    "`clusterscale certificates FOLDER` creates all three"
                )
        ca, certificate, key = self.ca, self.certificate, self.key
        if in_memory:
            ca, certificate, key = (Path(path).read_text() for path in (ca, certificate, key))
        roles = ("client", "scheduler", "worker")
        shown = {f"tls_{role}_cert": certificate for role in roles}
        shown |= {f"tls_{role}_key": key for role in roles}
        return Security(require_encryption=True, tls_ca_file=ca, **shown)


Encryption = Tls | Literal[False] | None
"""Configured certificates; False for no encryption; None to generate them for the run."""


@contextmanager
def encrypt(tls: Encryption, shared: str | Path) -> Iterator[Tls | None]:
    """Yield the certificates of a run; generated ones are in ``shared`` and deleted at the end.

    They are also deleted if this process is killed; if its machine fails, by the next run after
    they have expired.
    """
    if tls is not None:
        yield tls or None
        return
    Path(shared).mkdir(parents=True, exist_ok=True)
    for old in Path(shared).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time() - old.stat().st_mtime > _LIFETIME.total_seconds():
                rmtree(old, ignore_errors=True)
    folder = mkdtemp(prefix=_PREFIX, dir=shared)  # readable only by its owner
    # The pipe closes when this process ends, however it ends.
    with Popen(
        ["/bin/sh", "-c", 'cat; exec rm -rf -- "$1"', "sh", folder],
        stdin=PIPE,
        cwd="/",
        start_new_session=True,
    ):
        try:
            yield make_certificates(folder, days=_LIFETIME.days)
        finally:  # a batch system may have ended the other process first
            rmtree(folder, ignore_errors=True)


def make_certificates(folder: str | Path, *, days: int = 365) -> Tls:
    """Write ``ca.pem``, ``cert.pem`` and ``key.pem``, which only their owner may read.

    The certificate is self-signed, valid for some ``days``, and vouches only for itself, so no
    other certificate can be added later: generate new ones for a new cluster. Raises ExistsError if
    one of the files exists.
    """
    folder = Path(folder).absolute()
    paths = [folder / name for name in _NAMES]
    for path in paths:
        if path.exists():
            raise ExistsError(f"{path} already exists: choose another folder, or remove it")
    certificate, key = _sign(timedelta(days=days))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path, content in zip(paths, (certificate, certificate, key), strict=True):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
    return locate(folder)


def locate(folder: str | Path) -> Tls:
    """Return the paths that :func:`make_certificates` writes in a folder."""
    ca, certificate, key = (str(Path(folder).absolute() / name) for name in _NAMES)
    return Tls(ca=ca, certificate=certificate, key=key)


def _sign(lifetime: timedelta) -> tuple[bytes, bytes]:
    """Return a self-signed certificate and its key.

    This is ``distributed.Security.temporary`` with two differences: the period of validity can be
    chosen, and starts early enough for nodes whose clocks differ.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _HOST)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_HOST)]), critical=False)
        # Not an authority: whoever has the key cannot sign other certificates with it.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), secret
