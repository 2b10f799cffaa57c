"""Certificates and keys in credentials: files, data, and their failures."""

import base64
import datetime
import os
import ssl
import stat
import sys
import tempfile

import pytest

from kopf_cogs.structs.credentials import ConnectionInfo

x509 = pytest.importorskip("cryptography.x509")  # there are no wheels of it for PyPy
hashes = pytest.importorskip("cryptography.hazmat.primitives.hashes")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")

SERVER = "https://localhost:6443"
UTC = datetime.UTC


@pytest.fixture(scope="module")
def key():
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def pkey_pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@pytest.fixture(scope="module")
def cert_pem(key):
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.datetime(2020, 1, 1))
        .not_valid_after(datetime.datetime(2120, 1, 1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return cert.public_bytes(serialization.Encoding.PEM)


@pytest.fixture
def tmpdir_only(tmp_path, monkeypatch):
    """All temporary files are in this directory, so that we can see that none remains."""
    path = tmp_path / "tmp"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def test_ssl_with_ca_data(cert_pem):
    for data in [
        cert_pem,
        cert_pem.decode(),
        base64.b64encode(cert_pem),
        base64.encodebytes(cert_pem),
    ]:
        context = ConnectionInfo(server=SERVER, ca_data=data).as_ssl_context()
        assert context.cert_store_stats()["x509_ca"] == 1
        assert context.verify_mode == ssl.CERT_REQUIRED


def test_ssl_with_paths(tmp_path, cert_pem, pkey_pem, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ca.crt").write_bytes(cert_pem)
    (tmp_path / "client.crt").write_bytes(cert_pem)
    (tmp_path / "client.key").write_bytes(pkey_pem)
    context = ConnectionInfo(
        server=SERVER,
        ca_path="~/ca.crt",
        certificate_path="~/client.crt",
        private_key_path=str(tmp_path / "client.key"),
    ).as_ssl_context()
    assert context.cert_store_stats()["x509_ca"] == 1


def test_r31_paths_can_be_of_any_type(tmp_path, cert_pem, pkey_pem):
    for name, data in {"ca": cert_pem, "crt": cert_pem, "key": pkey_pem}.items():
        (tmp_path / name).write_bytes(data)
    context = ConnectionInfo(
        server=SERVER,
        ca_path=tmp_path / "ca",
        certificate_path=tmp_path / "crt",
        private_key_path=tmp_path / "key",
    ).as_ssl_context()
    assert context.cert_store_stats()["x509_ca"] == 1
    with pytest.raises(ValueError, match="Both the path & data of the CA"):
        ConnectionInfo(server=SERVER, ca_path=tmp_path / "ca", ca_data=cert_pem)


def test_ssl_data_are_in_private_files_deleted_at_once(
    tmpdir_only, cert_pem, pkey_pem, monkeypatch
):
    modes = {}

    def spy(self, certfile, keyfile=None, password=None):
        for path in [certfile, keyfile]:
            modes[path] = stat.S_IMODE(os.stat(path).st_mode)
        return original(self, certfile, keyfile, password)

    original = ssl.SSLContext.load_cert_chain
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    ConnectionInfo(
        server=SERVER,
        certificate_data=base64.b64encode(cert_pem),
        private_key_data=pkey_pem.decode(),
    ).as_ssl_context()
    assert list(modes.values()) == [0o600, 0o600]
    assert all(path.startswith(str(tmpdir_only)) for path in modes)
    assert list(tmpdir_only.iterdir()) == []


def test_ssl_with_both_certificate_and_key_in_one_file(
    tmpdir_only, cert_pem, pkey_pem, monkeypatch
):
    calls = []
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", lambda *_, **kw: calls.append(kw))
    ConnectionInfo(server=SERVER, certificate_data=cert_pem + pkey_pem).as_ssl_context()
    assert len(calls) == 1
    assert calls[0]["keyfile"] is None


def test_ssl_certificate_without_key_is_ignored(tmpdir_only, cert_pem, monkeypatch):
    calls = []
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", lambda *_, **kw: calls.append(kw))
    ConnectionInfo(server=SERVER, certificate_data=cert_pem).as_ssl_context()
    assert calls == []


def test_f6_ssl_data_with_no_directory_for_temporary_files(cert_pem, pkey_pem, monkeypatch):
    if sys.platform != "linux":
        pytest.skip("memory files are only in Linux")

    def mkstemp(*_, **__):
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
    ConnectionInfo(
        server=SERVER, certificate_data=cert_pem, private_key_data=pkey_pem
    ).as_ssl_context()


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [
        ({"ca_path": "/x", "ca_data": "y"}, "Both the path & data of the CA"),
        ({"certificate_path": "/x", "certificate_data": "y"}, "Both the path & data"),
        ({"private_key_path": "/x", "private_key_data": "y"}, "Both the path & data"),
        ({"ca_data": "!!!"}, "data of the CA are neither PEM nor base64"),
        ({"certificate_data": b"zzz"}, "client certificate are neither PEM nor base64"),
        ({"private_key_data": b"zzz"}, "private key are neither PEM nor base64"),
        ({"ca_path": "/absent/ca"}, r"CA cannot be loaded \(/absent/ca\): No such file"),
        ({"ca_data": "AAAA"}, "CA cannot be loaded"),
        (
            {"certificate_path": "/absent/c", "private_key_path": "/absent/k"},
            r"client certificate cannot be loaded \(/absent/c & /absent/k\): No such file",
        ),
    ],
)
def test_b16_broken_certificates_are_explained(kwargs, error, tmpdir_only):
    with pytest.raises(ValueError, match=error):
        ConnectionInfo(server=SERVER, **kwargs).as_ssl_context()
    assert list(tmpdir_only.iterdir()) == []


def test_b16_mismatching_keys_are_explained(cert_pem, tmpdir_only):
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with pytest.raises(
        ValueError, match="client certificate cannot be loaded: KEY_VALUES_MISMATCH"
    ):
        ConnectionInfo(
            server=SERVER, certificate_data=cert_pem, private_key_data=other
        ).as_ssl_context()
    assert list(tmpdir_only.iterdir()) == []


def test_b16_encrypted_keys_are_refused_with_no_questions_asked(key, cert_pem, tmpdir_only):
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    with pytest.raises(ValueError, match="private key is encrypted"):
        ConnectionInfo(
            server=SERVER, certificate_data=cert_pem, private_key_data=encrypted
        ).as_ssl_context()
    assert list(tmpdir_only.iterdir()) == []
