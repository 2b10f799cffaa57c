"""The built pages on a local server, and a browser with no other network.

The tests are synchronous: they drive Chromium by Playwright's synchronous interface.
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from .chromium import NoBrowserError, obtain

PAGES = Path(__file__).resolve().parents[2] / "docs" / "_build" / "html"

FLAGS = (
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # the pages have all they need
)


class Handler(http.server.SimpleHTTPRequestHandler):
    """A plain static server, as anybody's: no compression, no special headers."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Be silent."""


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of the output of `make docs`, with no slash at its end."""
    if not (PAGES / "index.html").exists():
        pytest.exit(f"There are no pages in {PAGES}. Run `make docs`.", returncode=1)
    handler = partial(Handler, directory=str(PAGES))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="site", daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium of this machine. Take `browser.new_page()`, or `browser.new_context()`."""
    try:
        path = obtain()
    except NoBrowserError as e:
        pytest.exit(str(e), returncode=1)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=[*FLAGS])
        yield running
        running.close()
