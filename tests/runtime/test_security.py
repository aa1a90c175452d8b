"""Certificates: private, valid for what they are for, and gone when the run is over."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clusterscale.errors import ExistsError, MissingError
from clusterscale.runtime.security import Tls, encrypt, make_certificates

x509 = pytest.importorskip("cryptography.x509")


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


def test_the_key_that_could_sign_more_is_nowhere(tmp_path):
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    made = make_certificates(tmp_path)
    key = load_pem_private_key(Path(made.key).read_bytes(), None)
    assert key.public_key() == read(made.certificate).public_key()
    assert key.public_key() != read(made.ca).public_key()
    assert (
        not read(made.certificate)
        .extensions.get_extension_for_class(x509.BasicConstraints)
        .value.ca
    )


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
