"""Questions to a starting API server."""

from __future__ import annotations

import http.client
import json
import pathlib
import socket
import ssl

HOST = "127.0.0.1"
TIMEOUT = 1.0  # seconds; a stranger on the same port can be silent


class Probe:
    """Asks an API server if it is ready, and for its version, as its admin."""

    def __init__(self, folder: pathlib.Path, port: int) -> None:
        super().__init__()
        self.port = port
        self._context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._context.load_cert_chain(folder / "admin.crt", folder / "admin.key")

    def is_ready(self) -> bool:
        """Tell if all of the API server works, including the initial roles of RBAC."""
        return self._get("/readyz")[0] == 200

    def get_version(self) -> str:
        """Get the version as the server tells it, e.g. "v1.36.3"."""
        return str(json.loads(self._get("/version")[1])["gitVersion"])

    def _get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(
            HOST, self.port, context=self._context, timeout=TIMEOUT
        )
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()


def find_free_port() -> int:
    """Find a loopback port that is free now; another process can take it at any moment."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        return int(sock.getsockname()[1])


def is_port_free(port: int) -> bool:
    """Tell if a server can listen on the loopback port; closing connections do not matter."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
        except OSError:
            return False
        return True
