"""Certificates of servers: which ones are used, which ones are not yet, and how they are loaded."""

import datetime
import logging
import pathlib
import ssl
import stat
from typing import Any

import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_kits.certificates import Authority, CertificateError, Pair, make_self_signed
from kopf_kits.webhooks.identities import (
    ClientTrust,
    FileProvider,
    GeneratedProvider,
    IdentityKeeper,
    Material,
    find_problem,
    install,
    make_context,
    merge_bundles,
)

from .conftest import write_pair

HOSTS = ["localhost"]


class Files:
    """The files of a server's certificate, which change."""

    def __init__(self, folder: pathlib.Path, authority: Authority) -> None:
        super().__init__()
        self.folder = folder
        self.authority = authority
        self.cafile = folder / "ca.crt"
        self.cafile.write_bytes(authority.pair.certificate)
        self.trusted = folder / "clients.crt"
        self.trusted.write_bytes(authority.pair.certificate)
        self.certfile, self.pkeyfile = (folder / "tls.crt", folder / "tls.key")
        self.write(authority.issue("x", hostnames=HOSTS))
        provider = FileProvider(self.certfile, self.pkeyfile, None, self.cafile.read_bytes)
        self.keeper = IdentityKeeper(provider, ClientTrust(cafile=self.trusted))

    def write(self, pair: Pair) -> None:
        write_pair(self.folder, pair)

    def issue(self, **kwargs: Any) -> Pair:
        return self.authority.issue("x", hostnames=HOSTS, **kwargs)


@pytest.fixture
async def files(tmp_path: pathlib.Path, authority: Authority) -> Files:
    files = Files(tmp_path, authority)
    identity = await files.keeper.load()
    assert identity.bundle == authority.pair.certificate
    return files


async def test_nothing_changes(files: Files) -> None:
    assert await files.keeper.refresh() is None


async def test_another_pair(files: Files) -> None:
    files.write(files.issue())
    identity = await files.keeper.refresh()
    assert identity is not None
    assert await files.keeper.refresh() is None


async def test_other_authorities_of_clients(files: Files, alien: Authority) -> None:
    files.trusted.write_bytes(alien.pair.certificate)
    identity = await files.keeper.refresh()
    assert identity is not None
    [ca] = identity.context.get_ca_certs()
    assert ca["subject"] == ((("commonName", "Another CA"),),)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("certificate only", "not of each other"),
        ("key only", "not of each other"),
        ("cut", "broken"),
        ("empty", "broken"),
        ("encrypted", "no password"),
        ("deleted", "no such file"),
        ("deleted bundle", "no such file"),
        ("expired", "expired"),
        ("alien", "unable to get local issuer"),
    ],
)
async def test_g4_unusable_files_are_not_used_yet(
    files: Files, alien: Authority, caplog: pytest.LogCaptureFixture, kind: str, reason: str
) -> None:
    pair = files.issue()
    match kind:
        case "certificate only":
            files.certfile.write_bytes(pair.certificate)
        case "key only":
            files.pkeyfile.write_bytes(pair.key)
        case "cut":
            files.certfile.write_bytes(pair.certificate[:100])
        case "empty":
            files.pkeyfile.write_bytes(b"")
        case "encrypted":
            files.write(make_self_signed(HOSTS, password="s3cret"))
        case "deleted":
            files.pkeyfile.unlink()
        case "deleted bundle":
            files.cafile.unlink()
        case "expired":
            files.write(files.issue(validity=datetime.timedelta(hours=-1)))
        case "alien":
            files.write(alien.issue("x", hostnames=HOSTS))

    for _ in range(3):  # but it is told once
        assert await files.keeper.refresh() is None
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert reason in record.message
    assert "The previous one remains in use." in record.message
    assert record.exc_info is None

    files.write(pair)
    files.cafile.write_bytes(files.authority.pair.certificate)
    assert await files.keeper.refresh() is not None


