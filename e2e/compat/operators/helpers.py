"""What the operators of the cases import: the names of kinds and the journal of calls.

It is imported by both generations, and so uses only what both have.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

K = "compatexamples"
"""The plain kind."""
S = "compatstatuses"
"""The kind with the status subresource."""
C = "compatclusters"
"""The cluster-scoped kind."""
MINE = {"compat-run": os.environ["COMPAT_RUN"]}
"""The labels of cluster-scoped objects of this operator."""

PLAIN = ("reason", "type", "retry", "param", "name")
MAPPINGS = ("spec", "labels", "annotations", "status", "old", "new")
UNSEEN = ("logger", "patch", "body", "meta", "uid", "namespace", "settings", "memo", "event")


def note(handler: str, kwargs: Mapping[str, Any], **extras: Any) -> None:
    """Add a line about this call to the journal."""
    seen = {name: plain(kwargs[name]) for name in (*PLAIN, *MAPPINGS) if name in kwargs}
    if "diff" in kwargs:
        seen["diff"] = [plain([item.op, item.field, item.old, item.new]) for item in kwargs["diff"]]
    if "stopped" in kwargs:
        seen["stopped"] = {"is_set": bool(kwargs["stopped"]), "repr": repr(kwargs["stopped"])}
    for name in ("started", "runtime"):
        if name in kwargs:
            seen[name] = type(kwargs[name]).__name__
    if "resource" in kwargs:
        seen["resource"] = str(kwargs["resource"])
    for name in sorted(set(kwargs) - {*PLAIN, *MAPPINGS, *UNSEEN, *seen}):
        seen[name] = plain(kwargs[name])
    entry = {"handler": handler, "names": sorted(kwargs), "kwargs": seen, **plain(extras)}
    line = json.dumps(entry, default=repr) + "\n"
    descriptor = os.open(os.environ["COMPAT_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def plain(value: Any) -> Any:
    """Convert the views, indices, and enums into what goes to JSON."""
    if isinstance(value, Mapping):
        return {str(key): plain(val) for key, val in value.items()}
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple | set | frozenset) or hasattr(value, "__iter__"):
        return [plain(item) for item in value]
    return repr(value)
