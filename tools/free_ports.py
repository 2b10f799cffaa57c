"""Ports for servers that are started later; no connection takes such a port meanwhile."""

from __future__ import annotations

import random
import socket


def find_free_port() -> int:
    """A port that nobody listens on, below those which systems give to connections."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("There are no free ports.")
