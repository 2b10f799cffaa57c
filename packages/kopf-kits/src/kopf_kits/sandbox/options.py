"""Options of writes and deletions, as they come in queries and bodies of requests."""

from __future__ import annotations

from typing import Any

from .calls import Call
from .deletions import DeleteOptions
from .reads import Query, parse_flag
from .statuses import Cause, invalid
from .writes import WriteOptions


def write_options(query: Query, agent: str) -> WriteOptions:
    """How to write; 422 if the options are not of the known ones."""
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        text = f'Unsupported value: ["{dry_run}"]: supported values: "All"'
        cause = Cause("FieldValueNotSupported", "dryRun", text)
        raise invalid("meta.k8s.io", "CreateOptions", "", [cause])
    return WriteOptions(
        dry_run=dry_run == "All",
        manager=query.get("fieldManager") or agent.partition("/")[0] or "unknown",
        validation=query.get("fieldValidation") or "Warn",
        force=parse_flag(query, "force"),
    )


def delete_options(call: Call) -> DeleteOptions:
    """How to delete: the body is optional."""
    body: Any = call.parse_any() if call.body.strip() else {}
    return DeleteOptions.parse(body if isinstance(body, dict) else {}, call.query)
