"""The texts in the sources that are checked as prose."""

import pathlib

import docstrings
import pytest

SOURCE = '''"""The module."""

LIMIT = 1
"""The limit."""


class Part:
    """The part."""

    size = 0  # at most 3
    """The size."""

    def grow(self):
        """Grow."""
        # Two lines
        # of one comment.
        return self.size  # noqa: X
'''


def test_q_docstrings_and_comments_are_found(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docstrings, "ROOT", tmp_path)
    path = tmp_path / "module.py"
    path.write_text(SOURCE, "utf-8")
    found = {text: line for place, line, text in docstrings.find_texts(path) if place == path.name}
    assert found == {
        "The module.": 1,
        "The limit.": 4,
        "The part.": 8,
        "The size.": 11,
        "Grow.": 14,
        "at most 3": 10,
        "Two lines of one comment.": 15,
    }


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
