"""Keepers: each of them serves one of several clusters, and serves it again after failures."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kopf_cogs.clients.retries import Backoff
from kopf_core.actions.retrying import describe
from kopf_core.reactor.life.clusters import Cluster
from kopf_core.reactor.life.essentials import OperatorOptions
from kopf_core.reactor.life.exiting import AbandonedError, Exit, WishedExit
from kopf_core.reactor.life.operator import Operator
from kopf_core.reactor.process.supervising import supervise

if TYPE_CHECKING:
    from kopf_core.engines.serving import StatusSource
    from kopf_core.engines.serving.metrics import Metrics

logger = logging.getLogger("kopf.clusters")

RESTARTING = 1.0
"""How long (in seconds) until a failed operator is started again; then, twice as long each time."""

HEALTHY = 60.0
"""After so many seconds of its life, the next restart of an operator is as the first one."""


class ClusterKeeper:
    """Runs the operator of one cluster for as long as the cluster is wanted.

    If the operator fails, the keeper starts it again.
    """

    def __init__(
        self,
        cluster: Cluster,
        make_options: "Callable[[Cluster, ClusterKeeper], OperatorOptions]",
        exit: Exit,
    ) -> None:
        self._cluster: Cluster | None = cluster
        self._make_options = make_options
        self._exit = exit
        self._operator: Operator | None = None
        self._changed = asyncio.Event()
        self.status: StatusSource | None = None
        self.metrics: Metrics | None = None

    def want(self, cluster: Cluster | None) -> None:
        """Serve this cluster from now on; ``None`` if it is not wanted anymore."""
        is_same, self._cluster = cluster == self._cluster, cluster
        if not is_same:
            self._changed.set()
            if self._operator is not None:
                self._operator.stop()

    def abort(self) -> None:
        if self._operator is not None:
            self._operator.abort()

    def describe(self) -> list[str]:
        """Name the running calls of handlers."""
        return [] if self._operator is None else self._operator.essentials.ongoing.describe()

    def show(self, status: "StatusSource", metrics: "Metrics | None") -> None:
        """Take what the operator shows of itself."""
        self.status, self.metrics = status, metrics

    async def run(self) -> None:
        """Keep the cluster served until it is not wanted anymore."""
        backoff, clock = Backoff(RESTARTING), asyncio.get_running_loop().time
        while (cluster := self._cluster) is not None:
            self._changed.clear()
            started = clock()
            logger.info(f"Cluster {cluster} is served from now on.")
            error = await self._live(cluster)
            if clock() - started >= HEALTHY:
                backoff.reset()
            if self._changed.is_set():
                logger.info(f"Cluster {cluster} is not served anymore.")
                continue
            delay = backoff.advance()
            logger.warning(
                f"Cluster {cluster} is not served: {error}. "
                f"The others are. It is tried again in {delay:.0f} seconds."
            )
            await self._wait(delay)

    async def _live(self, cluster: Cluster) -> str:
        """Run the operator once; return the reason of its end."""
        try:
            self._operator = Operator(self._make_options(cluster, self))
            await supervise(self._operator)
        except WishedExit:
            assert self._operator is not None
            self._exit.wish = self._operator.exit.wish
            self._exit.request()
            self.want(None)
        except AbandonedError as e:
            logger.error(f"Cluster {cluster}: {e}")
            if self._exit.requested.is_set():
                self._exit.note_unfinished(f"the handlers of cluster {cluster}")
            return "its handlers do not end"
        except Exception as e:
            return describe(e).rstrip(".")
        finally:
            self._operator = self.status = self.metrics = None
        return "it has ended"

    async def _wait(self, seconds: float) -> None:
        """Wait, or until something else is wanted."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
