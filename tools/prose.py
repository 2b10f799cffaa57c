#!/usr/bin/env python3
"""Check the prose of the documentation: `python tools/prose.py [FILES]`, or `make docs`.

The rules and the reasons for them are in `docs/style.md`. The texts of `--help`, the messages,
the docstrings, and the comments are checked, too; the tables for maintainers are not.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import sys
from collections.abc import Iterator, Sequence

import click
import docstrings
import messages

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNCHECKED = {
    "CHANGELOG.md",
    "docs/reference/compatibility.md",
    "docs/reference/conformance.md",
    "docs/reference/coverage.md",
    "docs/reference/robustness.md",
    "docs/reference/sections.md",
}
"""Tables which are generated, or which are for maintainers only."""

LONGEST = 30
"""How many words a sentence may have; code in backticks is one word."""

PASSIVES = 2
"""How many passive verbs a sentence may have."""

SEMICOLONS = 1
"""How many semicolons a sentence may have."""

LONGEST_GUIDE = 1200
"""How many words a guide may have, without its code. The rest belongs to the references."""

REFERENCES = {"docs/cli.md", "docs/configuration.md"}
"""Beside the guides, but not guides: they list everything there is."""

CODE = "CODE"
FENCE = re.compile(r"^( *)([`:~]{3,})([^\n]*)$")
SKIPPED = re.compile(r"^(?:---|\|[-:| ]+\|$|<!--|\[[^]]+\]: |:[\w-]+:|\([\w-]+\)=$|!\[|\{.*\}$)")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
SENTENCE_END = re.compile(r"(?<=[.!?])[)\"]*\s+(?=[A-Z`\"(*\[])")
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|cf)\.")
IRREGULAR = (
    "done|made|kept|sent|given|taken|known|seen|told|found|held|lost|left|put|set|read|run|shown|"
    "written|chosen|begun|got|gone|built|brought|caught|cut|driven|drawn|forgotten|hidden|meant|"
    "paid|said|shut|spent|stuck|thrown|understood|won|broken"
)
ADVERBS = r"(?:(?:\w+ly|not|never|also|then|still|already|always|once|again)\s+)*"
PASSIVE = re.compile(
    rf"\b(?:is|are|was|were|be|been|being)\s+{ADVERBS}(?:\w{{2,}}ed|{IRREGULAR})\b", re.I
)


@dataclasses.dataclass(frozen=True)
class Rule:
    """What must not be in a sentence, and what to do instead."""

    name: str
    pattern: re.Pattern[str]
    advice: str
    in_questions: bool = False


def _rule(name: str, pattern: str, advice: str, *, in_questions: bool = False) -> Rule:
    return Rule(name, re.compile(pattern, re.I), advice, in_questions)


RULES = [
    _rule(
        "clause as subject",
        r"^(?:and |but |or )?(?:what|which|whatever|whichever|whoever|who|whether|how)\b",
        "begin with a noun: name the thing",
    ),
    _rule(
        "clause as subject",
        r"[;,:] (?:and |but |or |so )?(?:what|whatever|whichever|whoever) ",
        "name the thing instead of “what …”",
    ),
    _rule(
        "riddle",
        r"^(?:the same (?:for|is|goes|of|when|if)|so (?:is|are|do|does|has)|neither|not so)\b",
        "repeat the noun and the verb",
    ),
    _rule(
        "riddle",
        r"\b(?:those (?:who|that|which|of|with|in|are|for|from)|the former|the latter)\b",
        "repeat the noun",
    ),
    _rule(
        "riddle",
        r"\b(?:nothing|anything|everything|something|all) (?:of|for|to) (?:it|that|this)\b",
        "name the thing",
    ),
    _rule(
        "no actor",
        r"\b(?:anybody|somebody|nobody|everybody)\b",
        "name the actor: a user, a controller, a client",
        in_questions=True,
    ),
    _rule("no actor", r"\b(?:is|are|was|were) to be\b", "say who must do it", in_questions=True),
    _rule("no actor", r"^it is (?:not |un)known\b", "say who cannot know it"),
    _rule("old word", r"\bbut for\b", "except", in_questions=True),
    _rule("old word", r"\balso (?:if|when|while|after)\b", "even if, even when", in_questions=True),
    _rule("old word", r"\bthere (?:and )?then\b|\bthereof\b|\bwhereby\b", "plain words"),
    _rule("term", r"\bconfig maps?\b", "ConfigMap", in_questions=True),
    _rule("term", r"\bthe predecessor\b", "kopf 1.45", in_questions=True),
]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A sentence that breaks a rule."""

    place: str
    line: int
    rule: str
    advice: str
    text: str

    def __str__(self) -> str:
        text = self.text if len(self.text) <= 90 else f"{self.text[:87]}..."
        return f"{self.place}:{self.line}: {self.rule}: {self.advice}: {text}"


