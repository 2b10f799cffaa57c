"""What generated operators import: the notes of what their handlers do.

It is copied next to the operator. It needs nothing but Python, as any operator can use it.

Each note is one line of JSON, which is surely on the disk before the handler goes further.
After that, it is told to the driver, and the driver can hold the handler as long as it wants.
"""

import asyncio
import functools
import gc
import inspect
import json
import os
import pathlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

_FILE = pathlib.Path(os.environ["CHAOS_NOTES"])
_DRIVER = os.environ["CHAOS_DRIVER"]


def note(point: str, **details: Any) -> None:
    """Write the note, and wait until the driver agrees."""
    line = json.dumps({"point": point, "pid": os.getpid(), "at": time.monotonic(), **details})
    with _FILE.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())
    host, port = _DRIVER.split(":")
    try:
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(line.encode() + b"\n")
            connection.recv(1)
    except OSError:
        pass  # the driver has gone already


def noted(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Note when the handler begins, what it sees, and how it ends."""

    @functools.wraps(fn)
    def sync(**kwargs: Any) -> Any:
        note("begin", **_describe(fn, kwargs))
        try:
            result = fn(**kwargs)
        except BaseException as e:
            note("end", outcome=type(e).__name__, **_describe(fn, kwargs))
            raise
        note("end", outcome="success", **_describe(fn, kwargs))
        return result

    @functools.wraps(fn)
    async def coro(**kwargs: Any) -> Any:
        await asyncio.to_thread(note, "begin", **_describe(fn, kwargs))
        try:
            result = await fn(**kwargs)
        except BaseException as e:
            await asyncio.to_thread(note, "end", outcome=type(e).__name__, **_describe(fn, kwargs))
            raise
        await asyncio.to_thread(note, "end", outcome="success", **_describe(fn, kwargs))
        return result

    return coro if inspect.iscoroutinefunction(fn) else sync


def count() -> dict[str, int]:
    """What the operator consists of at the moment; to be called in its event loop."""
    gc.collect()
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return {
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "objects": len(gc.get_objects()),
        "memory": pages * os.sysconf("SC_PAGE_SIZE") // 1024,
    }


def _describe(fn: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    diff = kwargs.get("diff")
    return {
        "handler": fn.__name__,
        "uid": kwargs["body"]["metadata"].get("uid"),
        "name": kwargs["body"]["metadata"].get("name"),
        "version": kwargs["body"]["metadata"].get("resourceVersion"),
        "spec": dict(kwargs["body"].get("spec") or {}),
        "reason": None if kwargs.get("reason") is None else str(kwargs["reason"]),
        "diff": None if diff is None else [list(map(str, item)) for item in diff],
        "retry": kwargs.get("retry"),
    }
