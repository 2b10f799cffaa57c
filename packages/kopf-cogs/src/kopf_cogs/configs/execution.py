"""Settings of the execution of handlers, and the threads in which the sync ones run."""

import concurrent.futures
import copy
import dataclasses
from collections.abc import Callable
from typing import Self

from kopf_cogs.aiokits.pools import DaemonPool
from kopf_cogs.aiokits.surroundings import get_threads
from kopf_cogs.configs.checks import Seconds, SettingError, SettingsGroup

HANDLER_THREADS = "kopf-handler"
"""How the names of the threads of sync handlers begin."""


@dataclasses.dataclass(repr=False, eq=False)
class ExecutionSettings(SettingsGroup):
    """Settings of how handlers are called."""

    default_backoff: Seconds | Callable[[int], float] = 60
    """The delay (in seconds) before retrying after arbitrary errors.

    Or a function of the number of the failed attempt, counting from zero.
    """

    attempt_timeout: Seconds | None = None
    """The time (in seconds) for one attempt of any handler, and for one pass of a reconciler.

    Asynchronous functions are cancelled then, and retried as after other errors. Threads cannot
    be interrupted: Kopf names them in the log, and waits for them. Daemons are not limited.
    """

    honor_pauses: bool = False
    """Whether to handle nothing for the objects with the annotation ``kopf.zalando.org/paused``.

    Then, any user who may patch an object may pause it. Deletions are handled anyway.
    """

    _is_customized: bool = dataclasses.field(default=False, init=False, repr=False)
    """Whether the executor or its limit were set, instead of the defaults being used."""

    _is_foreign: bool = dataclasses.field(default=False, init=False, repr=False)
    _executor: concurrent.futures.Executor | None = dataclasses.field(default=None, repr=False)
    _max_workers: int | None = dataclasses.field(default=None, repr=False)

    @property
    def executor(self) -> concurrent.futures.Executor:
        """The executor for sync handlers; by default, a thread pool made on the first use."""
        if self._executor is None:
            self._executor = get_threads().make_pool(self._max_workers, name=HANDLER_THREADS)
        return self._executor

    @executor.setter
    def executor(self, value: concurrent.futures.Executor) -> None:
        self._executor = value
        self._is_foreign = value is not None
        self._is_customized = True

    def share(self) -> Self:
        """A copy with the same executor, which only the original closes."""
        mine = copy.copy(self)
        mine._executor, mine._is_foreign = self.executor, True
        return mine

    def close(self) -> None:
        """Let the idle threads end, unless the executor belongs to the application."""
        if self._executor is not None and not self._is_foreign:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None

    @property
    def is_customized(self) -> bool:
        """Whether the executor or its size were chosen by the application."""
        return self._is_customized

    @property
    def max_workers(self) -> int | None:
        """How many sync handlers run simultaneously; ``None`` is the default of Python."""
        return self._max_workers

    @max_workers.setter
    def max_workers(self, value: int) -> None:
        if not isinstance(value, int) or value < 1:
            raise SettingError(
                f"settings.execution.max_workers must be an integer, at least 1, not {value!r}."
            )
        self._max_workers = value
        self._is_customized = True
        # There is no official way to change a running pool of the standard library. In CPython, it
        # reads the limit every time when it needs a thread. Elsewhere, the pool remains as it was.
        if isinstance(self._executor, DaemonPool):
            self._executor.max_workers = value
        elif isinstance(self._executor, concurrent.futures.ThreadPoolExecutor):
            self._executor._max_workers = value
