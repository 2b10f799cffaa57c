"""The search: over the whole texts of all pages for users, also when they are opened as files."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from .conftest import PAGES


@pytest.fixture(params=["http", "file"])
def root(request: pytest.FixtureRequest, site: str) -> str:
    """The address of the pages."""
    return site if request.param == "http" else PAGES.as_uri()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("stuck", "Production"),
        ("subjectaccessreviews", "Permissions"),  # only in the middle of a text
        ("initial_delay", "Timers"),
    ],
)
def test_words_of_texts_are_found(browser: Browser, root: str, words: str, expected: str) -> None:
    errors: list[str] = []
    with browser.new_page() as page:
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{root}/search.html?q={words}")
        found = page.locator("#search-results ul.search > li")
        expect(found.filter(has_text=expected).first).to_be_visible()
        expect(page.locator("#search-results p.search-summary")).to_contain_text("found")
        links = [link.get_attribute("href") or "" for link in found.locator("a").all()]
    assert links
    assert not [link for link in links if "decisions/" in link or "robustness" in link]
    assert errors == []
