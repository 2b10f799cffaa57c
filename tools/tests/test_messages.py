"""Which texts of the sources are messages."""

from __future__ import annotations

import ast

import messages

CODE = '''
"""A docstring of the module is not a text."""

NAMES = {"key": "value"}
"""A docstring of a constant is not a text."""


def fn(name, logger):
    """A docstring of a function is not a text."""
    logger.info(
        f"The object {name!r} is handled: "
        "everything is done."
    )
    raise ValueError("It failed.") from None
'''


def test_q_texts_are_read_without_docstrings() -> None:
    assert [*messages.read_texts(ast.parse(CODE))] == [
        (4, "key"),
        (4, "value"),
        (11, "The object VALUE is handled: everything is done."),
        (14, "It failed."),
    ]


def test_q_messages_of_all_packages_are_found() -> None:
    found = [*messages.find_messages()]
    assert {place.split("/")[1] for place, _, _ in found} >= {"kopf-cogs", "kopf-core", "kopf-kits"}
    texts = {text for _, _, text in found}
    assert any(text.startswith("There are no usable credentials") for text in texts)
    assert not any("continue token" in text for text in texts)  # it is of the Kubernetes API
