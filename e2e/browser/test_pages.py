"""Every page, as people see it: on a laptop and on a phone, in the light and in the dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from .conftest import PAGES

LOOK = Path(__file__).with_name("look.js").read_text("utf-8")
WIDTHS = (1280, 390)
THEMES = ("light", "dark")
FACES = [path.relative_to(PAGES).as_posix() for path in sorted(PAGES.rglob("*.html"))]
"""All pages of the site. Those of modules are generated all alike: one of them is enough."""


def _find_refusal(url: str, response: Response) -> list[str]:
    return [f"{url}: {response.status} for {response.url}"] if response.status >= 400 else []


def list_pages() -> list[str]:
    """The pages to look at."""
    modules = [name for name in FACES if name.startswith("_modules/")]
    return [name for name in FACES if name not in modules[1:]]


def test_k34_signatures_say_what_the_arguments_are(site: str) -> None:
    """Not "arg1, arg2, arg3", as the overloads of decorators have for selectors."""
    pages = [PAGES / name for name in FACES if name.startswith("reference/api/")]
    texts = {path.name: path.read_text("utf-8") for path in pages}
    assert any("kopf.on.create" in text for text in texts.values())
    assert not [name for name, text in texts.items() if "arg1" in text]


@pytest.fixture(scope="module", params=WIDTHS)
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """A window of one width."""
    with browser.new_context(viewport={"width": request.param, "height": 900}) as context:
        yield context.new_page()


@pytest.mark.timeout(600)  # it opens all pages, twice each
def test_pages_fit_the_window_and_are_readable(page: Page, site: str) -> None:
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
    page.on("response", lambda response: faults.extend(_find_refusal(page.url, response)))
    for name in list_pages():
        page.goto(f"{site}/{name}")
        if name == "playground.html":
            page.locator("#playground[data-ready]").wait_for()
        for theme in THEMES:
            seen = page.evaluate(LOOK, theme)
            faults += [f"{name} ({theme}): {fault}" for fault in seen]
    assert not faults, "\n".join(faults)


def test_q_there_is_one_logo_and_a_link_to_edit_the_page(page: Page, site: str) -> None:
    page.goto(f"{site}/timers.html")
    expect(page.locator(".sidebar-brand img")).to_have_count(1)
    source = "https://github.com/nolar/kopf/edit/main/docs/timers.md"
    expect(page.locator(f"a[href='{source}']")).to_have_count(1)
