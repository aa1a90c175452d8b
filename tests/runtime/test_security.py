"""Certificates: private, valid for what they are for, and gone when the run is over."""

import os
import signal
import ssl
import stat
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clusterscale.errors import ExistsError, MissingError
from clusterscale.runtime.security import Tls, encrypt, make_certificates

x509 = pytest.importorskip("cryptography.x509")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")


def mode(path):
    return stat.S_IMODE(Path(path).stat().st_mode)


def read(path):
    return x509.load_pem_x509_certificate(Path(path).read_bytes())


def test_only_the_owner_may_read_them(tmp_path):
    made = make_certificates(tmp_path / "tls")
    assert mode(tmp_path / "tls") == 0o700
    assert [mode(path) for path in (made.ca, made.certificate, made.key)] == [0o600] * 3
    assert {path.name for path in (tmp_path / "tls").iterdir()} == {
        "ca.pem",
        "cert.pem",
        "key.pem",
    }


def test_the_authority_vouches_for_the_certificate_and_for_no_other(tmp_path):
    from cryptography.exceptions import InvalidSignature

    one, other = (make_certificates(tmp_path / name) for name in ("one", "other"))
    read(one.certificate).verify_directly_issued_by(read(one.ca))
    with pytest.raises(InvalidSignature):
        read(one.certificate).verify_directly_issued_by(read(other.ca))


def sign(tmp_path, made):
    """Make another certificate, signed with the key of a cluster."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import NameOID

    issuer, signer = read(made.certificate), load_key(made)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "another")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(issuer.not_valid_before_utc)
        .not_valid_after(issuer.not_valid_after_utc)
        .sign(signer, SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (tmp_path / "another.pem").write_bytes(certificate.public_bytes(pem))
    (tmp_path / "another-key.pem").write_bytes(key.private_bytes(pem, *plain))
    files = {"certificate": "another.pem", "key": "another-key.pem"}
    return made.model_copy(update={key: str(tmp_path / file) for key, file in files.items()})


def load_key(made):
    return serialization.load_pem_private_key(Path(made.key).read_bytes(), None)


def shake_hands(server, client):
    """Connect two ends as Dask does, and send a byte, which needs both to trust the other."""
    ends = [
        server.security().get_listen_args("scheduler")["ssl_context"],
        client.security().get_connection_args("client")["ssl_context"],
    ]
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    waiting = ends[0].wrap_bio(one, other, server_side=True)
    asking = ends[1].wrap_bio(other, one)
    for _ in range(4):
        for end in (asking, waiting):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    waiting.write(b"1")
    return asking.read(1)


@pytest.mark.dask
def test_a_cluster_trusts_its_own_certificate_only(tmp_path):
    pytest.importorskip("distributed")
    one, other = (make_certificates(tmp_path / name) for name in ("one", "other"))
    assert load_key(one).public_key() == read(one.certificate).public_key()
    assert shake_hands(one, one) == b"1"
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed certificate"):
        shake_hands(one, other)


@pytest.mark.dask
def test_its_key_cannot_sign_more(tmp_path):
    pytest.importorskip("distributed")
    made = make_certificates(tmp_path / "tls")
    another = sign(tmp_path, made)
    read(another.certificate).verify_directly_issued_by(read(made.ca))
    with pytest.raises(ssl.SSLCertVerificationError, match="invalid CA certificate"):
        shake_hands(made, another)


def test_they_are_valid_as_long_as_asked_and_at_once(tmp_path):
    before = datetime.now(UTC).replace(microsecond=0)  # as certificates have whole seconds
    made = read(make_certificates(tmp_path, days=3).certificate)
    after = datetime.now(UTC)
    assert made.not_valid_before_utc < before - timedelta(minutes=5)
    assert before <= made.not_valid_after_utc - timedelta(days=3) <= after


def test_nothing_is_overwritten(tmp_path):
    made = make_certificates(tmp_path)
    before = Path(made.key).read_bytes()
    with pytest.raises(ExistsError, match=r"ca\.pem already exists"):
        make_certificates(tmp_path)
    assert Path(made.key).read_bytes() == before


def test_those_of_a_run_go_with_it(tmp_path):
    with encrypt(None, tmp_path / "shared") as tls:
        assert mode(Path(tls.key).parent) == 0o700
        assert Path(tls.key).is_file()
    assert list((tmp_path / "shared").iterdir()) == []


KILLED = """
import os, signal, sys
from clusterscale.runtime.security import encrypt
with encrypt(None, sys.argv[1]) as tls:
    assert os.path.isfile(tls.key)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_those_of_a_killed_run_are_deleted(tmp_path):
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    for _ in range(600):
        if not any(tmp_path.iterdir()):
            return
        time.sleep(0.1)
    raise AssertionError(f"{list(tmp_path.iterdir())} is left")


def test_those_of_a_run_go_with_it_even_if_nobody_watches(tmp_path, monkeypatch):
    """As where a batch system ends all processes of a job at the same time."""
    monkeypatch.setattr("clusterscale.runtime.security.Popen", lambda *args, **rest: nullcontext())
    with encrypt(None, tmp_path) as tls:
        assert Path(tls.key).is_file()
    assert list(tmp_path.iterdir()) == []


def test_expired_ones_are_deleted(tmp_path):
    old, new = tmp_path / "tls-old", tmp_path / "tls-new"
    for folder, days in ((old, 31), (new, 29)):
        folder.mkdir()
        os.utime(folder, (time.time() - days * 86_400,) * 2)
    with encrypt(None, tmp_path):
        assert not old.exists()
    assert list(tmp_path.iterdir()) == [new]


def test_given_ones_are_taken_and_none_if_none_are_wanted(tmp_path):
    given = Tls(ca="a", certificate="b", key="c")
    with encrypt(given, tmp_path / "shared") as tls:
        assert tls is given
    with encrypt(False, tmp_path / "shared") as tls:
        assert tls is None
    assert not (tmp_path / "shared").exists()


@pytest.mark.dask
@pytest.mark.parametrize("field", ["ca", "certificate", "key"])
def test_a_file_that_is_not_there_is_named_with_its_key(tmp_path, field):
    pytest.importorskip("distributed")
    made = make_certificates(tmp_path)
    with pytest.raises(MissingError, match=rf"tls\.{field}: {tmp_path}/none"):
        made.model_copy(update={field: f"{tmp_path}/none"}).security()
