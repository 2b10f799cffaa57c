"""The page about the compatibility says what is there."""

from __future__ import annotations

from e2e.compat.cases import CASES
from e2e.compat.documents import OUTPUT, render
from e2e.compat.expected import EXPECTED


def test_the_page_is_current() -> None:
    assert OUTPUT.read_text("utf-8") == render(), "Run: python -m e2e.compat.documents"


def test_every_case_and_every_difference_is_on_the_page() -> None:
    page = render()
    assert all(f"| {case.name} |" in page for case in CASES)
    assert all(f"| {item.reason} |" in page for item in EXPECTED)
