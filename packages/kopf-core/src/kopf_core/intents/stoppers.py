"""Stoppers: how daemons are told to stop, and how they find out.

The framework holds a :class:`DaemonStopper`. A daemon gets a checker of it, for synchronous or
asynchronous code: with a regular or an awaitable ``wait()``.
"""

import enum
from collections.abc import Generator
from typing import Any, Protocol, runtime_checkable

from kopf_cogs.aiokits.latches import Latch
from kopf_core.actions.flushing import find_unsent, flush_in_thread


class DaemonStoppingReason(enum.Flag):
    """Why a daemon is stopped, and how far its stopping has got."""

    DONE = enum.auto()
    """The function has exited by itself."""

    FILTERS_MISMATCH = enum.auto()
    """The filters do not match the object anymore, or its namespace is not served anymore."""

    RESOURCE_DELETED = enum.auto()
    """The object is being deleted, or is gone. It can also have stopped matching a selector of
    ``settings.watching``: API servers report that as a deletion. In case of doubt, look for the
    deletion timestamp, or ask the API.
    """

    OPERATOR_PAUSING = enum.auto()
    """The operator or the object is paused, or another replica handles the object from now on."""

    OPERATOR_EXITING = enum.auto()
    """The operator exits."""

    DAEMON_SIGNALLED = enum.auto()
    """The daemon was asked to exit: by its flag."""

    DAEMON_CANCELLED = enum.auto()
    """The daemon was cancelled."""

    DAEMON_ABANDONED = enum.auto()
    """The daemon has not exited in time; Kopf does not wait for it anymore."""


@runtime_checkable
class DaemonStopped(Protocol):
    """The ``stopped`` argument of daemons: true when the daemon is asked to exit."""

    def __bool__(self) -> bool: ...
    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None, /) -> "DaemonWaiting":
        """Sleep until the daemon must exit, for at most that many seconds. In async functions,
        await it.

        The result is true when the daemon is asked to exit. Sync functions get it from the call,
        async ones from the ``await``.
        """

    @property
    def reason(self) -> DaemonStoppingReason | None: ...


class DaemonWaiting(Protocol):
    """The result of ``stopped.wait()``, for type checkers: either awaitable, or a value."""

    def __bool__(self) -> bool: ...
    def __await__(self) -> Generator[Any, None, DaemonStopped]: ...


class DaemonStopper:
    """The stop-flag of one daemon. The loop sets it; the loop or a thread checks it."""

    __slots__ = ("_latch", "_reason")

    def __init__(self) -> None:
        self._reason: DaemonStoppingReason | None = None
        self._latch = Latch()

    @property
    def sync_checker(self) -> "SyncDaemonStopperChecker":
        return SyncDaemonStopperChecker(self, self._latch)

    @property
    def async_checker(self) -> "AsyncDaemonStopperChecker":
        return AsyncDaemonStopperChecker(self, self._latch)

    @property
    def reason(self) -> DaemonStoppingReason | None:
        return self._reason

    def is_set(self, reason: DaemonStoppingReason | None = None) -> bool:
        """Whether the stopping is requested; or requested for this reason, if it is given."""
        if reason is None or self._reason is None:
            return self._reason is not None
        return reason in self._reason

    def set(self, reason: DaemonStoppingReason) -> None:
        """Request the stopping, or add one more reason to it. Only the loop's thread may call
        it.
        """
        self._reason = reason if self._reason is None else self._reason | reason
        self._latch.set()


class _Checker:
    __slots__ = ("_latch", "_stopper")

    def __init__(self, stopper: DaemonStopper, latch: Latch) -> None:
        self._stopper = stopper
        self._latch = latch

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._stopper.is_set()}, reason={self.reason}>"

    def __bool__(self) -> bool:
        return self._stopper.is_set()

    def is_set(self) -> bool:
        """Whether the daemon is asked to exit."""
        return self._stopper.is_set()

    @property
    def reason(self) -> DaemonStoppingReason | None:
        """Why the daemon is asked to exit, or ``None`` if it is not."""
        return self._stopper.reason


class SyncDaemonStopperChecker(_Checker):
    """The stop-flag for synchronous daemons, which run in threads."""

    __slots__ = ()

    def wait(self, timeout: float | None = None) -> "SyncDaemonStopperChecker":
        """Sleep for ``timeout`` seconds, or less if the daemon is asked to exit.

        Kopf first sends the changes of the daemon, as :func:`kopf.flush` does.
        """
        if not self:
            flush_in_thread()
        self._latch.wait_in_thread(timeout)
        return self


class AsyncDaemonStopperChecker(_Checker):
    """The stop-flag for asynchronous daemons, which run in the operator's loop."""

    __slots__ = ()

    def wait(self, timeout: float | None = None) -> "AwaitableWait":
        """Sleep (with ``await``) for ``timeout`` seconds, or less if the daemon is to exit.

        Kopf first sends the changes of the daemon, as :func:`kopf.flush` does.
        """
        return AwaitableWait(self, self._latch, timeout)


class AwaitableWait:
    """A wait that starts when it is awaited, and returns the checker."""

    __slots__ = ("_checker", "_latch", "_timeout")

    def __init__(
        self, checker: AsyncDaemonStopperChecker, latch: Latch, timeout: float | None
    ) -> None:
        self._checker = checker
        self._latch = latch
        self._timeout = timeout

    def __await__(self) -> Generator[Any, None, AsyncDaemonStopperChecker]:
        send = None if self._checker else find_unsent()
        if send is not None:
            yield from send().__await__()
        yield from self._latch.wait_in_loop(self._timeout).__await__()
        return self._checker

    def __bool__(self) -> bool:
        raise TypeError("stopped.wait() must be awaited in asynchronous daemons.")


AnyStopperChecker = SyncDaemonStopperChecker | AsyncDaemonStopperChecker
