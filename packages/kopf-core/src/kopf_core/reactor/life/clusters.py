"""Clusters: the names of several clusters for one process, and how to log in to each of them."""

import pathlib
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kopf_cogs.clients.kubeconfig import (
    explain_absence,
    find_files,
    find_target,
    read_kubeconfig,
)
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.credentials import ConnectionInfo, LoginError
from kopf_cogs.structs.ids import HandlerId
from kopf_core.intents.causes import Activity
from kopf_core.intents.handlers import ActivityHandler
from kopf_core.intents.registries import OperatorRegistry

if TYPE_CHECKING:
    from kopf_core.engines.serving import StatusSource
    from kopf_core.engines.serving.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Cluster:
    """One of several clusters, which one process serves.

    Two clusters are the same if they have the same name, kubeconfig, and context. The function of
    the login is not compared.
    """

    name: str
    """The name in logs, metrics, and in the argument ``cluster`` of handlers."""

    kubeconfig: str | pathlib.Path | None = None
    """The path of the kubeconfig; by default, the usual files are used."""

    context: str | None = None
    """The context of the kubeconfig.

    By default, it is the context with the name of the cluster in the usual files. In a file of
    its own, it is the current context.
    """

    login: Callable[..., Any] | None = field(default=None, compare=False)
    """The function of the login, as with ``@kopf.on.login()``. It is used instead of all others."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"The name of a cluster is a text, not {self.name!r}.")

    def __str__(self) -> str:
        return self.name

    def check(self) -> None:
        """Raise :class:`LoginError` if there is no such context in the usual files."""
        if self.login is None and self.kubeconfig is None:
            find_target(self.context or self.name)

    def choose_login(self, registry: OperatorRegistry) -> ActivityHandler | None:
        """The login handler of this cluster; ``None`` to use the login handlers of the registry."""
        is_described = self.kubeconfig is not None or self.context is not None
        if self.login is not None:
            fn = self.login
        elif not is_described and registry.get_activity_handlers(Activity.AUTHENTICATION):
            return None
        else:
            fn = partial(_log_in, self)
        id = HandlerId(getattr(fn, "__name__", "login_with_kubeconfig"))
        return ActivityHandler(fn=fn, id=id, activity=Activity.AUTHENTICATION)


def _log_in(cluster: Cluster, /, *, settings: OperatorSettings, **_: Any) -> ConnectionInfo:
    is_usual = cluster.kubeconfig is None
    paths = find_files() if cluster.kubeconfig is None else [pathlib.Path(cluster.kubeconfig)]
    if not paths:
        raise LoginError(f"There is no kubeconfig: {explain_absence()}.")
    return read_kubeconfig(
        paths,
        context=cluster.context or (cluster.name if is_usual else None),
        trust_env=settings.networking.trust_env,
        plugin_timeout=settings.networking.plugin_timeout,
    )


Clusters: TypeAlias = Collection[str | Cluster]
"""Several clusters, or their names, which are contexts of the kubeconfig."""

Provider: TypeAlias = Callable[..., AsyncIterator[Clusters]]
"""An asynchronous generator: each time, it yields all clusters to serve now."""


class Host(Protocol):
    """The part that serves the endpoints for several operators of one process."""

    def show(self, status: "StatusSource", metrics: "Metrics | None") -> None:
        """Show the status and the metrics of this operator from now on."""


def parse_clusters(clusters: Clusters) -> dict[str, Cluster]:
    """The clusters by their names. Raises :class:`TypeError` if some names are the same."""
    if isinstance(clusters, str):
        raise TypeError(f"Several clusters are needed, not one name: {clusters!r}.")
    parsed = [one if isinstance(one, Cluster) else Cluster(one) for one in clusters]
    by_names = {one.name: one for one in parsed}
    if len(by_names) != len(parsed):
        names = sorted(one.name for one in parsed)
        raise TypeError(f"The names of clusters must differ; they are: {', '.join(names)}.")
    return by_names
