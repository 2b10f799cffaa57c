"""Make the stub of the facade, which type checkers and editors read, of the table of its names.

``python tools/facade.py`` rewrites ``packages/kopf/src/kopf/__init__.pyi``;
with ``--check``, it only fails if the stub is outdated.
"""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

facade: Any = importlib.import_module("kopf")  # as it is at run time, and not in its stub

STUB = Path(facade.__file__).with_suffix(".pyi")


def make_lines() -> Iterator[str]:
    """The imports as people would write them by hand."""
    yield "# Made by `python tools/facade.py` of the table in `__init__.py`: do not edit it."
    yield ""
    for name in (*facade._SUBMODULES, *facade._OTHER_SUBMODULES):
        yield f"from kopf import {name} as {name}"
    for module, names in facade._SOURCES.items():
        for name in names.split():
            original = facade._ORIGINALS.get(name, name)
            yield f"from {module} import {name if original == name else f'{original} as {name}'}"
    yield ""
    yield "__version__: str"
    yield f"__all__ = {facade.__all__!r}"


def make_stub() -> str:
    """The text of the stub, formatted as all other files are."""
    text = "\n".join(make_lines()) + "\n"
    for args in (["format"], ["check", "--fix"]):
        command = [
            sys.executable,
            "-m",
            "ruff",
            *args,
            "--quiet",
            "--stdin-filename",
            str(STUB),
            "-",
        ]
        done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
        text = done.stdout
    return text


def main() -> None:
    text = make_stub()
    if "--check" not in sys.argv:
        STUB.write_text(text, "utf-8")
    elif STUB.read_text("utf-8") != text:
        sys.exit(f"{STUB} is outdated: run `python tools/facade.py`.")


if __name__ == "__main__":
    main()
