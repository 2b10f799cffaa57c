"""Making a cluster forget: its history is in etcd, and the API has no way to it."""

from __future__ import annotations

import http.client
import json
import pathlib
import socket

from .errors import EnvtestError

SOCKET = "etcd:0"
TIMEOUT = 10.0


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a socket of the file system."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def compact(folder: pathlib.Path, revision: int) -> None:
    """Drop all states before the resource version from etcd."""
    connection = _SocketConnection(folder / SOCKET)
    body = json.dumps({"revision": str(revision), "physical": True})
    try:
        connection.request("POST", "/v3/kv/compaction", body)
        response = connection.getresponse()
        answer = response.read()
    except (OSError, http.client.HTTPException) as e:
        raise EnvtestError(f"etcd cannot be asked to compact its history: {e!r}") from None
    finally:
        connection.close()
    if response.status != 200:
        message = answer.decode(errors="replace")
        raise EnvtestError(f"etcd refuses to compact its history: {message}")
