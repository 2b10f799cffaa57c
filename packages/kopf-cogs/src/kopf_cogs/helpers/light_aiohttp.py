"""Aiohttp, imported with no certificates: they are read when they are needed first.

When aiohttp is imported, it makes two TLS contexts, and each of them reads all certificates that
the system trusts. This takes more than a quarter of the start of an operator, though operators
usually trust only the certificate of their cluster. So, all imports of aiohttp go through here.
"""

import contextlib
import ssl
from collections.abc import Iterator
from typing import Any

__all__ = ["aiohttp"]


class _UnreadContext(ssl.SSLContext):
    """What trusts the system, and has not read yet whom exactly. When it is used, it reads that."""

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return _read(self).wrap_bio(*args, **kwargs)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        return _read(self).wrap_socket(*args, **kwargs)

    def cert_store_stats(self) -> dict[str, int]:
        return _read(self).cert_store_stats()

    def get_ca_certs(self, *args: Any, **kwargs: Any) -> Any:
        return _read(self).get_ca_certs(*args, **kwargs)


def _read(context: ssl.SSLContext) -> ssl.SSLContext:
    context.__class__ = ssl.SSLContext  # before it reads: it is read only once
    context.set_default_verify_paths()
    return context


@contextlib.contextmanager
def _reading_later() -> Iterator[None]:
    contexts: list[ssl.SSLContext] = []
    read = ssl.SSLContext.set_default_verify_paths

    def remember(self: ssl.SSLContext) -> None:
        contexts.append(self)

    ssl.SSLContext.set_default_verify_paths = remember  # type: ignore[method-assign]
    try:
        yield
    finally:
        ssl.SSLContext.set_default_verify_paths = read  # type: ignore[method-assign]
    for context in contexts:
        context.__class__ = _UnreadContext


with _reading_later():
    import aiohttp
