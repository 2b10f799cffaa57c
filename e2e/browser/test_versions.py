"""The list of versions, tried with two builds: on a server, and in files."""

from __future__ import annotations

import http.server
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import site_of_versions
from playwright.sync_api import Browser, expect

from .conftest import PAGES, Handler


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of the unreleased version, and of a release that lacks some of its pages."""
    root = tmp_path_factory.mktemp("versions")
    with tarfile.open(root / "kopf-docs-1.46.0.tar.gz", "w:gz", compresslevel=1) as tar:
        for name in ("index.html", "tutorial.html", "reference/leases.html", "_static"):
            tar.add(PAGES / name, name)
    site_of_versions.assemble(root / "site", PAGES, root)
    return root / "site"


@pytest.fixture(params=["http", "file"])
def root(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """The address of the site."""
    if request.param == "file":
        yield folder.as_uri()
        return
    handler = partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="versions", daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("start", "current", "choice", "end"),
    [
        ("tutorial.html", "1.46", "main", "main/tutorial.html"),
        ("main/tutorial.html", "main", "1.46", "tutorial.html"),
        ("1.46/reference/leases.html", "1.46", "main", "main/reference/leases.html"),
        ("main/reference/leases.html", "main", "1.46", "reference/leases.html"),
        ("main/permissions.html", "main", "1.46", "index.html"),
    ],
)
def test_the_same_page_of_another_version_is_opened(
    browser: Browser, root: str, start: str, current: str, choice: str, end: str
) -> None:
    with browser.new_page() as page:
        page.goto(f"{root}/{start}")
        versions = page.get_by_label("The version of Kopf")
        assert versions.locator("option:checked").text_content() == current
        versions.select_option(label=choice)
        page.wait_for_url(f"{root}/{end}")
        expect(versions.locator("option:checked")).to_have_text(choice)


def test_there_is_no_list_in_a_local_build(browser: Browser, site: str) -> None:
    with browser.new_page() as page:
        page.goto(f"{site}/tutorial.html")
        expect(page.locator(".versions")).to_be_hidden()
