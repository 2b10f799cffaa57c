"""Release notes from fragments: one small file in changelog.d/ for each change worth telling.

A fragment is named ``{slug}.{kind}.md`` and holds one or a few sentences for users.

    tools/changelog.py --check           exit 1 if a fragment's name or content is wrong
    tools/changelog.py --draft           print the section that a release would get now
    tools/changelog.py --release 1.46.0  put that section into CHANGELOG.md, remove the fragments
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "<!-- releases -->\n"
KINDS = {
    "breaking": "Breaking changes",
    "security": "Security",
    "feature": "Features",
    "fix": "Fixes",
    "speed": "Speed",
    "deprecation": "Deprecations",
    "misc": "Other changes",
}


def find_fragments(root: Path) -> list[Path]:
    """All fragments, in the order of their names."""
    return sorted(p for p in (root / "changelog.d").glob("*.md") if p.name != "README.md")


def find_mistakes(root: Path) -> list[str]:
    """What is wrong with the fragments, one line each."""
    mistakes = []
    for path in find_fragments(root):
        parts = path.name.split(".")
        if len(parts) != 3 or parts[1] not in KINDS:
            mistakes.append(f"{path.name}: name it SLUG.KIND.md, a KIND of {', '.join(KINDS)}")
        elif not path.read_text("utf-8").strip():
            mistakes.append(f"{path.name}: it is empty")
    return mistakes


def build_section(root: Path, version: str, date: datetime.date) -> str:
    """The section of one release: a heading for each kind, a bullet for each fragment."""
    lines = [f"## {version} ({date.isoformat()})", ""]
    for kind, title in KINDS.items():
        fragments = [p for p in find_fragments(root) if p.name.split(".")[1] == kind]
        if fragments:
            lines += [f"### {title}", ""]
            lines += ["- " + p.read_text("utf-8").strip().replace("\n", "\n  ") for p in fragments]
            lines += [""]
    return "\n".join(lines) + "\n"


def write_release(root: Path, version: str, date: datetime.date) -> None:
    """Move the fragments' texts into CHANGELOG.md, newest release first."""
    path = root / "CHANGELOG.md"
    head, mark, tail = path.read_text("utf-8").partition(MARK)
    section = build_section(root, version, date)
    path.write_text(head + mark + "\n" + section.rstrip("\n") + "\n" + tail, "utf-8")
    for fragment in find_fragments(root):
        fragment.unlink()


def main(argv: list[str] | None = None, root: Path = ROOT) -> int:
    """Run as a command; returns the exit code."""
    parser = argparse.ArgumentParser(description="Make release notes from fragments.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true")
    action.add_argument("--draft", action="store_true")
    action.add_argument("--release", metavar="VERSION")
    args = parser.parse_args(argv)
    mistakes = find_mistakes(root)
    for mistake in mistakes:
        print(mistake)
    if mistakes:
        return 1
    today = datetime.datetime.now(datetime.UTC).date()
    if args.draft:
        config = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
        print(build_section(root, config["tool"]["kopf"]["version"], today), end="")
    elif args.release:
        write_release(root, args.release, today)
    return 0


if __name__ == "__main__":
    sys.exit(main())
