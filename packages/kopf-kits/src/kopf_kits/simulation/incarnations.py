"""Incarnations: the processes of a simulated world, all of them in one real process.

Every callback of the event loop carries its incarnation in its context. So a crash is simple:
all callbacks of the dead incarnation are skipped from then on.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

from kopf_cogs.aiokits.surroundings import Surroundings, surroundings_var

incarnation_var: contextvars.ContextVar[Incarnation | None] = contextvars.ContextVar(
    "incarnation_var", default=None
)
"""The owner of the callback that the loop executes now; none for the world itself."""


class Incarnation:
    """One run of one program: from its start to its exit or its crash.

    ``crash_at`` is the number of the callback before which it crashes; it never does by default.
    """

    def __init__(
        self,
        name: str,
        surroundings: Surroundings | None = None,
        *,
        crash_at: int | None = None,
    ) -> None:
        self.name = name
        self.surroundings = surroundings
        """The clock, the threads, and the chance; by default, the ones of the real process."""

        self.crash_at = crash_at
        self.steps = 0
        """How many callbacks have been executed."""

        self.is_dead = False
        self.on_death: list[Callable[[], None]] = []
        """The reactions of the world to the crash; e.g. the network resets its connections."""

        self.remains: list[object] = []
        """The objects to keep until the end of the life, or their ``finally`` blocks would run."""

        self._parked: list[asyncio.Handle] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}>"

    @property
    def is_suspended(self) -> bool:
        return self._parked is not None

    def admit(self, handle: asyncio.Handle) -> bool:
        """Whether the loop may execute the callback now; it is skipped or put off otherwise."""
        if self.is_dead:
            self.remains.append(handle)
            return False
        if self._parked is not None:
            self._parked.append(handle)
            return False
        self.steps += 1
        if self.steps == self.crash_at:
            self.crash()
            self.remains.append(handle)
            return False
        return True

    def crash(self) -> None:
        """Execute no callbacks of the program from now on. It gets no notice, as with SIGKILL."""
        if not self.is_dead:
            self.is_dead = True
            self.remains.extend(self._parked or ())
            self._parked = None
            for react in self.on_death:
                react()

    def suspend(self) -> None:
        """Put off all callbacks until `resume()`, as with SIGSTOP. The clock goes on."""
        if self._parked is None and not self.is_dead:
            self._parked = []

    def resume(self, schedule: Callable[[asyncio.Handle], None]) -> None:
        """Schedule the callbacks that were put off, in the same order."""
        parked, self._parked = self._parked or [], None
        for handle in parked:
            schedule(handle)

    def start(self, program: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run the program in this incarnation; everything that it starts belongs to it, too."""
        context = contextvars.copy_context()
        context.run(incarnation_var.set, self)
        context.run(surroundings_var.set, self.surroundings)
        task = context.run(asyncio.get_running_loop().create_task, program, name=self.name)
        self.remains.append(task)
        return task
