"""Credentials: where the API server is, and how to introduce ourselves to it."""

import base64
import binascii
import contextlib
import dataclasses
import datetime
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NewType

if TYPE_CHECKING:
    import aiohttp

VaultKey = NewType("VaultKey", str)
"""A name of the credentials in the vault: the id of the login handler which got them."""

_SECRETS: Final = frozenset(
    {"password", "token", "private_key_data", "certificate_data", "ca_data", "proxy_url"}
)


class LoginError(Exception):
    """Raised when the operator cannot log in to the API: no credentials are left to try."""

    expected = True
    """The text says it all; no traceback is needed."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class KubeContext:
    """The basics of any credentials: which server to connect to, and until when.

    Of several credentials, those with the highest priority are used, in random order.
    The naive expiration time is treated as UTC.
    """

    server: str
    priority: int = 0
    default_namespace: str | None = None
    expiration: datetime.datetime | None = None

    def __repr__(self) -> str:
        # Neither logs nor tracebacks must contain secrets, so there are only the facts of them.
        values = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self))
        shown = (
            f"{key}={'***' if key in _SECRETS else repr(val)}"
            for key, val in values
            if val is not None
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def is_expired(self, now: datetime.datetime) -> bool:
        """Check if the credentials are expired by the specified (timezone-aware) time."""
        if self.expiration is None:
            return False
        if self.expiration.tzinfo is None:
            return self.expiration.replace(tzinfo=datetime.UTC) <= now
        return self.expiration <= now


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class AiohttpSession(KubeContext):
    """A ready-to-use HTTP session with its own authentication.

    The session is owned by the framework since then, and is closed by it when not needed.
    """

    aiohttp_session: "aiohttp.ClientSession"


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class ConnectionInfo(KubeContext):
    """Everything that is needed to connect to the API and to authenticate.

    Certificates and keys are given either as paths or as data: PEM or base64-encoded PEM.
    """

    ca_path: str | None = None
    ca_data: str | bytes | None = None
    insecure: bool | None = None
    username: str | None = None
    password: str | None = None
    scheme: str | None = None
    token: str | None = None
    certificate_path: str | None = None
    certificate_data: str | bytes | None = None
    private_key_path: str | None = None
    private_key_data: str | bytes | None = None
    proxy_url: str | None = None
    trust_env: bool = False
    tls_server_name: str | None = None

    def as_aiohttp_basic_auth(self) -> "aiohttp.BasicAuth | None":
        """Always ``None``: the username & password are in the HTTP headers.

        HTTP clients do not accept both the headers and the auth arguments together.
        """
        return None

    def as_http_headers(self) -> dict[str, str]:
        """Make the ``Authorization`` header, if there is anything to put into it."""
        if self.username and self.password:
            pair = f"{self.username}:{self.password}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode('ascii')}"}
        if self.token:
            return {"Authorization": f"{self.scheme or 'Bearer'} {self.token}"}
        if self.scheme:
            return {"Authorization": self.scheme}
        return {}

    def as_ssl_context(self) -> ssl.SSLContext:
        """Make an SSL context with the CA and the client certificate loaded.

        The data are put into temporary files, accessible only to the current user,
        and deleted as soon as they are loaded: Python can load them only from files.

        Raises ``ValueError`` if the certificates are specified twice, absent, or broken.
        """
        self._verify_ssl()
        context = self._make_ssl_context()
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self._load_client_certificate(context)
        return context

    def as_aiohttp_kwargs(self) -> Mapping[str, Any]:
        """Arguments of individual requests: the proxy and the server's name for TLS, if any."""
        values = {"proxy": self.proxy_url, "server_hostname": self.tls_server_name}
        return {key: val for key, val in values.items() if val}

    def _verify_ssl(self) -> None:
        if self.ca_path and self.ca_data:
            raise ValueError("Both the path & data of the CA are set; only one is needed.")
        if self.certificate_path and self.certificate_data:
            raise ValueError("Both the path & data of the certificate are set; one is needed.")
        if self.private_key_path and self.private_key_data:
            raise ValueError("Both the path & data of the private key are set; one is needed.")

    def _make_ssl_context(self) -> ssl.SSLContext:
        cadata = _decode_pem("CA", self.ca_data) if self.ca_data else None
        with _explained("CA", self.ca_path):
            return ssl.create_default_context(
                cafile=_expand(self.ca_path),
                cadata=cadata.decode("ascii") if cadata else None,
            )

    def _load_client_certificate(self, context: ssl.SSLContext) -> None:
        paths = self.certificate_path, self.private_key_path
        with (
            _temporary_pem("client certificate", self.certificate_data) as cert_file,
            _temporary_pem("private key", self.private_key_data) as pkey_file,
            _explained("client certificate", *paths),
        ):
            cert = cert_file or _expand(self.certificate_path)
            pkey = pkey_file or _expand(self.private_key_path)
            # Certificate files can contain the keys too. Without any key, they are useless.
            if cert and (pkey or _has_private_key(cert)):
                context.load_cert_chain(certfile=cert, keyfile=pkey, password=_refuse_password)


def _refuse_password() -> str:
    # Otherwise, OpenSSL asks for the password in the terminal, and blocks the operator forever.
    raise ValueError("the private key is encrypted, which is not supported.")


def _expand(path: str | None) -> str | None:
    return os.path.expanduser(path) if path else None


def _has_private_key(path: str) -> bool:
    with open(path, "rb") as file:
        return b"PRIVATE KEY-----" in file.read()


def _decode_pem(title: str, data: str | bytes) -> bytes:
    raw = data.encode("utf-8") if isinstance(data, str) else data
    if b"-----BEGIN " in raw:
        return raw
    try:
        return base64.b64decode(b"".join(raw.split()), validate=True)
    except binascii.Error as e:
        raise ValueError(f"The data of the {title} are neither PEM nor base64.") from e


@contextlib.contextmanager
def _explained(title: str, *paths: str | None) -> Iterator[None]:
    """Turn the errors of OpenSSL into those telling what is wrong with what."""
    where = " & ".join(path for path in paths if path)
    where = f" ({where})" if where else ""
    try:
        yield
    except OSError as e:  # including ssl.SSLError
        reason = getattr(e, "reason", None) or e.strerror or type(e).__name__
        raise ValueError(f"The {title} cannot be loaded{where}: {reason}.") from e
    except ValueError as e:
        raise ValueError(f"The {title} cannot be loaded{where}: {e}") from e


@contextlib.contextmanager
def _temporary_pem(title: str, data: str | bytes | None) -> Iterator[str | None]:
    """Keep the data in a file for the shortest time possible; it is always 0600."""
    if not data:
        yield None
        return
    with _private_file() as (fd, path):
        with open(fd, "wb", closefd=False) as file:
            file.write(_decode_pem(title, data))
        yield path


@contextlib.contextmanager
def _private_file() -> Iterator[tuple[int, str]]:
    # Not a self-deleting file: such files cannot be opened for the second time on Windows.
    try:
        fd, path = tempfile.mkstemp(prefix="kopf-", suffix=".pem")
    except FileNotFoundError:
        with _memory_file() as (fd, path):
            yield fd, path
        return
    try:
        yield fd, path
    finally:
        os.close(fd)
        os.unlink(path)


@contextlib.contextmanager
def _memory_file() -> Iterator[tuple[int, str]]:
    """A file in memory for the containers with no writable directories; only in Linux."""
    if sys.platform != "linux":
        raise ValueError("There is no directory for temporary files to load certificates from.")
    fd = os.memfd_create("kopf.pem")
    try:
        yield fd, f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)