def read_paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Find the prose of a Markdown page: with no code, no headings, no directives; cell by cell."""
    pending: list[str] = []
    start = 0
    for number, line in _read_lines(text):
        is_apart = not line or line.startswith(("#", "|")) or ITEM.match(line)
        if is_apart and pending:
            yield start, " ".join(pending)
            pending = []
        if line.startswith("|"):
            yield from ((number, cell) for cell in line.replace("\\|", "/").strip("| ").split("|"))
        elif line and not line.startswith("#"):
            start = start if pending else number
            pending.append(ITEM.sub("", line).lstrip("> "))
    if pending:
        yield start, " ".join(pending)


def _read_lines(text: str) -> Iterator[tuple[int, str]]:
    """Read the lines outside of code; the others are empty."""
    closing: str | None = None
    matter = text.startswith("---\n")
    for number, line in enumerate(text.splitlines(), start=1):
        if matter:
            matter = number == 1 or line != "---"
            continue
        fence = FENCE.match(line)
        if closing is not None:
            closing = None if line.strip() == closing else closing
            yield number, ""
        elif fence is not None:
            closing = None if fence[2].startswith(":") else fence[2]
            yield number, ""
        else:
            yield number, "" if SKIPPED.match(line.strip()) else line.strip()


def clean(text: str) -> str:
    """Leave only words: links are their texts, code is one word."""
    text = re.sub(r"\]\{[^}]*\}|\{[\w-]+\}(?=`)", "", text)
    text = re.sub(r"`+[^`]*`+", CODE, text)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = ABBREVIATIONS.sub(lambda match: match[1].replace(".", ""), text)
    text = re.sub(r"<https?:[^>]*>", CODE, text)
    return re.sub(r"[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}", "", text).strip()


def split(text: str) -> list[str]:
    """Split a cleaned paragraph into sentences."""
    return [part for part in SENTENCE_END.split(text) if part.strip()]


def count_words(text: str) -> int:
    """Count the words of a cleaned text."""
    return sum(any(map(str.isalnum, word)) for word in text.split())


def judge(sentence: str) -> Iterator[tuple[str, str]]:
    """Say what is wrong in a sentence: the names of the rules, and the advices."""
    words = count_words(sentence)
    if words > LONGEST:
        yield "long", f"{words} words: make two sentences of it"
    if sentence.count(";") > SEMICOLONS:
        yield "long", "several semicolons: make sentences or a list"
    passives = len(PASSIVE.findall(sentence))
    if passives > PASSIVES:
        yield "passive", f"{passives} passive verbs: name who does it"
    is_question = sentence.rstrip("*_) ").endswith("?")
    for rule in RULES:
        if words > 4 and rule.pattern.search(sentence) and (rule.in_questions or not is_question):
            yield rule.name, rule.advice


def check_text(place: str, text: str) -> Iterator[Finding]:
    """Check one page."""
    for line, paragraph in read_paragraphs(text):
        for sentence in split(clean(paragraph)):
            for name, advice in judge(sentence):
                yield Finding(place, line, name, advice, sentence)


def check_help(command: click.Command, path: str) -> Iterator[Finding]:
    """Check the texts of a command, of its options, and of the commands in it."""
    texts = [command.help or "", *(getattr(param, "help", None) or "" for param in command.params)]
    for text in texts:
        for paragraph in re.split(r"\n\s*\n", text.replace("\b", "")):
            for sentence in split(clean(" ".join(paragraph.split()))):
                for name, advice in judge(sentence):
                    yield Finding(f"{path} --help", 1, name, advice, sentence)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from check_help(found, f"{path} {name}")


def check_source(path: pathlib.Path) -> Iterator[Finding]:
    """Check the docstrings and the comments of a file.

    Values can be described by "Whether", "How long".
    """
    for place, line, text in docstrings.find_texts(path.resolve()):
        for paragraph in docstrings.list_paragraphs(text):
            for sentence in split(clean(docstrings.DESCRIPTION.sub("", paragraph))):
                for name, advice in judge(sentence):
                    yield Finding(place, line, name, advice, sentence)


def check_messages() -> Iterator[Finding]:
    """Check the messages of logs, errors, and commands."""
    for place, line, text in messages.find_messages():
        for sentence in split(clean(text)):
            for name, advice in judge(sentence):
                yield Finding(place, line, name, advice, sentence)


def check_length(page: str, text: str) -> Iterator[Finding]:
    """Check that a guide is not longer than people read."""
    if not re.fullmatch(r"docs/[\w-]+\.md", page) or page in REFERENCES:
        return
    words = sum(count_words(clean(paragraph)) for _, paragraph in read_paragraphs(text))
    if words > LONGEST_GUIDE:
        advice = f"{words} words of at most {LONGEST_GUIDE}: move the rare cases to a reference"
        yield Finding(page, 1, "long", advice, "the whole guide")


def list_pages(root: pathlib.Path = ROOT) -> list[str]:
    """All pages that people read."""
    patterns = ("*.md", "docs/*.md", "docs/*/*.md", "packages/*/README.md", "changelog.d/README.md")
    pages = {
        path.relative_to(root).as_posix() for pattern in patterns for path in root.glob(pattern)
    }
    return sorted(pages)


def list_sources(root: pathlib.Path = ROOT) -> list[pathlib.Path]:
    """All modules of the packages."""
    return sorted(root.glob("packages/*/src/**/*.py"))


def check_all() -> tuple[list[str], int]:
    """Check everything: what is wrong, and how many pages were checked."""
    from kopf_kits.cli.groups import main as kopf

    pages = [page for page in list_pages() if page not in UNCHECKED]
    texts = {page: (ROOT / page).read_text("utf-8") for page in pages}
    found = [
        *(item for page, text in texts.items() for item in check_text(page, text)),
        *(item for page, text in texts.items() for item in check_length(page, text)),
        *check_help(kopf, "kopf"),
        *(item for path in list_sources() for item in check_source(path)),
        *check_messages(),
    ]
    return [*map(str, found)], len(pages)


def check_page(page: str) -> Iterator[Finding]:
    """Check one page, or one file of Python."""
    path = pathlib.Path(page)
    return check_source(path) if path.suffix == ".py" else check_text(page, path.read_text("utf-8"))


def main(args: Sequence[str]) -> int:
    """Check the named pages, or everything."""
    if args:
        found = [str(f) for page in args for f in check_page(page)]
        count = len(args)
    else:
        found, count = check_all()
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.stdout.write(f"Prose: {count} pages, {len(found)} findings.\n")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
