"""Flushing: sends the changes of daemons and timers while they still run."""

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any

from kopf_core.actions.context import Flush, current_invocation, invocation_var, operator_var


class _Sent:
    """An awaitable that is ready at once, as the changes are sent already."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


def flush() -> Awaitable[None]:
    """Send what this daemon or timer has changed so far: the ``patch`` and the ``conditions``.

    Async functions must await it; sync functions just call it. Then, the patch is empty, and
    the arguments show the object as it has become. If the sending fails, no error is raised here:
    Kopf logs it, keeps the changes in the patch, and sends them the next time, or in the end.

    Raises :class:`LookupError` outside of handlers, and :class:`RuntimeError` in other handlers:
    Kopf sends their changes when they return.
    """
    send = current_invocation().flush
    if send is None:
        raise RuntimeError(
            "kopf.flush() is only for daemons and timers: "
            "what other handlers change is sent when they return."
        )
    return _run(send)


def find_unsent() -> Flush | None:
    """The function that sends the changes of the current daemon or timer, if there are any."""
    invocation = invocation_var.get(None)
    if invocation is None or not getattr(invocation.cause, "patch", None):
        return None
    return invocation.flush


def flush_in_thread() -> None:
    """Send the changes of the current sync daemon, if there are any."""
    send = find_unsent()
    if send is not None:
        _run(send)


def _run(send: Flush) -> Awaitable[None]:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        # Its import takes time, and only daemons in threads need it.
        from kopf_core.actions.sync_api import wait_in_thread

        loop = operator_var.get().loop
        assert loop is not None
        wait_in_thread(send, loop)
        return _Sent()
    return send()
