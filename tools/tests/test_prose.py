"""The check of the prose: what it finds, and what it lets pass."""

from __future__ import annotations

from pathlib import Path

import click
import prose
import pytest


def find(text: str) -> list[str]:
    return [finding.rule for finding in prose.check_text("page.md", text)]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("clause as subject", "What is not known is not absent."),
        ("clause as subject", "Which names are made when it is long, has changed once."),
        ("clause as subject", "How many there are is in the log."),
        ("clause as subject", "The object stays; what was sent is kept."),
        ("riddle", "It holds the objects, and those that are over."),
        ("riddle", "The same for what a handler had begun."),
        ("riddle", "So it is, but nothing of that is sent."),
        ("no actor", "The field is changed by somebody else."),
        ("no actor", "The objects are to be handled first."),
        ("old word", "The handler is called, also if it has failed."),
        ("old word", "All the tests pass but for one of them."),
        ("term", "The operator makes a config map for each object."),
        ("term", "The predecessor calls them in another order."),
        ("passive", "The object is changed, is stored, is sent, and it is shown."),
        ("long", "A handler; a daemon; a timer of the operator."),
        ("long", f"Kopf calls {'one more ' * 15}handler."),
    ],
)
def test_bad_sentences_are_found(rule: str, text: str) -> None:
    assert find(text) == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "Kopf calls the handler again after 60 seconds, e.g. after an error.",
        "What happens next?",
        "Whose object is it, and which handler has changed it?",
        "`What it is` is code, and code is one word.",
        "What next",
        "Kopf keeps the object, and says why it does that.",
        f"Kopf calls {'one more ' * 13}handler. It does it again.",
        f"[{'a link to a page ' * 3}](https://example.com/{'what-is-it-and-those-who/' * 9}).",
    ],
)
def test_good_sentences_pass(text: str) -> None:
    assert find(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "```python\n# What is this, is not known.\n```",
        "---\nhide-toc: true\ndescription: What it is, is not known here\n---",
        "# What it is, and those who are over",
        "<!-- not run: what it is, is not known -->",
        "| name |\n|---|\n| `code` |",
        "````md\n```\nWhat is this, is not known.\n```\n````",
    ],
)
def test_code_and_marks_are_not_prose(text: str) -> None:
    assert find(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Kopf keeps it.\n\nWhat is this, is not known.",
        "- Kopf keeps it.\n- What is this, is not known.",
        "| name | meaning |\n|---|---|\n| `x` | What is this, is not known. |",
        ":::{note}\nWhat is this, is not known.\n:::",
        "> What is this, is not known.",
        "Kopf keeps it.\nWhat is this,\nis not known.",
    ],
)
def test_prose_is_found_wherever_it_is(text: str) -> None:
    assert find(text) == ["clause as subject"]


def test_findings_name_the_place_and_the_advice() -> None:
    [finding] = prose.check_text("page.md", "# Title\n\nWhat is not known is not absent.")
    assert str(finding) == (
        "page.md:3: clause as subject: begin with a noun: name the thing: "
        "What is not known is not absent."
    )


def test_helps_are_checked_with_options_and_nested_commands() -> None:
    option = click.Option(["--flag"], help="Skip those that are over already.")
    inner = click.Command("inner", help="What is shown is not stored.", params=[option])
    group = click.Group("outer", commands=[inner], help="Do things.")
    places = [(finding.place, finding.rule) for finding in prose.check_help(group, "kopf")]
    assert places == [
        ("kopf inner --help", "clause as subject"),
        ("kopf inner --help", "riddle"),
    ]


def test_everything_passes() -> None:
    found, count = prose.check_all()
    assert found == []
    assert count > 0


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.md", tmp_path / "bad.md"
    good.write_text("Kopf calls the handler.")
    bad.write_text("What is not known is not absent.")
    assert prose.main([str(good)]) == 0
    assert prose.main([str(good), str(bad)]) == 1
    assert capsys.readouterr().out.endswith("Prose: 2 pages, 1 findings.\n")


@pytest.mark.parametrize(
    ("page", "words", "expected"),
    [
        ("docs/timers.md", 1200, []),
        ("docs/timers.md", 1201, ["long"]),
        ("docs/cli.md", 1201, []),
        ("docs/reference/timers.md", 1201, []),
        ("README.md", 1201, []),
    ],
)
def test_q_long_guides_are_found(page: str, words: int, expected: list[str]) -> None:
    text = "# A title\n\n```python\nfirst = second = third\n```\n\n" + "word " * words
    assert [finding.rule for finding in prose.check_length(page, text)] == expected
