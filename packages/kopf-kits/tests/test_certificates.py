import datetime
import sys

import pytest

from kopf_kits import certificates
from kopf_kits.certificates import CertificateError, Pair, make_self_signed


def describe(pair: Pair) -> tuple[str, frozenset[str]]:
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(pair.certificate)
    common = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value
    return str(common), certificates.get_hostnames(pair.certificate)


@pytest.mark.parametrize(
    ("hostnames", "common", "names"),
    [
        (["localhost"], "localhost", {"localhost"}),
        (["1.2.3.4", "x.example"], "x.example", {"1.2.3.4", "x.example"}),
        (["1.2.3.4", "::1"], "1.2.3.4", {"1.2.3.4", "::1"}),
        (["[::1]", "0.0.0.0", "::"], "::1", {"::1"}),
        (["x", "x", "y"], "x", {"x", "y"}),
        (["bücher.example"], "xn--bcher-kva.example", {"xn--bcher-kva.example"}),
        (["a" * 60 + ".example"], "a" * 60 + ".exa", {"a" * 60 + ".example"}),
    ],
)
@pytest.mark.usefixtures("cryptography")
def test_names(hostnames: list[str], common: str, names: set[str]) -> None:
    assert describe(make_self_signed(hostnames)) == (common, names)


@pytest.mark.parametrize("hostnames", [[], ["0.0.0.0", "::"]])
@pytest.mark.usefixtures("cryptography")
def test_no_names(hostnames: list[str]) -> None:
    with pytest.raises(CertificateError, match="no hostname and no address"):
        make_self_signed(hostnames)


@pytest.mark.usefixtures("cryptography")
def test_not_a_name() -> None:
    with pytest.raises(CertificateError, match="This is not a hostname"):
        make_self_signed(["ü" * 300])


@pytest.mark.usefixtures("cryptography")
def test_password() -> None:
    pair = make_self_signed(["x"], password="secret")
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in pair.key


@pytest.mark.usefixtures("cryptography")
def test_keys_are_not_shown() -> None:
    assert "PRIVATE" not in repr(make_self_signed(["x"]))


@pytest.mark.usefixtures("cryptography")
def test_time_of_renewal() -> None:
    validity = datetime.timedelta(days=3) - certificates.BACKDATED
    before = datetime.datetime.now(datetime.UTC)
    pair = make_self_signed(["x"], validity=validity)
    when = certificates.get_renewal_time(pair.certificate)
    expected = before - certificates.BACKDATED + datetime.timedelta(days=2)
    assert abs(when - expected) < datetime.timedelta(minutes=10)


@pytest.mark.usefixtures("cryptography")
def test_not_a_certificate() -> None:
    with pytest.raises(CertificateError, match="not a certificate"):
        certificates.get_renewal_time(b"hello")


def test_absent_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setitem(sys.modules, "cryptography.x509", None)
    with pytest.raises(CertificateError) as info:
        make_self_signed(["x"])
    assert "`pip install 'kopf[webhooks]'`" in str(info.value)
    assert "\n" not in str(info.value)


@pytest.mark.usefixtures("cryptography")
def test_encrypting() -> None:
    key = certificates.make_key()
    encrypted = certificates.encrypt_key(key, "secret")
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in encrypted
    with pytest.raises(CertificateError, match="broken or encrypted"):
        certificates.encrypt_key(encrypted, "secret")
