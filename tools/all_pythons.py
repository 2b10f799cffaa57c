"""Run the tests on every interpreter that can be found: ``make test-all-pythons``.

    tools/all_pythons.py                      all of them
    tools/all_pythons.py 3.13 pypy3.11        only these
    tools/all_pythons.py 3.14 -- -k daemons   with arguments for pytest

Nothing is installed, but an environment for each interpreter in the user's cache. Interpreters are
looked for on PATH, under pyenv, among uv's own, and in the folders ``*/usr/bin`` of
``~/.cache/kopf/interpreters``. What is absent is skipped with a line.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.15", "3.13t", "3.14t", "3.15t", "pypy3.11")

OUTCOME = re.compile(r"\d+ (passed|failed|error)")

DESCRIBE = """
import sys, sysconfig
free = sysconfig.get_config_var("Py_GIL_DISABLED")
name = "" if sys.implementation.name == "cpython" else sys.implementation.name
print(f"{name}{sys.version_info[0]}.{sys.version_info[1]}{'t' if free else ''}")
"""


@dataclasses.dataclass(frozen=True)
class Result:
    """What has come of one interpreter."""

    version: str
    python: str | None
    code: int | None = None
    summary: str = ""

    def __str__(self) -> str:
        if self.python is None:
            return f"skipped  {self.version}: not found"
        return f"{'FAILED ' if self.code else 'ok     '}  {self.version}: {self.summary}"


def get_cache() -> Path:
    """Where the environments and the unpacked interpreters are."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kopf" / "interpreters"


def list_candidates(version: str) -> Iterator[Path]:
    """Executables that can be of that version, the nearest first."""
    name = version if version.startswith("pypy") else f"python{version}"
    names = (name, "pypy3") if version.startswith("pypy") else (name,)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for name in names:
        if found := shutil.which(name):
            yield Path(found)
        yield from sorted(pyenv.glob(f"versions/*/bin/{name}"))
        yield from sorted(get_cache().glob(f"*/usr/bin/{name}"))


def find_python(version: str, uv: str) -> str | None:
    """The path of the interpreter of exactly that version, if there is any that works."""
    for path in list_candidates(version):
        done = run([str(path), "-c", DESCRIBE])
        if done.returncode == 0 and done.stdout.strip() == version:
            return str(path)
    done = run([uv, "python", "find", "--no-project", "--managed-python", "--offline", version])
    return done.stdout.strip() if done.returncode == 0 else None


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command quietly, wherever we are."""
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=Path.home())


def test_on(version: str, python: str, uv: str, args: Sequence[str]) -> Result:
    """Run the tests in the environment of that interpreter."""
    hidden = ("VIRTUAL_ENV", "PYTHONPATH", "UV_PYTHON")
    env = {key: value for key, value in os.environ.items() if key not in hidden}
    env["UV_PROJECT_ENVIRONMENT"] = str(get_cache() / "environments" / version)
    options = ["--frozen", "--quiet", "--python", python, "--no-default-groups", "--group", "test"]
    what = ["packages", "-m", "not long"]  # tools are on one Python
    if version.startswith("pypy"):
        what += ["--timeout", "300"]  # every process is slow there until its code is compiled
    command = [
        uv,
        "run",
        *options,
        "python",
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        *what,
        *args,
    ]
    print(f"\n=== {version}: {python}", flush=True)
    last = ""
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            last = line if OUTCOME.search(line) else last
    return Result(version, python, process.returncode, last.strip("= \n"))


def main(argv: list[str] | None = None) -> int:
    """Run as a command; returns the exit code."""
    parser = argparse.ArgumentParser(description="Run the tests on all interpreters found.")
    parser.add_argument("versions", nargs="*", help=f"of {', '.join(VERSIONS)}; all by default")
    parser.add_argument("--find", action="store_true", help="only show what is found")
    given = sys.argv[1:] if argv is None else argv
    split = given.index("--") if "--" in given else len(given)
    args = parser.parse_args(given[:split])
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        raise SystemExit("all_pythons: uv is not found; run it as `make test-all-pythons`.")
    results = []
    for version in args.versions or VERSIONS:
        python = find_python(version, uv)
        if python is None or args.find:
            results.append(Result(version, python, None, python or ""))
        else:
            results.append(test_on(version, python, uv, given[split + 1 :] or ["-q"]))
    print("\n=== Summary")
    for result in results:
        print(result)
    return 1 if any(result.code for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
