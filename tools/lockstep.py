"""One version for all packages, kept in the root pyproject (``[tool.kopf] version``).

    tools/lockstep.py --check           exit 1 if a package or a sibling's pin differs
    tools/lockstep.py --set 1.46.1      write the version everywhere, then run `uv lock`

Why in this way, and not with a build plugin: docs/decisions/lockstep-versions.md.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION_LINE = re.compile(r'^(version = )"[^"]*"', re.MULTILINE)
APP_VERSION_LINE = re.compile(r'^(appVersion: )"[^"]*"', re.MULTILINE)
CHART = Path("packages/kopf-kits/src/kopf_kits/shipping/chart/Chart.yaml")
SIBLING_PIN = re.compile(r'"(kopf(?:-cogs|-core|-kits)?)(\[[\w,-]+\])?==[^";]*(;[^"]*)?"')


def read_version(root: Path) -> str:
    """The one version, as the root pyproject has it."""
    config = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    return str(config["tool"]["kopf"]["version"])


def aligned(text: str, version: str) -> str:
    """A package's pyproject text with its own version and the siblings' pins set."""
    text = VERSION_LINE.sub(rf'\g<1>"{version}"', text, count=1)
    text = APP_VERSION_LINE.sub(rf'\g<1>"{version}"', text, count=1)
    return SIBLING_PIN.sub(
        lambda m: f'"{m.group(1)}{m.group(2) or ""}=={version}{m.group(3) or ""}"', text
    )


def find_differing(root: Path, version: str) -> list[Path]:
    """The packages' pyprojects that are not at this version."""
    paths = sorted([*root.glob("packages/*/pyproject.toml"), *root.glob(f"{CHART}")])
    return [path for path in paths if aligned(text := path.read_text("utf-8"), version) != text]


def write_version(root: Path, version: str) -> None:
    """Set the version in the root and in all packages."""
    path = root / "pyproject.toml"
    head, mark, tail = path.read_text("utf-8").partition("[tool.kopf]\n")
    path.write_text(head + mark + VERSION_LINE.sub(rf'\g<1>"{version}"', tail, count=1), "utf-8")
    for path in find_differing(root, version):
        path.write_text(aligned(path.read_text("utf-8"), version), "utf-8")


def main(argv: list[str] | None = None, root: Path = ROOT) -> int:
    """Run as a command; returns the exit code."""
    parser = argparse.ArgumentParser(description="Keep the packages' versions in lockstep.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="exit 1 if something differs")
    action.add_argument("--show", action="store_true", help="print the version")
    action.add_argument("--set", metavar="VERSION", help="write this version everywhere")
    args = parser.parse_args(argv)
    if args.set:
        write_version(root, args.set)
        print(f"All packages are at {args.set}. Now run: uv lock")
        return 0
    version = read_version(root)
    if args.show:
        print(version)
        return 0
    differing = find_differing(root, version)
    for path in differing:
        print(f"{path.relative_to(root)} is not at {version}.")
    if differing:
        print(f"Run: python tools/lockstep.py --set {version}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
