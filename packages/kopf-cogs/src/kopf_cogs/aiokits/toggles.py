"""
Toggles: booleans that can be awaited, alone or combined with others.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any


class _Awaitable:
    """A boolean state with those who wait for it; it costs nothing while nobody does."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        super().__init__()
        self._waiters: list[tuple[bool, asyncio.Future[None]]] = []

    def is_on(self) -> bool:
        raise NotImplementedError

    def is_off(self) -> bool:
        return not self.is_on()

    def __bool__(self) -> bool:
        # A plain truth check is most probably a forgotten call.
        raise NotImplementedError("Use .is_on() or .is_off().")

    async def wait_for(self, state: bool) -> None:
        """Wait until the state is as requested; it can change again before the waiter runs."""
        while self.is_on() != state:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiter = (state, future)
            self._waiters.append(waiter)
            try:
                await future
            finally:
                with contextlib.suppress(ValueError):
                    self._waiters.remove(waiter)

    def _notify(self) -> None:
        state = self.is_on()
        for expected, future in self._waiters:
            if expected == state and not future.done():
                future.set_result(None)


class Toggle(_Awaitable):
    """A boolean switch. Not thread-safe: to be used in one event loop."""

    __slots__ = ("_listener", "_state", "name")

    def __init__(
        self,
        state: bool = False,
        /,
        *,
        name: str | None = None,
        listener: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self._state = bool(state)
        self._listener = listener

    def __repr__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        return f"<{type(self).__name__}: {name}{'on' if self._state else 'off'}>"

    def is_on(self) -> bool:
        return self._state

    def turn_to(self, state: bool) -> None:
        """Switch to the state, and wake up those who wait for it."""
        if self._state != bool(state):
            self._state = bool(state)
            self._notify()
            if self._listener is not None:
                self._listener()

    def unlink(self) -> None:
        """Stop reporting the changes to the set it was made by."""
        self._listener = None


class ToggleSet(_Awaitable, Collection[Toggle]):
    """
    Several toggles seen as one: on if ``any`` or ``all`` of them are on, as ``fn`` says.

    A set with no toggles is as the function says of nothing: ``any`` is off, ``all`` is on.
    The state is counted, not walked over: it costs the same with 10 and with 10,000 toggles.
    """

    __slots__ = ("_all", "_on", "_state", "_toggles")

    def __init__(self, fn: Callable[[Iterable[Any]], bool]) -> None:
        super().__init__()
        if fn not in (any, all):
            raise ValueError("Only any() and all() are supported.")
        self._all = fn is all
        self._on: set[Toggle] = set()
        self._toggles: set[Toggle] = set()
        self._state = self.is_on()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self._on)}/{len(self._toggles)} on>"

    def __len__(self) -> int:
        return len(self._toggles)

    def __iter__(self) -> Iterator[Toggle]:
        return iter(self._toggles)

    def __contains__(self, toggle: object) -> bool:
        return toggle in self._toggles

    def is_on(self) -> bool:
        return len(self._on) == len(self._toggles) if self._all else bool(self._on)

    def make_toggle(self, state: bool = False, /, *, name: str | None = None) -> Toggle:
        """Add a new toggle to the set."""
        toggle = Toggle(state, name=name, listener=lambda: self._recount(toggle))
        self._toggles.add(toggle)
        self._recount(toggle)
        return toggle

    def drop_toggle(self, toggle: Toggle) -> None:
        """Exclude the toggle from the set. It is not an error if it is not there."""
        toggle.unlink()
        self._toggles.discard(toggle)
        self._on.discard(toggle)
        self._refresh()

    def drop_toggles(self, toggles: Iterable[Toggle]) -> None:
        for toggle in list(toggles):
            self.drop_toggle(toggle)

    def _recount(self, toggle: Toggle) -> None:
        if toggle.is_on():
            self._on.add(toggle)
        else:
            self._on.discard(toggle)
        self._refresh()

    def _refresh(self) -> None:
        state = self.is_on()
        if state != self._state:
            self._state = state
            self._notify()
