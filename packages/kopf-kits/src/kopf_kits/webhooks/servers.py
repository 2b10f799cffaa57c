"""Servers that listen for admission requests on this machine."""

import asyncio
import base64
import contextlib
import functools
import logging
import os
import pathlib
import secrets
import ssl
import tempfile
from collections.abc import AsyncGenerator, Collection, Iterable

from kopf_cogs.aiokits.clocks import SystemClock
from kopf_cogs.aiokits.listeners import Listener
from kopf_cogs.structs.reviews import WebhookClientConfig, WebhookFn
from kopf_kits.certificates import CertificateError, Pair, make_self_signed

from .contexts import WebhookContextManager
from .endpoints import ReviewEndpoint, make_root
from .identities import (
    ClientTrust,
    FileProvider,
    GeneratedProvider,
    Identity,
    IdentityKeeper,
    Path,
    Provider,
    extract_certificates,
    merge_bundles,
)
from .listeners import WebhookServerError, open_socket

logger = logging.getLogger("kopf._kits.webhooks")

SETTLING = 5.0
"""How long (in seconds) the API servers have to notice the new certificates to trust."""

ANY_ADDRESSES = {None: "localhost", "": "localhost", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""The addresses to listen on, and their equivalents for clients on the same machine."""


class WebhookServer(WebhookContextManager):
    """A local HTTPS server for admission requests; or an HTTP server if it is ``insecure``.

    - ``addr`` and ``port`` are where to listen: by default, all addresses and any free port.
    - ``path`` is the beginning of all URLs (none by default); the ids of handlers come after it.
    - ``host`` is the hostname for the URLs if it is not the same as ``addr``.
    - ``certfile``, ``pkeyfile`` are the server's certificate & private key (in PEM). Without them,
      a certificate is generated for ``host``, ``addr`` and ``extra_sans``, signed by itself.
      It needs the ``cryptography`` library, and is renewed before it expires.
    - ``password`` decrypts the private key; or encrypts the generated one.
    - ``cadata``, ``cafile`` are what the API servers have to trust; by default, the certificate.
    - ``cadump`` is the file to save it to, e.g. for ``curl --cacert``.
    - ``verify_mode``, ``verify_cafile``, ``verify_capath``, ``verify_cadata`` are for verification
      of the clients' certificates: see :meth:`ssl.SSLContext.load_verify_locations`.
      If there is something to verify with, but no mode, the certificates are optional.
    - ``context`` is used instead of a default one; without ``certfile``, exactly as it is.
    - ``file_check_interval`` (in seconds) is how soon the changes of the files are noticed at most.
      Until the new files are usable, the previous certificate is served. No request is lost.
    """

    DEFAULT_HOST: str | None = None
    """The hostname for the URLs unless there is another one in the parameters."""

    def __init__(
        self,
        *,
        addr: str | None = None,
        port: int | None = None,
        path: str | None = None,
        host: str | None = None,
        cadata: bytes | None = None,
        cafile: Path | None = None,
        cadump: Path | None = None,
        context: ssl.SSLContext | None = None,
        insecure: bool = False,
        certfile: Path | None = None,
        pkeyfile: Path | None = None,
        password: str | None = None,
        extra_sans: Iterable[str] = (),
        verify_mode: ssl.VerifyMode | None = None,
        verify_cafile: Path | None = None,
        verify_capath: Path | None = None,
        verify_cadata: str | bytes | None = None,
        file_check_interval: float = 60.0,
    ) -> None:
        super().__init__()
        self.addr = addr
        self.port = port
        self.path = path
        self.host = host
        self.cadata = cadata
        self.cafile = cafile
        self.cadump = cadump
        self.context = context
        self.insecure = insecure
        self.certfile = certfile
        self.pkeyfile = pkeyfile
        self.password = password
        self.extra_sans = extra_sans
        self.verify_mode = verify_mode
        self.verify_cafile = verify_cafile
        self.verify_capath = verify_capath
        self.verify_cadata = verify_cadata
        self.file_check_interval = file_check_interval
        self._check_parameters()

    @staticmethod
    def build_certificate(
        hostnames: Collection[str], password: str | None = None
    ) -> tuple[bytes, bytes]:
        """Make a self-signed certificate for these hostnames and addresses.

        Returns the certificate and its private key, both in PEM; the key is encrypted if there is
        a password. The first hostname is its common name, or the first address if there are none.
        Raises ``CertificateError`` if the ``cryptography`` library is not installed.
        """
        pair = make_self_signed(hostnames, password=password)
        return pair.certificate, pair.key

    def _check_parameters(self) -> None:
        if self.pkeyfile is not None and self.certfile is None:
            raise ValueError("A private key of a webhook server needs its certificate: certfile=")
        if not self.file_check_interval > 0:
            raise ValueError("The interval of checking the files must be positive.")

    async def _serve(self, fn: WebhookFn) -> AsyncGenerator[WebhookClientConfig, None]:
        host = await self._find_host()
        endpoint = ReviewEndpoint(fn, self.path)
        listener = Listener(endpoint.handle, open_socket(self.addr, self.port), logger)
        try:
            async with contextlib.aclosing(self._iter_bundles(listener, host)) as bundles:
                async for bundle in bundles:
                    self._dump(bundle)
                    config = self._describe(host, listener.port)
                    if bundle is not None:
                        config["caBundle"] = base64.b64encode(bundle).decode("ascii")
                    yield config
        finally:
            await listener.close()

    async def _iter_bundles(
        self, listener: Listener, host: str
    ) -> AsyncGenerator[bytes | None, None]:
        """Listen, and yield the certificates for clients to trust, each time when they change."""
        keeper = self._make_keeper(host)
        if keeper is None:
            await listener.swap(self._make_fixed_context())
            yield None if self.insecure else self._read_bundle()
            await asyncio.Event().wait()
            return
        identity = await keeper.load()
        await listener.swap(identity.context)
        yield identity.bundle
        async with contextlib.aclosing(
            rotate(listener, keeper, identity, self.file_check_interval)
        ) as bundles:
            async for bundle in bundles:
                yield bundle

    async def _find_host(self) -> str:
        return self.host or self.DEFAULT_HOST or ANY_ADDRESSES.get(self.addr) or str(self.addr)

    def _describe(self, host: str, port: int) -> WebhookClientConfig:
        """How the API can reach the server, certificates aside."""
        schema = "http" if self.insecure else "https"
        name = f"[{host}]" if ":" in host else host
        url = f"{schema}://{name}:{port}{make_root(self.path)}"
        logger.debug(f"The webhooks are accessible at {url}")
        return {"url": url}

    def _make_fixed_context(self) -> ssl.SSLContext | None:
        if self.insecure or self.context is None:
            return None
        self._get_trust().apply(self.context)
        return self.context

    def _make_keeper(self, host: str) -> IdentityKeeper | None:
        if self.insecure or (self.context is not None and self.certfile is None):
            return None
        return IdentityKeeper(self._make_provider(host), self._get_trust(), self.context)

    def _make_provider(self, host: str) -> Provider:
        if self.certfile is not None:
            return FileProvider(self.certfile, self.pkeyfile, self.password, self._read_bundle)
        addr = ANY_ADDRESSES.get(self.addr) or str(self.addr)
        password = self.password or secrets.token_hex(32)
        make = functools.partial(self._make_pair, [host, addr, *self.extra_sans], password)
        return GeneratedProvider(make, password, self._read_bundle, SystemClock())

    def _make_pair(self, hostnames: Collection[str], password: str) -> Pair:
        return Pair(*self.build_certificate(hostnames, password))

    def _get_trust(self) -> ClientTrust:
        return ClientTrust(
            self.verify_mode, self.verify_cafile, self.verify_capath, self.verify_cadata
        )

    def _read_bundle(self) -> bytes | None:
        """The certificates that the clients have to trust, if the user has set them."""
        if self.cadata is not None:
            return self.cadata
        if self.cafile is None:
            return None
        bundle = extract_certificates(pathlib.Path(self.cafile).read_bytes())
        if bundle is None:
            raise CertificateError(f"{self.cafile}: there are no certificates in PEM")
        return bundle

    def _dump(self, bundle: bytes | None) -> None:
        if self.cadump is not None and bundle is not None:
            dump_bundle(self.cadump, bundle)


class WebhookK3dServer(WebhookServer):
    """A server for K3d/K3s clusters on this machine: they know their host by a special name."""

    DEFAULT_HOST = "host.k3d.internal"


class WebhookMinikubeServer(WebhookServer):
    """A server for Minikube clusters on this machine: they know their host by a special name."""

    DEFAULT_HOST = "host.minikube.internal"


class WebhookDockerDesktopServer(WebhookServer):
    """A server for the cluster of Docker Desktop: it knows its host by a special name."""

    DEFAULT_HOST = "host.docker.internal"


async def rotate(
    listener: Listener, keeper: IdentityKeeper, identity: Identity, interval: float
) -> AsyncGenerator[bytes | None, None]:
    """Put new certificates in use when they come; yield the ones to trust when they change.

    First, the clients have to trust both the old and the new one. Then, the server uses the new
    one. In the end, the clients trust only the new one. Otherwise, they would refuse the server
    for some moments.
    """
    settling = min(SETTLING, interval / 2)
    while True:
        await asyncio.sleep(interval - settling)
        fresh = await keeper.refresh()
        if fresh is None:
            continue
        is_trusted = fresh.bundle == identity.bundle
        if not is_trusted:
            yield merge_bundles(fresh.bundle, identity.bundle)
            await asyncio.sleep(settling)
        await listener.swap(fresh.context)
        logger.info("The certificate of the webhook server is renewed.")
        identity = fresh
        if not is_trusted:
            yield fresh.bundle


def dump_bundle(path: Path, bundle: bytes) -> None:
    """Save the certificates for other tools, readable for all.

    The file is replaced as a whole: no reader sees it half-written. If another user has put
    a symlink there, the symlink is replaced, and its target is not touched.
    """
    target = pathlib.Path(path)
    try:
        if target.exists() and not target.is_file():
            raise WebhookServerError(f"Cannot save the certificates: {target} is not a file.")
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(bundle)
            os.chmod(name, 0o644)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as e:
        reason = (e.strerror or str(e)).lower()
        raise WebhookServerError(f"Cannot save the certificates to {target}: {reason}") from None
