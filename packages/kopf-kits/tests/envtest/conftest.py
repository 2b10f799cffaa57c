"""Fake binaries that behave as the servers do, so that the tests run with no assets at hand."""

from __future__ import annotations

import os
import pathlib
import select
import sys
from collections.abc import Callable

import pytest

from kopf_kits.envtest import Assets, EnvtestError, find_assets

FAKE_SLEEPER = """
import signal
signal.signal(signal.SIGTERM, lambda *_: exit(0))
signal.pause()
"""

FAKE_SERVER = """
import http.server, json, os, signal, ssl, sys
args = dict(arg.lstrip("-").partition("=")[::2] for arg in sys.argv[1:])

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        assert "kopf-envtest-admin" in str(self.request.getpeercert())
        body = json.dumps({"gitVersion": "v1.2.3"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=args["client-ca-file"])
context.load_cert_chain(args["tls-cert-file"], args["tls-private-key-file"])
context.verify_mode = ssl.CERT_REQUIRED
server = http.server.HTTPServer(("127.0.0.1", int(args["secure-port"])), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
server.serve_forever()
"""

MakeProgram = Callable[..., pathlib.Path]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "envtest: needs the binaries of kube-apiserver and etcd")


@pytest.fixture
def make_program(tmp_path: pathlib.Path) -> MakeProgram:
    """Make executables: Python scripts by the code, or any other files by the text."""

    def make(name: str, code: str = FAKE_SLEEPER, *, text: str | None = None) -> pathlib.Path:
        path = tmp_path / "assets" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!{sys.executable}\n{code}" if text is None else text, encoding="utf-8")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def assets(make_program: MakeProgram) -> Assets:
    """A whole set of fake binaries that start, become ready, and stop when asked to."""
    server = make_program("kube-apiserver", FAKE_SERVER)
    manager = make_program("kube-controller-manager")
    return Assets(make_program("etcd"), server, manager, "fakes")


@pytest.fixture
def real_assets() -> Assets:
    try:
        return find_assets()
    except EnvtestError as e:
        pytest.skip(str(e))


@pytest.fixture
def tempdir(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The only place for temporary files, to see what is left behind."""
    path = tmp_path / "tmp"
    path.mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return path


class Watched:
    """A process that is not ours: its end is an event for us anyway, also if nobody reaps it."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.fd = os.pidfd_open(pid)

    def wait(self, timeout: float = 20.0) -> bool:
        """Wait for the end of the process; tell if it has come."""
        ready, _, _ = select.select([self.fd], [], [], timeout)
        os.close(self.fd)
        return bool(ready)


@pytest.fixture
def watch() -> Callable[[int], Watched]:
    if not hasattr(os, "pidfd_open"):
        pytest.skip("processes cannot be watched on this system")
    return Watched
