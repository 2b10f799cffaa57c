"""Ceremonies: the handlers of the startup and the cleanup, which are called once for a process."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from kopf_core.engines.activities import ActivityRunner
from kopf_core.intents.causes import Activity
from kopf_core.intents.handlers import DaemonHandler
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.life.exiting import Exit

logger = logging.getLogger("kopf._core.reactor.running")

INTERRUPTION_TIMEOUT = 1.0
"""How long (in seconds) to wait for the interrupted handlers of startup and cleanup."""


class Ceremonies:
    """Calls the handlers of the startup and the cleanup within the time of the exit."""

    def __init__(self, registry: OperatorRegistry, activities: ActivityRunner, exit: Exit) -> None:
        self._registry = registry
        self._activities = activities
        self._exit = exit

    async def start_up(self, *stoppers: Coroutine[Any, Any, Any]) -> bool:
        """Run the startup handlers; return false if any of the stoppers ends meanwhile."""
        return await self._run(Activity.STARTUP, self._exit.requested.wait(), *stoppers)

    async def clean_up(self) -> None:
        """Wait for threads, and run the cleanup handlers, while there is time."""
        exit = self._exit
        await exit.wait_for(self._has_no_threads, exit.get_left_for_work)
        is_over = exit.wait_for(lambda: False, exit.get_left)
        if not await self._run(Activity.CLEANUP, is_over):
            exit.note_unfinished("the cleanup activity")
        await exit.wait_for(self._has_no_threads, exit.get_left)

    def _has_no_threads(self) -> bool:
        """Whether all calls have ended, except for daemons: those have had their time already."""
        return all(isinstance(call.handler, DaemonHandler) for call in self._activities.ongoing)

    async def _run(self, activity: Activity, *stoppers: Coroutine[Any, Any, Any]) -> bool:
        """Run the activity until any of the stoppers ends; return whether it is complete."""
        handlers = self._registry.get_activity_handlers(activity)
        running = asyncio.create_task(
            self._activities.run(activity, handlers, get_left=self._exit.get_left)
        )
        tasks = [running, *map(asyncio.ensure_future, stoppers)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done() and task is not running:
                    task.result()  # e.g. raise the error of the login
            if not running.done():
                logger.warning(
                    f"The {activity.value} activity is interrupted: the operator is stopping."
                )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=INTERRUPTION_TIMEOUT)
        if not running.done() or running.cancelled():
            return False
        running.result()
        return True
