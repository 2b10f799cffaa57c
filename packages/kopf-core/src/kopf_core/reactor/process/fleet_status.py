"""The status of several clusters as one: probes, metrics, and the page."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.helpers.versions import get_version
from kopf_core.engines.serving.joint_snapshots import join_clusters
from kopf_core.engines.serving.snapshots import Snapshot
from kopf_core.reactor.process.keepers import ClusterKeeper

if TYPE_CHECKING:
    from kopf_core.engines.serving.endpoint import Exposition

LABEL = "cluster"


class FleetStatus:
    """Joins the snapshots of all clusters.

    The probes fail only if they fail for all clusters. Otherwise, one cluster that is down would
    restart the process, and the others would not be served.
    """

    def __init__(self, clock: Clock, keepers: Mapping[str, ClusterKeeper]) -> None:
        self._clock = clock
        self._keepers = keepers
        self._started = clock.monotonic()

    def take(self) -> Snapshot:
        """Take the snapshot; it can be a second old."""
        empty = Snapshot(
            version=str(get_version()),
            uptime=self._clock.monotonic() - self._started,
            time=self._clock.now().isoformat(timespec="seconds"),
            unready=(),
            problems=(),
            is_paused=False,
        )
        return join_clusters(empty, self._take_all())

    def look(self) -> None:
        """Let all clusters note the facts that can only be noted regularly."""
        for keeper in self._keepers.values():
            if keeper.status is not None:
                keeper.status.look()

    def find_unready(self) -> Iterable[str]:
        """The obstacles to the readiness, if no cluster is ready."""
        return self._collect(
            lambda keeper: ["not served"] if keeper.status is None else keeper.status.find_unready()
        )

    def find_problems(self) -> Collection[str]:
        """The problems of the clusters, if all of them have problems."""
        return self._collect(
            lambda keeper: () if keeper.status is None else keeper.status.take().problems
        )

    def make_exposition(self) -> "Exposition | None":
        """The function that exposes the metrics; ``None`` if the library is not installed."""
        from kopf_core.engines.serving import metrics

        if metrics.make_metrics(()) is None:
            return None

        def expose(snapshot: Snapshot, accept: str) -> tuple[bytes, str]:
            families = [
                metrics.add_label(
                    one.metrics.gather(replace(one.status.take(), loop_lag=snapshot.loop_lag)),
                    LABEL,
                    name,
                )
                for name, one in self._keepers.items()
                if one.metrics is not None and one.status is not None
            ]
            joint = metrics.join_families(chain.from_iterable(families))
            return metrics.encode(metrics.make_registry(joint), accept)

        return expose

    def _take_all(self) -> dict[str, Snapshot | None]:
        keepers = self._keepers.items()
        return {name: None if one.status is None else one.status.take() for name, one in keepers}

    def _collect(self, find: Callable[[ClusterKeeper], Iterable[str]]) -> list[str]:
        found = {name: [*find(keeper)] for name, keeper in self._keepers.items()}
        if not all(found.values()):
            return []
        return [f"cluster {name}: {text}" for name, texts in found.items() for text in texts]
