"""Options of writes and deletions, as they come in queries and bodies of requests."""

from __future__ import annotations

from typing import Any

from kopf_kits.sandbox.base.statuses import Cause, StatusError, invalid
from kopf_kits.sandbox.store.writeoptions import WriteOptions
from kopf_kits.sandbox.verbs.deletions import DeleteOptions
from kopf_kits.sandbox.verbs.reads import parse_flag

from .calls import Call

_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_KINDS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def write_options(call: Call) -> WriteOptions:
    """The options of a write; 422 if their values are unknown."""
    query = call.query
    dry_run, validation = query.get("dryRun", ""), query.get("fieldValidation", "")
    if dry_run not in ("", "All"):
        text = f'Unsupported value: ["{dry_run}"]: supported values: "All"'
        raise _refusal(call, "dryRun", text)
    if validation not in _VALIDATIONS:
        listed = ", ".join(f'"{option}"' for option in _VALIDATIONS)
        text = f'Unsupported value: "{validation}": supported values: {listed}'
        raise _refusal(call, "fieldValidation", text)
    return WriteOptions(
        dry_run=dry_run == "All",
        manager=query.get("fieldManager") or call.agent.partition("/")[0] or "unknown",
        named=bool(query.get("fieldManager")),
        validation=validation or "Warn",
        force=parse_flag(query, "force"),
        warnings=call.warnings,
        doubts=call.doubts,
    )


def _refusal(call: Call, field: str, text: str) -> StatusError:
    cause = Cause("FieldValueNotSupported", field, text)
    return invalid("meta.k8s.io", _KINDS.get(call.method, "DeleteOptions"), "", [cause])


def delete_options(call: Call) -> DeleteOptions:
    """The options of a deletion; the body is optional."""
    body: Any = call.parse_any() if call.body.strip() else {}
    return DeleteOptions.parse(body if isinstance(body, dict) else {}, call.query)
