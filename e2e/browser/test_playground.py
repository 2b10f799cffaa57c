"""The playground: an operator and its cluster in a real browser, from a plain static server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect

ROOT = Path(__file__).resolve().parents[2]
RECORDING = ROOT / "docs" / "_playground" / "site" / "recording.json"

LIMIT = 8_000_000
"""How many bytes may be downloaded until a handler is called; the page itself aside."""

PATIENCE = 60_000
"""In milliseconds: for what takes seconds on a machine that does nothing else."""

pytestmark = pytest.mark.timeout(900)

CREATED = "And here we are! Creating:"


class Playground:
    """What a visitor does there and sees."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.set_default_timeout(PATIENCE)
        self.requests: list[Request] = []
        self.complaints: list[str] = []
        page.on("requestfinished", lambda request: self.requests.append(request))
        page.on("requestfailed", self._complain)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _complain(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # as the page was left, or is loaded anew
            self.complaints.append(f"failed: {request.url}: {request.failure}")

    def open(self, site: str, fragment: str = "") -> None:
        self.page.goto(f"{site}/playground.html{fragment}")
        self.page.locator("#playground[data-ready]").wait_for()

    def part(self, name: str) -> Any:
        return self.page.locator(f'[data-pg="{name}"]')

    def press(self, name: str) -> None:
        self.part(name).click()

    def write(self, editor: str, text: str) -> None:
        self.part(editor).locator("textarea").fill(text)

    def read(self, editor: str) -> str:
        return str(self.part(editor).locator("textarea").input_value())

    def replace(self, editor: str, old: str, new: str) -> None:
        text = self.read(editor)
        assert old in text
        self.write(editor, text.replace(old, new))

    def expect_log(self, text: str, count: int = 1) -> None:
        """Wait until there are so many lines with this text, and no more of them."""
        expect(self.part("log").locator(".pg-line", has_text=text)).to_have_count(
            count, timeout=PATIENCE
        )

    def expect_in(self, name: str, text: str) -> None:
        expect(self.part(name)).to_contain_text(text, timeout=PATIENCE)

    def measure(self) -> int:
        """How many bytes of the playground were downloaded until now."""
        used = [request for request in self.requests if "/playground/" in request.url]
        return sum(int(one.response().headers["content-length"]) for one in used)  # type: ignore[union-attr]


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context(viewport={"width": 1280, "height": 1000}) as context:
        yield context


@pytest.fixture
def playground(context: BrowserContext) -> Iterator[Playground]:
    playground = Playground(context.new_page())
    yield playground
    assert not playground.complaints


@pytest.fixture
def say(capfd: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a measurement, also if the test passes."""

    def say(text: str) -> None:
        with capfd.disabled():
            print(f"\n{text}")

    return say


def test_a_life_of_an_operator(
    playground: Playground, site: str, say: Callable[[str], None], pytestconfig: pytest.Config
) -> None:
    playground.open(site)
    began = time.perf_counter()
    playground.press("run")
    playground.expect_log(CREATED)
    took, size = time.perf_counter() - began, playground.measure()
    say(f"The first call of a handler: {took:.1f} s, with {size:,} bytes downloaded.")
    assert size <= LIMIT
    playground.expect_log("Creation is processed: 1 succeeded; 0 failed.")
    playground.expect_in("objects", "message: hello world")
    playground.expect_in("events", "Greeting kopf-example-1: It is seen in")

    playground.page.get_by_role("button", name="Edit").click()
    playground.expect_in("state", "Change kopf-example-1 in the editor")
    playground.replace("manifest", "field: value", "field: changed")
    playground.press("apply")
    playground.expect_log("Changing: change spec.field: 'value' -> 'changed'")
    playground.expect_log("Updating is processed: 1 succeeded; 0 failed.")

    playground.press("kill")
    expect(playground.part("kill")).to_be_disabled()
    playground.page.get_by_role("button", name="Edit").click()
    playground.expect_in("state", "Change kopf-example-1 in the editor")
    playground.replace("manifest", "field: changed", "field: missed")
    playground.press("apply")
    playground.expect_in("state", "KopfExample kopf-example-1 is applied.")
    began = time.perf_counter()
    playground.press("run")
    playground.expect_log("Changing: change spec.field: 'changed' -> 'missed'")
    say(f"The first call of a handler after the kill: {time.perf_counter() - began:.1f} s.")
    playground.expect_log("Updating is processed: 1 succeeded; 0 failed.", count=2)

    playground.press("kill")
    playground.press("run")
    playground.expect_log("The operator starts: run 3.")
    playground.page.get_by_role("button", name="Delete").click()
    playground.expect_log("Deleting: kopf-example-1")
    playground.expect_in("objects", "There are no objects.")
    playground.expect_log(CREATED)  # only once: nothing was repeated by the restarts
    playground.expect_log("Changing:", count=2)

    if pytestconfig.getoption("--record"):
        save_recording(playground)


def save_recording(playground: Playground) -> None:
    """Save what was seen, for browsers that cannot run it."""
    messages = playground.page.evaluate("playground.history")
    code = (ROOT / "examples" / "01-minimal" / "example.py").read_text("utf-8")
    manifest = (ROOT / "examples" / "obj.yaml").read_text("utf-8")
    content = {"code": code, "manifest": manifest, "messages": messages}
    RECORDING.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


@pytest.mark.parametrize(
    ("example", "lines"),
    [
        ("03-exceptions", ["Handler 'eventual_success_with_a_few_messages' succeeded."]),
        ("07-subhandlers", ["=== Handling creation for item1. ===", "'create_fn/item2' succeeded"]),
        ("14-daemons", ["=> Ping from a sync daemon: field='value'", "=> Ping from an async"]),
        ("16-indexing", ["known examples: ['kopf-example-1']"]),
        ("18-website", ["Applied Deployment default/hello."]),
    ],
)
def test_examples(playground: Playground, site: str, example: str, lines: list[str]) -> None:
    playground.open(site)
    playground.part("example").select_option(example)
    playground.press("run")
    for line in lines:
        playground.expect_in("log", line)
    if example == "18-website":
        playground.expect_in("objects", "message: 2 of 2 are ready")
    if example == "14-daemons":
        playground.page.get_by_role("button", name="Delete").click()
        playground.expect_log("=> Stopped:")
        playground.expect_in("objects", "There are no objects.")


def test_broken_code_is_explained_and_can_be_repaired(playground: Playground, site: str) -> None:
    playground.open(site)
    code = playground.read("code")
    playground.write("code", code + "\nundefined\n")
    playground.press("run")
    playground.expect_in("log", "name 'undefined' is not defined")
    playground.expect_in("state", "The operator has exited: see the log.")
    playground.write("code", code)
    playground.press("run")
    playground.expect_log(CREATED)
    playground.write("manifest", "kind: Unknown\napiVersion: v1\nmetadata: {name: x}\n")
    playground.press("apply")
    playground.expect_in("state", "The sandbox serves no kind 'Unknown' of 'v1'.")
    playground.write("manifest", "a: [")
    playground.press("apply")
    playground.expect_in("state", "This is no YAML")


def test_links_keep_what_was_written(playground: Playground, site: str) -> None:
    playground.open(site)
    playground.write("code", "import kopf  # ü → 🙂\n")
    playground.write("manifest", "kind: Own\n")
    playground.press("share")
    playground.expect_in("state", "It keeps the handlers and the object.")
    link = playground.page.url
    playground.page.goto("about:blank")
    playground.open(site, f"#{link.partition('#')[2]}")
    assert playground.read("code") == "import kopf  # ü → 🙂\n"
    assert playground.read("manifest") == "kind: Own\n"
    playground.expect_in("state", "Read them, then press Run.")
    playground.page.goto("about:blank")
    playground.open(site, "#v1.broken")
    playground.expect_in("state", "The link is broken")
    assert "import kopf" in playground.read("code")


def test_browsers_that_cannot_suspend_functions(playground: Playground, site: str) -> None:
    playground.page.add_init_script("delete WebAssembly.Suspending")
    playground.open(site)
    expect(playground.part("no-jspi")).to_be_visible()
    expect(playground.part("replay")).to_be_visible()
    playground.part("example").select_option("14-daemons")
    playground.press("run")
    playground.expect_in("log", "=> Ping from an async daemon")
    playground.expect_in("log", "There are no threads here, and nothing can wait")


def test_browsers_with_no_webassembly_show_a_recorded_run(
    playground: Playground, site: str
) -> None:
    playground.page.add_init_script("delete window.WebAssembly")
    playground.open(site)
    expect(playground.part("no-wasm")).to_be_visible()
    expect(playground.part("run")).to_be_disabled()
    playground.press("replay")
    playground.expect_log(CREATED)
    playground.expect_log("Deleting: kopf-example-1")
    playground.expect_in("objects", "There are no objects.")


def test_the_pages_without_a_run_download_little(playground: Playground, site: str) -> None:
    playground.open(site)
    assert playground.measure() < 100_000
