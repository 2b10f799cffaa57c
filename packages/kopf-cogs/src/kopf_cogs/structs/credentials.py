"""Credentials: where the API server is, and how to introduce ourselves to it."""

import base64
import dataclasses
import datetime
import os
import pathlib
import ssl
import urllib.parse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NewType

from kopf_cogs.helpers import certificates

if TYPE_CHECKING:
    import aiohttp

VaultKey = NewType("VaultKey", str)
"""A name of the credentials in the vault: the id of the login handler which got them."""

Path = str | os.PathLike[str]

_SECRETS: Final = frozenset(
    {"password", "token", "private_key_data", "certificate_data", "ca_data", "proxy_url"}
)

# The characters of HTTP header names that need no escaping, besides letters and digits.
_SAFE_IN_HEADERS: Final = "!#$&'*+-.^_`|~"


class LoginError(Exception):
    """Raised when the operator cannot log in to the API: no credentials are left to try."""

    expected = True
    """The text says it all; no traceback is needed."""


def as_utc(moment: datetime.datetime) -> datetime.datetime:
    """Naive timestamps are in UTC by convention."""
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class KubeContext:
    """The basics of any credentials: which server to connect to, and until when.

    Of several credentials, Kopf uses the ones with the highest priority, in random order.
    The naive expiration time is treated as UTC.
    """

    server: str
    priority: int = 0
    default_namespace: str | None = None
    expiration: datetime.datetime | None = None

    def __repr__(self) -> str:
        # Logs and tracebacks must not contain secrets, so the text only shows that they are set.
        values = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self) if f.repr)
        shown = (
            f"{key}={'***' if key in _SECRETS else repr(val)}"
            for key, val in values
            if val is not None
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def is_expired(self, now: datetime.datetime) -> bool:
        """Check if the credentials are expired by the specified (timezone-aware) time."""
        return self.expiration is not None and as_utc(self.expiration) <= now


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class AiohttpSession(KubeContext):
    """A ready-to-use HTTP session with its own authentication.

    The session is owned by the framework since then, and is closed by it when not needed.
    """

    aiohttp_session: "aiohttp.ClientSession"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    """The user to act as, instead of the user of the credentials: user impersonation."""

    user: str
    uid: str | None = None
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()
    """Pairs of keys and values; there can be several values of one key."""

    def as_headers(self) -> list[tuple[str, str]]:
        """The headers ``Impersonate-*``, some of them repeated; the keys are escaped."""
        extra = ((urllib.parse.quote(key, safe=_SAFE_IN_HEADERS), val) for key, val in self.extra)
        return [
            ("Impersonate-User", self.user),
            *([("Impersonate-Uid", self.uid)] if self.uid else []),
            *(("Impersonate-Group", group) for group in self.groups),
            *((f"Impersonate-Extra-{key}", val) for key, val in extra),
        ]


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class ConnectionInfo(KubeContext):
    """Everything that is needed to connect to the API and to authenticate.

    Certificates and keys are given either as paths or as data: PEM or base64-encoded PEM.
    The files, including that of the token, are read again when they change.

    Raises ``ValueError`` if something is specified both by its path and by its data,
    and :class:`LoginError` if there is no token in its file.
    """

    ca_path: Path | None = None
    ca_data: str | bytes | None = None
    insecure: bool | None = None
    username: str | None = None
    password: str | None = None
    scheme: str | None = None
    token: str | None = None
    certificate_path: Path | None = None
    certificate_data: str | bytes | None = None
    private_key_path: Path | None = None
    private_key_data: str | bytes | None = None
    proxy_url: str | None = None
    trust_env: bool = False
    tls_server_name: str | None = None
    token_path: Path | None = None
    """The file of the token, if it is not given, and of its next values."""

    impersonation: Impersonation | None = None
    revision: str | None = dataclasses.field(default=None, repr=False)
    """A mark that differs when the files have changed, while the paths to them have not."""

    renewal: "Renewal | None" = dataclasses.field(default=None, repr=False, compare=False)
    """The function that gets the next credentials shortly before these expire.

    It is called in a thread, so it can be slow.
    """

    def __post_init__(self) -> None:
        for title, path, data in [
            ("CA", self.ca_path, self.ca_data),
            ("certificate", self.certificate_path, self.certificate_data),
            ("private key", self.private_key_path, self.private_key_data),
        ]:
            if path and data:
                raise ValueError(f"Both the path & data of the {title} are set; one is needed.")
        if self.token is None and self.token_path is not None:
            object.__setattr__(self, "token", read_token_file(self.token_path))

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files with certificates and keys."""
        paths = self.ca_path, self.certificate_path, self.private_key_path
        return tuple(path for path in paths if path)

    def as_aiohttp_basic_auth(self) -> "aiohttp.BasicAuth | None":
        """Always ``None``: the username & password are in the HTTP headers.

        HTTP clients do not accept both the headers and the auth arguments together.
        """
        return None

    def as_http_headers(self) -> dict[str, str]:
        """Make the ``Authorization`` header and the headers of impersonation.

        Raises ``ValueError`` if a header is repeated, e.g. for several impersonated groups.
        A dictionary cannot have them, see :meth:`as_header_pairs`.
        """
        pairs = self.as_header_pairs()
        headers = dict(pairs)
        if len(headers) < len(pairs):
            raise ValueError("Repeated headers of impersonation cannot be put into a dictionary.")
        return headers

    def as_header_pairs(self) -> list[tuple[str, str]]:
        """All the headers that introduce us to the server, some of them repeated."""
        authorization = self._make_authorization()
        pairs = [("Authorization", authorization)] if authorization else []
        return pairs + (self.impersonation.as_headers() if self.impersonation is not None else [])

    def _make_authorization(self) -> str | None:
        if self.username and self.password:
            pair = f"{self.username}:{self.password}".encode()
            return f"Basic {base64.b64encode(pair).decode('ascii')}"
        if self.token:
            return f"{self.scheme or 'Bearer'} {self.token}"
        return self.scheme or None

    def as_ssl_context(self) -> ssl.SSLContext:
        """Make an SSL context with the CA and the client certificate loaded.

        The data are put into temporary files, accessible only to the current user,
        and deleted as soon as they are loaded: Python can load them only from files.

        Raises ``ValueError`` if the certificates are absent or broken.
        """
        return certificates.Certificates(
            ca_path=self.ca_path,
            ca_data=self.ca_data,
            certificate_path=self.certificate_path,
            certificate_data=self.certificate_data,
            private_key_path=self.private_key_path,
            private_key_data=self.private_key_data,
            insecure=bool(self.insecure),
        ).make_ssl_context()

    def as_aiohttp_kwargs(self) -> Mapping[str, Any]:
        """Arguments of individual requests: the proxy and the server's name for TLS, if any."""
        values = {"proxy": self.proxy_url, "server_hostname": self.tls_server_name}
        return {key: val for key, val in values.items() if val}


Renewal = Callable[[ConnectionInfo], ConnectionInfo]
"""Makes the next credentials out of the previous ones. Raises :class:`LoginError` if it cannot."""


def read_token_file(path: str | os.PathLike[str]) -> str:
    """Read the token. The file can be briefly empty when it is being renewed: this is an error."""
    shown = os.fspath(path)
    try:
        token = pathlib.Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as e:
        raise LoginError(f"The token cannot be read from {shown!r}: {e}") from e
    if not token:
        raise LoginError(f"The token file is empty: {shown!r}.")
    return token
