"""Waiting for states of objects: for tests, instead of looking again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .schemas.jsonpaths import check_path, compile_path
from .store.resources import Endpoint
from .store.storage import Key, Watcher

Obj = dict[str, Any]
Check = Callable[[Obj], Any]

ANY: Any = object()
"""Any value, if it exists."""


class NotHappenedError(TimeoutError):
    """The object is not in the expected state; the text tells its state."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The check that an object must pass; and the explanation for the error, if it is known."""

    check: Check
    explain: Callable[[Obj], str]


def make_expectation(
    check: Check | None, *, condition: str | None, jsonpath: str | None, value: Any
) -> Expectation:
    """One expectation of all the given ones; with none of them, the object must only exist."""
    parts = []
    if check is not None:
        parts.append(Expectation(check, lambda obj: "the check does not pass"))
    if condition is not None:
        type, _, status = condition.partition("=")
        parts.append(_expect_condition(type, status or "True"))
    if jsonpath is not None:
        parts.append(_expect_value(jsonpath, value))

    def explain(obj: Obj) -> str:
        return "; ".join(part.explain(obj) for part in parts if not part.check(obj))

    return Expectation(lambda obj: all(part.check(obj) for part in parts), explain)


def _expect_condition(type: str, status: str) -> Expectation:
    def find(obj: Obj) -> list[Any]:
        conditions = (obj.get("status") or {}).get("conditions") or ()
        return [c.get("status") for c in conditions if c.get("type") == type]

    def explain(obj: Obj) -> str:
        return f"the condition {type!r} is {_describe(find(obj))}, wanted {_describe([status])}"

    return Expectation(lambda obj: status in find(obj), explain)


def _expect_value(jsonpath: str, value: Any) -> Expectation:
    check_path(jsonpath)
    find = compile_path(jsonpath)

    def explain(obj: Obj) -> str:
        wanted = "anything" if value is ANY else _describe([value])
        return f"{jsonpath} is {_describe(find(obj))}, wanted {wanted}"

    return Expectation(lambda obj: bool(find(obj)) if value is ANY else value in find(obj), explain)


def _describe(values: list[Any]) -> str:
    """The values with their types: it is easy to take a number for a text."""
    return ", ".join(f"{value!r} ({type(value).__name__})" for value in values) or "absent"


async def wait_for(
    endpoint: Endpoint, key: Key, expectation: Expectation, *, gone: bool, timeout: float
) -> Obj | None:
    """Wait until the object passes the check, or is gone; get the object as it is served."""
    store, watcher = endpoint.resource.store, Watcher(key[0] or None)
    store.watchers[watcher] = None
    try:
        async with asyncio.timeout(timeout):
            while True:
                watcher.queue.clear()
                watcher.wake.clear()
                stored = store.get(key)
                if stored is None and gone:
                    return None
                if stored is not None and not gone:
                    obj: Obj = endpoint.encode(stored.obj)
                    if expectation.check(obj):
                        return obj
                await watcher.wake.wait()
    except TimeoutError:
        stored = store.get(key)
        found: Obj | None = None if stored is None else endpoint.encode(stored.obj)
        name = "/".join(part for part in key if part)
        raise NotHappenedError(
            f"{endpoint.resource.qualified} {name} is not as expected in {timeout:g} s: "
            f"{_explain_state(found, expectation, gone)}"
        ) from None
    finally:
        store.watchers.pop(watcher, None)


def _explain_state(obj: Obj | None, expectation: Expectation, gone: bool) -> str:
    if obj is None:
        return "it does not exist"
    reason = "it is still there" if gone else expectation.explain(obj)
    return f"{reason}; it is {obj}" if reason else f"it is {obj}"
