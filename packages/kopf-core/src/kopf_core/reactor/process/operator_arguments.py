"""The arguments of an operator, as applications give them; and the options chosen by them."""

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Collection
from typing import Any, TypedDict

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.aiokits.flags import Flag
from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.memos import AnyMemo
from kopf_cogs.structs.namespaces import NamespacePattern
from kopf_core.actions.lifecycles import Lifecycle
from kopf_core.engines.sharding.shares import Supervision
from kopf_core.intents.indices import Indices
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.life.clusters import Clusters, Provider, parse_clusters
from kopf_core.reactor.life.essentials import OperatorOptions
from kopf_core.reactor.life.once import Once


class OperatorArguments(TypedDict, total=False):
    """The arguments of :func:`operator`; all of them are optional."""

    lifecycle: Lifecycle | None
    """The order of the handlers; ``asap`` by default."""

    registry: OperatorRegistry | None
    """The handlers; by default, the ones of the decorators that name no other registry."""

    settings: OperatorSettings | None
    """The initial settings; startup handlers can change them."""

    memo: AnyMemo | None
    """The operator's memo, from which the memos of objects are copied."""

    vault: Vault | None
    """The credentials, if the application has them; the login handlers are called otherwise."""

    clusters: Clusters | Provider | None
    """Several clusters to serve, or a function that provides them; by default, there is one.

    The names are contexts of the kubeconfig. :class:`kopf.Cluster` describes other clusters.
    """

    clusterwide: bool
    """Whether to serve all namespaces by one stream for a resource."""

    namespaces: Collection[NamespacePattern]
    """Names or patterns of the namespaces to serve. Not together with ``clusterwide``."""

    namespace_selector: str | None
    """The label selector of the namespaces to serve: ``settings.scanning.namespace_selector``."""

    namespace: NamespacePattern | None
    """The namespace: a deprecated form of ``namespaces``, and not together with it."""

    standalone: bool | None
    """Whether to ignore all other operators: ``settings.peering.standalone``."""

    priority: int | None
    """The priority among other operators: ``settings.peering.priority``."""

    peering_name: str | None
    """The name of the peering object, which must exist then: ``settings.peering.name``."""

    lease: str | None
    """The Lease for the election of one leader: ``NAME`` or ``NAME@NAMESPACE``."""

    shards: str | None
    """The Leases by which replicas share the objects: ``NAME`` or ``NAME@NAMESPACE``."""

    qps: float | None
    """The number of requests per second: ``settings.networking.qps``."""

    burst: int | None
    """The number of requests at once after a quiet time: ``settings.networking.burst``."""

    ring: str | None
    """The ``ControllerRing`` to be a shard of: ``NAME``, or ``NAME@NAMESPACE`` of the Lease."""

    liveness_endpoint: str | None
    """Where to serve the probes, e.g. ``http://0.0.0.0:8080/healthz``."""

    serving_endpoint: str | None
    """Where to serve the probes & metrics: ``settings.serving.endpoint``."""

    status_endpoint: str | None
    """Where to serve the status: ``settings.serving.status``."""

    stop_flag: Flag | None
    """Stops the operator when it is set: an event or a future, of asyncio or of threads."""

    ready_flag: Flag | None
    """Is set by the operator when its startup handlers have succeeded."""

    once: Once | None
    """Whether to exit when nothing is left to do; the results of the run are stored there."""

    assigner: Supervision | None
    """The part that chooses the objects for this process, if other processes handle the rest."""

    identity: str | None
    """The key of this operator in the peering object; unique for each run by default."""

    clock: Clock | None
    """Where the time comes from; for tests."""

    indexers: object | None
    """The indices of the operator, if the application reads them; of the private class only."""

    memories: object | None
    """Accepted for compatibility, as all arguments below."""

    insights: object | None
    _command: object | None


DEFAULTS: OperatorArguments = {"clusterwide": False, "namespaces": ()}
"""The defaults of the options; they are ``None`` for all others."""

SIGNATURE = inspect.Signature(
    [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=DEFAULTS.get(name),
            annotation=annotation,
        )
        for name, annotation in OperatorArguments.__annotations__.items()
    ]
)


