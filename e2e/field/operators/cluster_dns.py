"""The names of services as inside of a cluster: all of them are on this machine.

Loaded together with an operator that calls what it has deployed; there is nothing more than
the API in the emulator.
"""

import socket

_resolve = socket.getaddrinfo


def _resolve_services(host, *args, **kwargs):
    is_service = isinstance(host, str) and host.split(".")[-1].startswith("field-")
    return _resolve("127.0.0.1" if is_service else host, *args, **kwargs)


socket.getaddrinfo = _resolve_services
