"""Checks of events: of the ones with ``eventTime``, and of all events of the newer API group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kopf_kits.sandbox.base.statuses import Cause
from kopf_kits.sandbox.schemas.names import check_qualified
from kopf_kits.sandbox.schemas.validation import invalid_value

Obj = dict[str, Any]

_NEW_GROUP = "events.k8s.io/v1"
_LIMITS = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
"""The limits are in bytes of UTF-8, though the messages of the server say “characters”."""


def check_event(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    is_new = obj.get("apiVersion") == _NEW_GROUP
    if old is None:
        yield from _check_namespace(obj)
    if is_new and old is None:
        if not obj.get("eventTime"):
            yield _required("eventTime")
        if obj.get("type") not in ("Normal", "Warning"):
            yield invalid_value("type", "", f"has invalid value: {obj.get('type', '')}")
    if obj.get("eventTime") or (is_new and old is None):
        yield from _check_timed(obj, is_new=is_new)


def _check_namespace(obj: Obj) -> Iterator[Cause]:
    involved = (obj.get("involvedObject") or obj.get("regarding") or {}).get("namespace", "")
    namespace = obj["metadata"].get("namespace")
    if obj.get("eventTime"):
        is_fitting = involved or namespace in ("default", "kube-system")
    else:
        is_fitting = (involved or "default") == namespace
    if not is_fitting:
        yield invalid_value("involvedObject.namespace", involved, "does not match event.namespace")


def _check_timed(obj: Obj, *, is_new: bool) -> Iterator[Cause]:
    reporter = "reportingController" if is_new else "reportingComponent"
    if not obj.get(reporter):
        yield _required(reporter)
    yield from check_qualified(obj.get(reporter) or "", reporter)
    for field, limit in _LIMITS.items():
        value = obj.get("note" if is_new and field == "message" else field) or ""
        if not value and field != "message":
            yield _required(field)
        if len(value.encode("utf-8", "surrogatepass")) > limit:
            yield invalid_value(field, "", f"can have at most {limit} characters")


def _required(path: str) -> Cause:
    return Cause("FieldValueRequired", path, "Required value")
