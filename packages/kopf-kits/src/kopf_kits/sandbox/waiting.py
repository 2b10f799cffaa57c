"""Waiting for states of objects: for tests, instead of looking again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .schemas.jsonpaths import compile_path
from .store.resources import Endpoint
from .store.storage import Key, Watcher

Obj = dict[str, Any]
Check = Callable[[Obj], Any]

ANY: Any = object()
"""Whatever the value is, but it is there."""


class NotHappenedError(TimeoutError):
    """The object is not as it was waited for; the text tells what it is."""


def make_check(
    check: Check | None, *, condition: str | None, jsonpath: str | None, value: Any
) -> Check:
    """One check made of all that is specified: with nothing, it is that the object exists."""
    checks: list[Check] = [] if check is None else [check]
    if condition is not None:
        type, _, status = condition.partition("=")
        checks.append(_make_condition_check(type, status or "True"))
    if jsonpath is not None:
        find = compile_path(jsonpath)
        checks.append(lambda obj: _is_there(find(obj), value))
    return lambda obj: all(one(obj) for one in checks)


def _make_condition_check(type: str, status: str) -> Check:
    def check(obj: Obj) -> bool:
        conditions = (obj.get("status") or {}).get("conditions") or ()
        return any(c.get("type") == type and c.get("status") == status for c in conditions)

    return check


def _is_there(found: list[Any], value: Any) -> bool:
    return bool(found) if value is ANY else value in found


async def wait_for(
    endpoint: Endpoint, key: Key, check: Check, *, gone: bool, timeout: float
) -> Obj | None:
    """Wait until the object passes the check, or is gone; get it as it is stored."""
    store, watcher = endpoint.resource.store, Watcher(key[0] or None)
    store.watchers.add(watcher)
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
                    if check(obj):
                        return obj
                await watcher.wake.wait()
    except TimeoutError:
        stored = store.get(key)
        state = "it does not exist" if stored is None else f"it is {endpoint.encode(stored.obj)}"
        name = "/".join(part for part in key if part)
        raise NotHappenedError(
            f"{endpoint.resource.qualified} {name} is not as expected in {timeout:g} s: {state}"
        ) from None
    finally:
        store.watchers.discard(watcher)
