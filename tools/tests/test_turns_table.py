"""The table of decisions in the documentation is generated, and is current."""

import turns_table


def test_l_the_table_of_decisions_is_current() -> None:
    text = turns_table.PAGE.read_text("utf-8")
    assert turns_table.render(text) == text, "Run `python tools/turns_table.py`."
