import pathlib
import ssl
import stat
import sys

import pytest

from kopf_kits.envtest import EnvtestError
from kopf_kits.envtest.certificates import write_certificates


@pytest.fixture
def folder(tmp_path: pathlib.Path, cryptography: None) -> pathlib.Path:
    write_certificates(tmp_path)
    return tmp_path


def shake_hands(client: ssl.SSLObject, server: ssl.SSLObject, pipes: list[ssl.MemoryBIO]) -> None:
    """Let both sides talk over memory until both are done."""
    client_in, client_out, server_in, server_out = pipes
    for _ in range(10):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
        server_in.write(client_out.read())
        client_in.write(server_out.read())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_server_and_admin_trust_each_other(folder: pathlib.Path, host: str) -> None:
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.crt")
    server_side.load_cert_chain(folder / "server.crt", folder / "server.key")
    server_side.verify_mode = ssl.CERT_REQUIRED
    server_side.verify_flags |= ssl.VERIFY_X509_STRICT
    client_side = ssl.create_default_context(cafile=folder / "ca.crt")
    client_side.verify_flags |= ssl.VERIFY_X509_STRICT
    client_side.load_cert_chain(folder / "admin.crt", folder / "admin.key")
    pipes = [ssl.MemoryBIO() for _ in range(4)]
    client = client_side.wrap_bio(pipes[0], pipes[1], server_hostname=host)
    server = server_side.wrap_bio(pipes[2], pipes[3], server_side=True)
    shake_hands(client, server, pipes)
    assert client.version() == server.version() == "TLSv1.3"
    certificate = server.getpeercert()
    assert certificate is not None
    assert (("organizationName", "system:masters"),) in certificate["subject"]


def test_keys_are_private(folder: pathlib.Path) -> None:
    keys = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.key")}
    assert keys == dict.fromkeys(["accounts.key", "admin.key", "ca.key", "server.key"], 0o600)


def test_keys_are_in_the_form_that_the_api_server_reads(folder: pathlib.Path) -> None:
    assert "-----BEGIN EC PRIVATE KEY-----" in (folder / "accounts.key").read_text()


def test_without_the_library(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setitem(sys.modules, "cryptography.x509", None)
    with pytest.raises(EnvtestError, match=r"^The certificates .* `pip install 'kopf\[dev\]'`\.$"):
        write_certificates(tmp_path)
