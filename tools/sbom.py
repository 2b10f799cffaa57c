"""List what an installed kopf is made of, as CycloneDX files: ``tools/sbom.py dist build/sbom``.

There is a file for kopf with no extras, and one for each extra: the newest versions that satisfy
the requirements at the moment. The built wheels are taken from the folder.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from smoke_wheels import Environment, find_uv

ROOT = Path(__file__).resolve().parent.parent
FACADE = ROOT / "packages" / "kopf" / "pyproject.toml"


def get_extras() -> list[str]:
    """The extras of kopf, and the empty name for none of them."""
    project = tomllib.loads(FACADE.read_text("utf-8"))["project"]
    return ["", *sorted(project["optional-dependencies"])]


def write_sbom(dist: Path, extra: str, target: Path) -> None:
    """Install kopf with the extra into an empty environment, and list what is there."""
    (wheel,) = dist.glob("kopf-*.whl")
    with tempfile.TemporaryDirectory(prefix="kopf-sbom-") as folder:
        venv = Environment(find_uv(), Path(folder))
        requirement = f"kopf[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
        venv.install("--find-links", str(dist), requirement)
        command = [sys.executable, "-m", "cyclonedx_py", "environment", venv.python]
        options = [
            "--pyproject",
            str(FACADE),
            "--output-reproducible",
            "--output-file",
            str(target),
        ]
        subprocess.run([*command, *options], check=True)


def main(argv: list[str] | None = None) -> int:
    """Run as a command; returns the exit code."""
    parser = argparse.ArgumentParser(description="Make the bills of materials of built wheels.")
    parser.add_argument("dist", type=Path)
    parser.add_argument("target", type=Path)
    args = parser.parse_args(argv)
    args.target.mkdir(parents=True, exist_ok=True)
    for extra in get_extras():
        path = args.target / f"kopf{'-' * bool(extra)}{extra}.cdx.json"
        write_sbom(args.dist.resolve(), extra, path)
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
