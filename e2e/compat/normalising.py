"""Observations turned into lines that are the same when the behaviour is the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from .proxies import Request
from .tracks import Observations

ASPECTS = ("calls", "objects", "requests", "events", "logs", "notes")

VARIABLE_METADATA = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation")
TOUCH_KEYS = ("kopf.zalando.org/touch-dummy", "my-op.example.com/touch-dummy")
INTERNAL_PREFIXES = ("kopf.zalando.org/", "my-op.example.com/")

# What is seen in the logs at the debug level about how the work is organised, not what is done.
UNCOMPARED_LOGS = re.compile(
    r"^(Merge-patching|JSON-patching|Patching|Sleeping|Handling cycle is finished"
    r"|Something has changed|\w+ is in progress|\w+ diff:|Could not apply the patch)"
)
LOG_LINE = re.compile(
    r"^\[[^\]]+\] (?P<logger>\S+)\s+\[(?P<level>\w+)\s*\] \[(?P<ref>[^\]]+)\] (?P<text>.*)$"
)

# The kwargs that the predecessor does not have; it calls everybody with what it has.
OURS_ONLY = ("conditions", "dryrun", "scheduled")

# The kwargs of those handlers, of which all calls are compared in their order.
EXACT = {"reason", "activity"}

REPLACEMENTS = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\b\d+:\d\d:\d\d\.\d+"), "<duration>"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "<address>"),
    (re.compile(r"<(Async|Sync)(FlagWaiter|DaemonStopperChecker): "), r"<\1Stopper: "),
]


def normalise(seen: Observations, run_id: str) -> dict[str, list[str]]:
    """Make the comparable lines by the aspects."""

    def replace(text: str) -> str:
        text = text.replace(f"compat-{run_id}", "<namespace>").replace(run_id, "<run>")
        for pattern, replacement in REPLACEMENTS:
            text = pattern.sub(replacement, text)
        return text

    aspects = {
        "calls": list(_get_calls(seen.journal, replace)),
        "objects": list(_get_snapshots(seen.snapshots)),
        "requests": list(_get_requests(seen.requests)),
        "events": sorted(_get_events(seen.events)),
        "logs": list(_get_logs(seen.logs)),
        "notes": seen.notes,
    }
    return {aspect: [replace(line) for line in lines] for aspect, lines in aspects.items()}


def _get_calls(journal: Iterable[dict[str, Any]], replace: Callable[[str], str]) -> Iterable[str]:
    """Group the calls: those about changes are compared as they go; others only by being different.

    How often ``on.event`` and timers are called depends on the speed; daemons run in parallel.
    """
    groups: dict[str, list[str]] = {}
    for entry in journal:
        line = replace(_format_call(entry))
        name = entry["kwargs"].get("name") or "-"
        is_callback = entry["handler"].startswith("cb ")
        is_exact = not is_callback and not EXACT.isdisjoint(entry["names"])
        group = f"{name}:" if is_exact else f"{name}: {entry['handler']}:"
        lines = groups.setdefault(group, [])
        if is_exact or line not in lines:
            lines.append(line)
    for group in sorted(groups):
        for line in groups[group]:
            yield f"{group} {line}"


def _format_call(entry: dict[str, Any]) -> str:
    kwargs = dict(entry["kwargs"])
    kwargs.pop("name", None)
    for name in OURS_ONLY:
        kwargs.pop(name, None)
    if "stopped" in kwargs:  # the patches of parallel daemons and timers mix
        kwargs.pop("status", None)
    if isinstance(kwargs.get("status"), dict):  # the touches of the predecessor
        kwargs["status"] = {key: val for key, val in kwargs["status"].items() if key != "kopf"}
    if isinstance(kwargs.get("status"), dict):
        kwargs["status"] = _drop_seen(kwargs["status"])
    if "diff" in kwargs:  # the predecessor's order is arbitrary
        kwargs["diff"] = sorted(kwargs["diff"], key=str)
    for key in ("annotations", "old", "new"):
        if isinstance(kwargs.get(key), dict):
            kwargs[key] = _drop_internal(kwargs[key])
    others = {key: val for key, val in entry.items() if key not in ("handler", "kwargs", "names")}
    names = ",".join(name for name in entry["names"] if name not in OURS_ONLY)
    kwargs_line = json.dumps({**kwargs, **others}, sort_keys=True, ensure_ascii=False)
    return f"{entry['handler']}({names}) {kwargs_line}"


def _drop_internal(annotations: dict[str, Any]) -> dict[str, Any]:
    return {key: val for key, val in annotations.items() if not key.startswith(INTERNAL_PREFIXES)}


def _get_snapshots(snapshots: Iterable[dict[str, Any]]) -> Iterable[str]:
    for number, snapshot in enumerate(snapshots, start=1):
        for name, body in sorted(snapshot.items()):
            cleaned = _clean_body(body)
            for line in json.dumps(cleaned, indent=1, sort_keys=True).splitlines():
                yield f"#{number} {name}: {line}"
        if not snapshot:
            yield f"#{number} no objects"


def _clean_body(body: dict[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in body["metadata"].items() if k not in VARIABLE_METADATA}
    annotations = _drop_seen(metadata.get("annotations") or {})
    for key in TOUCH_KEYS:
        annotations.pop(key, None)
    metadata["annotations"] = annotations
    cleaned = {**body, "metadata": metadata}
    if isinstance(body.get("status"), dict):
        body = {**body, "status": _drop_seen(body["status"])}
        # what remains of the touches in the status
        cleaned["status"] = {key: val for key, val in body["status"].items() if key != "kopf"}
    return cleaned


def _get_requests(requests: Iterable[Request]) -> Iterable[str]:
    """Changing requests by objects: those of different objects go in parallel."""
    groups: dict[str, list[str]] = {}
    for request in requests:
        body = _clean_request(request.body)
        if body == {} or "/events" in request.path:
            continue
        path = "/".join(request.path.split("/")[4:])
        text = json.dumps(body, sort_keys=isinstance(body, dict))
        line = f"{request.method} {path} {request.kind} {text}"
        lines = groups.setdefault(path.removesuffix("/status"), [])
        if lines and lines[-1] == f"{line} -> 422":
            lines.pop()  # a conflict with somebody's change, and the same again: a matter of luck
        lines.append(f"{line} -> {request.status}")
    for group in sorted(groups):
        yield from groups[group]


def _clean_request(body: Any) -> Any:
    if isinstance(body, list):
        return [
            _clean_operation(operation)
            for operation in body
            if not operation["path"].endswith("seen-states")
        ]
    if not isinstance(body, dict):
        return body
    body = _drop_seen(json.loads(json.dumps(body)))
    metadata = body.get("metadata", {})
    metadata.pop("uid", None)  # ours: the precondition against namesakes
    metadata.pop("resourceVersion", None)  # the same for the status as a subresource
    if not metadata:
        body.pop("metadata", None)
    for key in TOUCH_KEYS:
        metadata.get("annotations", {}).pop(key, None)
    if isinstance(body.get("status"), dict):
        body["status"].pop("kopf", None)  # the touches when in the status
    if "annotations" in metadata and not metadata["annotations"]:
        del metadata["annotations"]
    return {key: val for key, val in body.items() if val != {}}


def _drop_seen(value: Any) -> Any:
    """Drop what only ours writes in cycles of several steps: which states the handlers have seen.

    The predecessor ignores it. Where there is nothing else, nothing is left: it is a request on its
    own if a cycle is taken over in the middle, while its handlers wait for their time.
    """
    if not isinstance(value, dict):
        return value
    kept = {key: _drop_seen(val) for key, val in value.items() if not key.endswith("seen-states")}
    return {key: val for key, val in kept.items() if val != {} or value[key] == {}}


def _clean_operation(operation: dict[str, Any]) -> dict[str, Any]:
    is_test = operation["op"] == "test" and operation["path"] == "/metadata/resourceVersion"
    return {**operation, "value": "<version>"} if is_test else operation


def _get_events(events: Iterable[dict[str, Any]]) -> Iterable[str]:
    for event in events:
        fields = ("type", "reason", "action", "reportingComponent", "reportingInstance", "source")
        described = {key: event.get(key) for key in fields}
        involved = {**event["involvedObject"]}
        line = json.dumps({**described, "involved": involved}, sort_keys=True)
        message = event.get("message") or ""
        if " is in progress: " in message:
            message = message.partition(": ")[0]
        # Ours counts the repeated events where it is permitted, instead of adding new ones.
        for _ in range(event.get("count") or 1):
            yield f"{message!r} {line}"


def _get_logs(logs: Iterable[str]) -> Iterable[str]:
    """Distinct lines about each object in the order of their first appearance."""
    groups: dict[str, list[str]] = {}
    for text in logs:
        match = LOG_LINE.match(text)
        if match is None or UNCOMPARED_LOGS.match(match["text"]):
            continue
        is_parallel = match["text"].startswith(("Daemon ", "Timer ", "Indexer "))
        group = f"{match['ref']}{' background' if is_parallel else ''}"
        line = f"[{match['ref']}] {match['level']} {match['text']}"
        lines = groups.setdefault(group, [])
        if line not in lines:
            lines.append(line)
    for group in sorted(groups):
        lines = groups[group]
        yield from sorted(lines) if group.endswith(" background") else lines
