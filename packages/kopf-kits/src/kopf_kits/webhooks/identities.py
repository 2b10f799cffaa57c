"""The identity of a server: its certificate and key, and their renewal."""

import asyncio
import dataclasses
import logging
import os
import pathlib
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator
from typing import Protocol

from kopf_cogs.aiokits.clocks import Clock
from kopf_kits.certificates import (
    CertificateError,
    MissingLibraryError,
    Pair,
    get_renewal_time,
)

logger = logging.getLogger("kopf._kits.webhooks")

Path = str | os.PathLike[str]

_ERRORS = (OSError, ValueError, CertificateError)  # incl. ssl.SSLError
_BLOCKS = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class Material:
    """A certificate with its key, as they have been read or made. It is PEM everywhere."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)
    password: str | None = dataclasses.field(default=None, repr=False)
    """The password of the key, if it is encrypted. Keys that are not from files must be."""

    bundle: bytes | None = None
    """The certificates that the clients have to trust; ``None`` if they do already."""

    files: tuple[Path, Path | None] | None = None
    """The files that it was read from, if any."""


class Provider(Protocol):
    """The source of the material: at each call, it gives the same material or another one."""

    async def fetch(self) -> Material: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """The context that a server uses, and the certificates that clients have to trust."""

    context: ssl.SSLContext
    bundle: bytes | None


@dataclasses.dataclass(frozen=True, slots=True)
class ClientTrust:
    """The accepted certificates of clients, and whether clients need certificates at all."""

    mode: ssl.VerifyMode | None = None
    cafile: Path | None = None
    capath: Path | None = None
    cadata: str | bytes | None = None

    def read(self) -> bytes | None:
        """The content of the file, to notice its changes."""
        return None if self.cafile is None else pathlib.Path(self.cafile).read_bytes()

    def apply(self, context: ssl.SSLContext) -> None:
        """Make the context verify the clients if asked for; with no mode, it is optional."""
        if self.cafile or self.capath or self.cadata:
            cadata = self.cadata
            if isinstance(cadata, bytes) and b"-----BEGIN" in cadata:
                cadata = cadata.decode("ascii")
            context.load_verify_locations(self.cafile, self.capath, cadata)
            context.verify_mode = ssl.CERT_OPTIONAL
        if self.mode is not None:
            context.verify_mode = self.mode


class FileProvider:
    """The files of the user, or of cert-manager: they can change at any time."""

    def __init__(
        self,
        certfile: Path,
        pkeyfile: Path | None,
        password: str | None,
        read_bundle: Callable[[], bytes | None],
    ) -> None:
        super().__init__()
        self._certfile = certfile
        self._pkeyfile = pkeyfile
        self._password = password
        self._read_bundle = read_bundle

    async def fetch(self) -> Material:
        return await asyncio.to_thread(self._read)

    def _read(self) -> Material:
        certificate = pathlib.Path(self._certfile).read_bytes()
        key = b"" if self._pkeyfile is None else pathlib.Path(self._pkeyfile).read_bytes()
        bundle = self._read_bundle()
        return Material(
            certificate=certificate,
            key=key,
            password=self._password,
            bundle=extract_certificates(certificate) if bundle is None else bundle,
            files=(self._certfile, self._pkeyfile),
        )


class GeneratedProvider:
    """A certificate made here; when a third of its life is left, another one is made."""

    def __init__(
        self,
        make: Callable[[], Pair],
        password: str,
        read_bundle: Callable[[], bytes | None],
        clock: Clock,
    ) -> None:
        super().__init__()
        self._make = make
        self._password = password
        self._read_bundle = read_bundle
        self._clock = clock
        self._pair: Pair | None = None

    async def fetch(self) -> Material:
        if self._pair is None or self._clock.now() >= get_renewal_time(self._pair.certificate):
            self._pair = self._make()
        bundle = await asyncio.to_thread(self._read_bundle)
        return Material(
            certificate=self._pair.certificate,
            key=self._pair.key,
            password=self._password,
            bundle=self._pair.certificate if bundle is None else bundle,
        )


class IdentityKeeper:
    """Makes contexts for TLS of the material of a provider, and again when the material changes.

    It complains of unusable material once, and tries it again every time: users often replace
    files one by one, and the files do not match for a while. The server keeps its old identity.
    """

    def __init__(
        self,
        provider: Provider,
        trust: ClientTrust,
        context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__()
        self._provider = provider
        self._trust = trust
        self._context = context
        self._seen: tuple[Material, bytes | None] | None = None
        self._complaint = ""
        self._is_good = False

    async def load(self) -> Identity:
        """Get the first identity.

        Raises :class:`CertificateError` with one line for the user if there is none.
        """
        try:
            identity = await self._renew()
        except MissingLibraryError:
            raise
        except _ERRORS as e:
            message = f"The certificate of the webhook server cannot be used: {explain(e)}"
            raise CertificateError(message) from None
        assert identity is not None  # as nothing was seen before
        return identity

    async def refresh(self) -> Identity | None:
        """Get another identity if there is one, and it is usable; never fails."""
        try:
            identity = await self._renew()
        except Exception as e:
            complaint = explain(e)
            if complaint != self._complaint:
                logger.warning(
                    f"The new certificate of the webhook server is not used yet: {complaint}. "
                    "The previous one remains in use."
                )
            self._complaint = complaint
            return None
        self._complaint = ""
        return identity

    async def _renew(self) -> Identity | None:
        material = await self._provider.fetch()
        trusted = await asyncio.to_thread(self._trust.read)
        if (material, trusted) == self._seen:
            return None
        context = make_context(material)
        problem = find_problem(context, material.bundle or material.certificate)
        if problem is not None and self._is_good:
            raise CertificateError(f"clients would refuse it ({problem})")
        if problem is not None:
            logger.warning(f"Clients will refuse the webhook server: {problem}.")
        if self._context is not None:
            context = self._context  # loaded again only now, as it is in use and must not break
            install(material, context)
        self._trust.apply(context)
        self._seen = (material, trusted)
        self._is_good = problem is None
        return Identity(context, material.bundle)


def make_context(material: Material) -> ssl.SSLContext:
    """Make a new context with this certificate; raises :class:`ssl.SSLError` if it is broken."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    install(material, context)
    return context


