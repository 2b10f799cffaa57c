"""TLS contexts made of certificates and keys, given as files or as data."""

import base64
import binascii
import contextlib
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """The certificates and keys that verify and authenticate a TLS connection.

    Each is given either as a path or as data: PEM or base64-encoded PEM.
    """

    ca_path: Path | None = None
    ca_data: str | bytes | None = None
    certificate_path: Path | None = None
    certificate_data: str | bytes | None = None
    private_key_path: Path | None = None
    private_key_data: str | bytes | None = None
    insecure: bool = False

    def make_ssl_context(self) -> ssl.SSLContext:
        """Make an SSL context with the CA and the client certificate loaded.

        The data are put into temporary files, accessible only to the current user,
        and deleted as soon as they are loaded: Python can load them only from files.

        Raises ``ValueError`` if the certificates are absent or broken.
        """
        context = self._make_context()
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self._load_client_certificate(context)
        return context

    def _make_context(self) -> ssl.SSLContext:
        cadata = decode_pem("CA", self.ca_data) if self.ca_data else None
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
            if cert and (pkey or has_private_key(cert)):
                context.load_cert_chain(certfile=cert, keyfile=pkey, password=_refuse_password)


def decode_pem(title: str, data: str | bytes) -> bytes:
    """Get the PEM of the data, which are either PEM or base64. Raises ``ValueError`` if neither."""
    raw = data.encode("utf-8") if isinstance(data, str) else data
    if b"-----BEGIN " in raw:
        return raw
    try:
        return base64.b64decode(b"".join(raw.split()), validate=True)
    except binascii.Error as e:
        raise ValueError(f"The data of the {title} are neither PEM nor base64.") from e


def _refuse_password() -> str:
    # Otherwise, OpenSSL asks for the password in the terminal, and blocks the operator forever.
    raise ValueError("the private key is encrypted, which is not supported.")


def _expand(path: Path | None) -> str | None:
    return os.path.expanduser(os.fspath(path)) if path else None


def has_private_key(path: Path) -> bool:
    """Whether the file has a private key, as files of certificates sometimes have."""
    with open(os.path.expanduser(path), "rb") as file:
        return b"PRIVATE KEY-----" in file.read()


@contextlib.contextmanager
def _explained(title: str, *paths: Path | None) -> Iterator[None]:
    """Turn the errors of OpenSSL into errors that name the broken data and its file."""
    where = " & ".join(os.fspath(path) for path in paths if path)
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
            file.write(decode_pem(title, data))
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