def show_options(fn: Callable[..., Any], *own: inspect.Parameter) -> None:
    """Let ``help()`` show the arguments: by itself, it does not look into typed dictionaries."""
    vars(fn)["__signature__"] = SIGNATURE.replace(parameters=[*own, *SIGNATURE.parameters.values()])


def choose_options(given: OperatorArguments) -> OperatorOptions:
    """Take the given arguments, and the defaults for the rest. Arguments win over settings.

    Raises :class:`TypeError` if there are no such arguments, or if they contradict each other.
    """
    SIGNATURE.bind(**given)
    if given.get("clusters") is not None:
        _check_clusters(given)
    settings, indices = given.get("settings"), given.get("indexers")
    settings = OperatorSettings() if settings is None else settings
    adjust_settings(settings, given)
    chosen: dict[str, Any] = {
        field.name: given.get(field.name)
        for field in dataclasses.fields(OperatorOptions)
        if given.get(field.name) is not None
    }
    chosen |= {"settings": settings, "namespaces": _choose_scope(given)}
    chosen |= {"indices": indices} if isinstance(indices, Indices) else {}
    return OperatorOptions(**chosen)


def _check_clusters(given: OperatorArguments) -> None:
    clusters = given.get("clusters")
    if clusters is not None and not callable(clusters):
        parse_clusters(clusters)
    others = {
        "vault": "each cluster has a login of its own",
        "indexers": "each cluster has indices of its own",
        "once": "no cluster knows when there is nothing left in the others",
        "assigner": "one process serves all clusters",
    }
    for name, reason in others.items():
        if given.get(name) is not None:
            raise TypeError(f"Either clusters= or {name}= can be passed: {reason}.")


def adjust_settings(settings: OperatorSettings, given: OperatorArguments) -> None:
    """Let the arguments win over the settings, if they are given."""
    peering, leasing, serving = settings.peering, settings.leasing, settings.serving
    if (name := given.get("peering_name")) is not None:
        peering.mandatory = True
        peering.name = name
    if (standalone := given.get("standalone")) is not None:
        peering.standalone = standalone
    if (priority := given.get("priority")) is not None:
        peering.priority = priority
    if (lease := given.get("lease")) is not None:
        leasing.name, _, namespace = lease.partition("@")
        leasing.namespace = namespace or leasing.namespace
    if (shards := given.get("shards")) is not None:
        settings.sharding.name, _, namespace = shards.partition("@")
        settings.sharding.namespace = namespace or settings.sharding.namespace
    if (ring := given.get("ring")) is not None:
        settings.sharding.ring, _, namespace = ring.partition("@")
        settings.sharding.namespace = namespace or settings.sharding.namespace
    if (selector := given.get("namespace_selector")) is not None:
        settings.scanning.namespace_selector = selector
    if (qps := given.get("qps")) is not None:
        settings.networking.qps = qps
    if (burst := given.get("burst")) is not None:
        settings.networking.burst = burst
    if (endpoint := given.get("serving_endpoint")) is not None:
        serving.endpoint = endpoint
    if (endpoint := given.get("status_endpoint")) is not None:
        serving.status = endpoint


def _choose_scope(given: OperatorArguments) -> Collection[NamespacePattern]:
    clusterwide, namespace = given.get("clusterwide"), given.get("namespace")
    namespaces = given.get("namespaces", ())
    if namespaces and namespace:
        raise TypeError("Either namespaces= or namespace= can be passed. Got both.")
    if namespace:
        _warn("namespace= is deprecated; use namespaces=[...]", DeprecationWarning)
        namespaces = [namespace]
    if clusterwide and namespaces:
        raise TypeError("The operator can be either cluster-wide or namespaced, not both.")
    if not clusterwide and not namespaces and not given.get("namespace_selector"):
        _warn(
            "All namespaces are served, as neither the namespaces (-n) nor the "
            "cluster-wide mode (-A) are requested. Please choose one of them.",
            FutureWarning,
        )
    return namespaces


def _warn(message: str, category: type[Warning]) -> None:
    warnings.warn(message, category, stacklevel=5)  # at the caller of ``spawn_tasks()``
