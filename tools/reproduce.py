"""Build the packages once more, elsewhere, and compare: ``tools/reproduce.py dist``.

The same sources must give the same files, byte by byte, wherever and whenever they are built: so,
anybody can check what is published. The wheels are rebuilt from the source archives, so these are
known to be complete. The time in the archives is that of the last commit: ``SOURCE_DATE_EPOCH``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def get_hashes(folder: Path) -> dict[str, str]:
    """The files of the folder, and their SHA-256."""
    paths = sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def find_differing(first: dict[str, str], second: dict[str, str]) -> list[str]:
    """The names of files that are different or are not in both."""
    return [name for name in sorted({*first, *second}) if first.get(name) != second.get(name)]


def rebuild(dist: Path, packages: Path, folder: Path, uv: str) -> Path:
    """Build the archives of copied sources, and the wheels of the given archives."""
    result, copies = folder / "elsewhere", folder / "copies"
    copies.mkdir()
    shutil.copyfile(ROOT / ".gitignore", copies / ".gitignore")  # the builder goes by it
    for package in sorted(path.parent for path in packages.glob("*/pyproject.toml")):
        copy = copies / package.name
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(package, copy, ignore=ignored, copy_function=shutil.copyfile)
        build(uv, "--sdist", copy, result)
    for archive in sorted(dist.glob("*.tar.gz")):
        build(uv, "--wheel", archive, result)
    return result


def build(uv: str, kind: str, source: Path, target: Path) -> None:
    """Build one file of one source, with no traces of the environment."""
    command = [uv, "build", "--quiet", "--no-config", kind, "--out-dir", str(target), str(source)]
    subprocess.run(command, check=True, cwd=target.parent, umask=0o077)


def main(argv: list[str] | None = None) -> int:
    """Run as a command; returns the exit code."""
    parser = argparse.ArgumentParser(description="Build once more, and compare byte by byte.")
    parser.add_argument("dist", type=Path, nargs="?", default=Path("dist"))
    args = parser.parse_args(argv)
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        raise SystemExit("reproduce: uv is not found; run it as `make build`.")
    dist = args.dist.resolve()
    with tempfile.TemporaryDirectory(prefix="kopf-reproduce-") as folder:
        second = rebuild(dist, ROOT / "packages", Path(folder), uv)
        first, hashes = get_hashes(dist), get_hashes(second)
    differing = find_differing(first, hashes)
    for name in differing:
        print(f"reproduce: {name} is not the same when it is built elsewhere.", file=sys.stderr)
    for name, digest in first.items():
        print(f"{digest}  {name}")
    return 1 if differing or not first else 0


if __name__ == "__main__":
    sys.exit(main())
