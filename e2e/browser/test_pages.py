from __future__ import annotations

from playwright.sync_api import Browser


def test_the_landing_page_opens(browser: Browser, site: str) -> None:
    with browser.new_page() as page:
        page.goto(f"{site}/index.html")
        assert page.get_by_role("heading", level=1).count() == 1
