"""The docstrings which are checked as prose: whose they are, and which texts are in them."""

import docstrings
import pytest


def test_docstrings_of_public_names_are_found_with_members_and_options() -> None:
    found = {(item.place, item.text.partition("\n")[0]) for item in docstrings.find_docstrings()}
    source = "packages/kopf-core/src/kopf_core/intents/decorators/options.py"
    assert (source, "The filters of objects: all of them must match.") in found
    places = {place.partition("/src/")[0] for place, _ in found}
    assert {"packages/kopf-cogs", "packages/kopf-core", "packages/kopf-kits"} <= places


def test_q_docstrings_of_modules_are_found() -> None:
    found = {place: text for place, _, text in docstrings.find_modules()}
    assert "packages/kopf-core/src/kopf_core/reactor/object/deciding.py" in found
    assert "packages/kopf-kits/src/kopf_kits/logs.py" in found
    assert all(found.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One.\n\nTwo\nlines.", ["One.", "Two lines."]),
        ("Code::\n\n    What is it\n\nText.", ["Code:", "Text."]),
        (
            ":param name: The name.\n:param kind: The kind\n    of it.",
            ["The name.", "The kind of it."],
        ),
        ("See :class:`Name`.", ["See `Name`."]),
        ("Items:\n\n- One.\n- Two.", ["Items:", "One.", "Two."]),
    ],
)
def test_paragraphs_are_without_code_and_marks(text: str, expected: list[str]) -> None:
    assert docstrings.list_paragraphs(text) == expected