async def test_g4_expired_from_the_beginning(
    tmp_path: pathlib.Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """It is better to serve something than nothing; and any other one is not worse then."""
    files = Files(tmp_path, authority)
    files.write(files.issue(validity=datetime.timedelta(hours=-1)))
    await files.keeper.load()
    assert "Clients will refuse the webhook server: certificate has expired." in caplog.text
    files.write(files.issue(validity=datetime.timedelta(hours=-2)))
    assert await files.keeper.refresh() is not None


async def test_own_context_does_not_break(files: Files) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    provider = FileProvider(files.certfile, files.pkeyfile, None, files.cafile.read_bytes)
    keeper = IdentityKeeper(provider, ClientTrust(), context)
    assert (await keeper.load()).context is context
    files.certfile.write_bytes(files.issue().certificate)
    assert await keeper.refresh() is None
    assert find_problem(context, files.authority.pair.certificate) is None
    pair = files.issue()
    files.write(pair)
    renewed = await keeper.refresh()
    assert renewed is not None
    assert renewed.context is context
    assert find_problem(context, pair.certificate) is None


@pytest.mark.usefixtures("cryptography")
async def test_generated_pair_is_renewed_before_it_expires() -> None:
    made: list[Pair] = []

    def make() -> Pair:
        made.append(make_self_signed(HOSTS, password="x", now=clock.now()))
        return made[-1]

    clock = FakeClock()
    provider = GeneratedProvider(make, "x", lambda: None, clock)
    first = await provider.fetch()
    clock.advance(59 * 24 * 3600)
    assert await provider.fetch() == first
    clock.advance(2 * 24 * 3600)
    second = await provider.fetch()
    assert second.certificate == made[1].certificate != first.certificate
    assert second.bundle == second.certificate


def get_mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class SpyContext:
    """Remembers what it is loaded from."""

    def __init__(self, *, is_failing: bool = False) -> None:
        super().__init__()
        self.is_failing = is_failing
        self.path = pathlib.Path()
        self.content = b""
        self.modes: tuple[int, int] = (0, 0)

    def load_cert_chain(self, path: pathlib.Path, *, password: str) -> None:
        self.path = path
        self.content = path.read_bytes()
        self.modes = (get_mode(path), get_mode(path.parent))
        if self.is_failing:
            raise ssl.SSLError("boo!")


@pytest.mark.parametrize("is_failing", [False, True])
@pytest.mark.usefixtures("cryptography")
def test_g8_temporary_keys_are_private_encrypted_and_removed(is_failing: bool) -> None:
    pair = make_self_signed(HOSTS, password="s3cret")
    material = Material(pair.certificate, pair.key, "s3cret")
    context: Any = SpyContext(is_failing=is_failing)
    try:
        install(material, context)
    except ssl.SSLError:
        assert is_failing
    assert context.modes == (0o600, 0o700)
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in context.content
    assert b"BEGIN PRIVATE KEY" not in context.content
    assert b"BEGIN EC PRIVATE KEY" not in context.content
    assert not context.path.parent.exists()


def test_g8_keys_and_passwords_are_not_shown() -> None:
    material = Material(b"cert", b"k3y", "s3cret")
    assert "k3y" not in repr(material)
    assert "s3cret" not in repr(material)


@pytest.mark.usefixtures("cryptography")
def test_own_pair_is_fine() -> None:
    pair = make_self_signed(HOSTS, password="x")
    context = make_context(Material(pair.certificate, pair.key, "x"))
    assert find_problem(context, pair.certificate) is None


@pytest.mark.usefixtures("cryptography")
def test_merging() -> None:
    pairs = [make_self_signed([name]).certificate for name in "abc"]
    assert merge_bundles(pairs[0] + pairs[1], pairs[1] + pairs[2]) == b"".join(pairs)
    assert merge_bundles(pairs[0], None) == pairs[0]
    assert merge_bundles(None, None) is None


async def test_pem_without_certificates(tmp_path: pathlib.Path, authority: Authority) -> None:
    files = Files(tmp_path, authority)
    files.cafile.write_bytes(b"hello")
    with pytest.raises(CertificateError, match=r"^The certificate of the webhook server cannot be"):
        await files.keeper.load()
