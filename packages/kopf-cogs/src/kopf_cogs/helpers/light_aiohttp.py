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


_Context = ssl.SSLContext  # other libraries can put theirs there, before or after this


class _UnreadContext(_Context):
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
    context.set_default_verify_paths()
    context.__class__ = _Context  # not earlier: other threads must not use it with no certificates
    return context


@contextlib.contextmanager
def _reading_later() -> Iterator[None]:
    read = _Context.set_default_verify_paths

    def postpone(self: ssl.SSLContext) -> None:
        try:
            self.__class__ = _UnreadContext
        except (AttributeError, TypeError):  # it is of another library, and cannot be ours
            read(self)

    _Context.set_default_verify_paths = postpone  # type: ignore[method-assign]
    try:
        yield
    finally:
        _Context.set_default_verify_paths = read  # type: ignore[method-assign]


with _reading_later():
    import aiohttp