def install(material: Material, context: ssl.SSLContext) -> None:
    """Load the certificate and the key into the context."""
    password = material.password if material.password is not None else _ask_nobody
    if material.files is not None:
        context.load_cert_chain(*material.files, password=password)
        return
    # Python can load them only from files. The key is encrypted: if the file survives
    # a crash, it is of no use, as the password was in memory only.
    with tempfile.TemporaryDirectory(prefix="kopf-webhooks-") as folder:
        path = pathlib.Path(folder) / "pair.pem"
        path.touch(mode=0o600)
        path.write_bytes(material.certificate + b"\n" + material.key)
        context.load_cert_chain(path, password=password)


def _ask_nobody() -> str:
    """Fail: by default, OpenSSL would ask for a password at the terminal, and wait."""
    raise CertificateError("the private key is encrypted, and there is no password for it")


def find_problem(context: ssl.SSLContext, trusted: bytes) -> str | None:
    """Why a client that trusts these certificates would refuse the server; ``None`` if it accepts.

    E.g., if the certificate has expired, or is of another authority. Hostnames are not checked.
    A client and a server shake hands in memory: so, no other libraries are needed.
    """
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.verify_flags = ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN  # as in Go
    client_context.load_verify_locations(cadata=trusted.decode("ascii"))
    ahead, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(back, ahead)
    server = context.wrap_bio(ahead, back, server_side=True)
    try:
        for _ in range(4):
            for side in (client, server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    pass
    except ssl.SSLCertVerificationError as e:
        return e.verify_message
    except ssl.SSLError:
        return None  # e.g. of peculiar versions or ciphers: it is not for us to judge
    return None


def extract_certificates(data: bytes) -> bytes | None:
    """Only the certificates of PEM, with nothing else: there can be keys in the same file."""
    return b"".join(block + b"\n" for block in _iter_blocks(data)) or None


def merge_bundles(*bundles: bytes | None) -> bytes | None:
    """One bundle with the certificates of all bundles, each only once."""
    blocks = dict.fromkeys(block for data in bundles if data for block in _iter_blocks(data))
    return b"".join(block + b"\n" for block in blocks) or None


def _iter_blocks(data: bytes) -> Iterator[bytes]:
    for found in _BLOCKS.finditer(data):
        yield found.group()


def explain(error: Exception) -> str:
    """One line with the cause, the file included."""
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        return f"the certificate and the key are broken or not of each other ({reason})"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or str(error)).lower()}"
    return str(error).rstrip(".") or type(error).__name__
