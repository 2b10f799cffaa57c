"""The pages of the site: the list for assistants, the links back from the sources."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site_pages() -> ModuleType:
    path = ROOT / "docs" / "_extensions" / "site_pages.py"
    spec = importlib.util.spec_from_file_location("site_pages", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["site_pages"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("anchor", "expected"),
    [
        ("kopf_cogs.Body.spec", "kopf.Body.spec"),
        ("kopf_cogs.structs.bodies.Body", "kopf.Body"),
        ("kopf_cogs.Client", "kopf_cogs.Client"),
        ("kopf_cogs.Unknown", "kopf_cogs.Unknown"),
    ],
)
def test_links_lead_to_names_in_the_reference(
    site_pages: ModuleType, anchor: str, expected: str
) -> None:
    names = ["kopf.Body", "kopf.Body.spec", "kopf_cogs.Client"]
    body = '<a class="viewcode-back" href="../api.html#{}">'
    assert site_pages.mend_links(body.format(anchor), names) == body.format(expected)


def test_all_pages_are_listed_for_assistants(site_pages: ModuleType) -> None:
    text = site_pages.render_list(ROOT / "docs")
    assert text.startswith("# Kopf\n\n> ")
    for section in ("Start", "Write", "Test", "Ship", "Run", "Understand", "Reference"):
        assert f"\n## {section}\n" in text
    assert "- [Handlers](https://nolar.github.io/kopf/handlers.html): A handler is a func" in text
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index", "AGENTS"}
    assert [name for name in pages if f"/{name}.html)" not in text] == []
