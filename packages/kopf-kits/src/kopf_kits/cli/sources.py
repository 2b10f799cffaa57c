"""The source files around the handlers, and which of them have changed since the last look."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

FOLDERS_LIMIT = 500
"""How many folders to look into: users can keep handlers in a home folder."""

_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})

Stamps = Mapping[str, tuple[int, int]]
"""The times of changes and the sizes of the files by their paths."""


def find_roots(paths: Iterable[str], modules: Iterable[str]) -> list[str]:
    """The folders of the files and of the top-level packages, with nothing imported."""
    roots = [os.path.dirname(os.path.abspath(path)) for path in paths]
    for name in modules:
        roots.append(_find_module(name.partition(".")[0]))
    return sorted(set(roots))


def _find_module(name: str) -> str:
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as when the module is loaded
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    origin = None if spec is None or not spec.has_location else spec.origin
    return os.getcwd() if origin is None else os.path.dirname(os.path.abspath(origin))


def scan(roots: Iterable[str]) -> Stamps:
    """Look at the source files in the folders, the nearest first. Unreadable folders are empty."""
    stamps: dict[str, tuple[int, int]] = {}
    queue = deque(roots)
    for _ in range(FOLDERS_LIMIT):
        if not queue:
            break
        for entry in _list_folder(queue.popleft()):
            if entry.name.endswith(".py"):
                with contextlib.suppress(OSError):  # a link to nothing, or a removed file
                    stat = entry.stat()
                    stamps[entry.path] = stat.st_mtime_ns, stat.st_size
            elif entry.is_dir(follow_symlinks=False) and _is_of_sources(entry):
                queue.append(entry.path)
    return stamps


def _list_folder(path: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            yield from entries
    except OSError:
        return  # the folder is gone or not readable


def _is_of_sources(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or entry.name in _SKIPPED:
        return False
    return not os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))


def find_changes(before: Stamps, after: Stamps) -> list[str]:
    """The files that are changed, added, or removed."""
    paths = before.keys() | after.keys()
    return sorted(path for path in paths if before.get(path) != after.get(path))
