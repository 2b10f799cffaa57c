"""Where webhook servers listen."""

import os
import socket


class WebhookServerError(Exception):
    """The webhooks cannot be served; the message is one line for the user."""

    expected = True


def open_socket(addr: str | None, port: int | None) -> socket.socket:
    """Listen on the address (all addresses by default) and the port (any free one by default).

    Raises :class:`WebhookServerError` if it is not possible.
    """
    try:
        return _open_socket(addr, port or 0)
    except OSError as e:
        reason = os.strerror(e.errno).lower() if e.errno and e.errno > 0 else str(e)
        place = f"{addr or '*'}:{port}" if port else addr or "*"
        raise WebhookServerError(f"Cannot serve the webhooks at {place}: {reason}") from e


def _open_socket(addr: str | None, port: int) -> socket.socket:
    if addr:
        infos = socket.getaddrinfo(addr, port, type=socket.SOCK_STREAM)
        family, _, _, _, target = infos[0]
        return socket.create_server(target, family=family)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError:
            pass  # IPv6 can be compiled in, but switched off
    return socket.create_server(("", port))
