"""Namespaces: their names, and the patterns by which they are served."""

import fnmatch
import re
from collections.abc import Iterable
from typing import NewType

NamespaceName = NewType("NamespaceName", str)
"""A name of a namespace."""

Namespace = NamespaceName | None
"""A namespace, or ``None`` for the whole cluster."""

NamespacePattern = str | re.Pattern[str]
"""A name, or comma-separated globs with optional negations, or a regular expression."""

_SPECIALS = frozenset(",*?!")


def match_namespace(name: str, pattern: NamespacePattern) -> bool:
    """Check if the namespace matches the pattern.

    Of several comma-separated globs, the rightmost matching one wins: either it includes,
    or, if negated with ``!``, excludes the namespace. But if the first one does not match,
    then the whole pattern does not. If the first one is negated, then all namespaces
    are included except those excluded. Regular expressions must match the name in full.
    """
    if isinstance(pattern, re.Pattern):
        return pattern.fullmatch(name) is not None
    first, *rest = parse_pattern(pattern)
    if not _match_glob(name, first):
        return False
    for glob in reversed(rest):
        if _match_glob(name, glob.removeprefix("!")):
            return not glob.startswith("!")
    return True


def parse_pattern(pattern: str) -> list[str]:
    """Split the pattern into globs so that the first one is never negated."""
    globs = [glob.strip() for glob in pattern.split(",")]
    return ["*", *globs] if globs[0].startswith("!") else globs


def select_specific_namespaces(patterns: Iterable[NamespacePattern]) -> set[NamespaceName]:
    """Select only the exact names of namespaces, which need no matching to be served."""
    return {
        NamespaceName(pattern)
        for pattern in patterns
        if isinstance(pattern, str) and pattern and not _SPECIALS & set(pattern)
    }


def _match_glob(name: str, glob: str) -> bool:
    return fnmatch.fnmatchcase(name, glob)
