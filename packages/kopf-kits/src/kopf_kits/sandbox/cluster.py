"""The cluster: the resources, their storage, and all that works on them. Nothing of HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field

from .access.authorizer import Authorizer
from .access.defaults import list_defaults
from .admission.admission import Admission
from .base.nature import Nature
from .controllers.accounts import ServiceAccounts
from .controllers.definitions import Definitions
from .controllers.garbage import Garbage
from .controllers.workloads import Workloads
from .kinds.kinds import register_builtins
from .store.resources import Registry
from .store.storage import Versions
from .store.writeoptions import WriteOptions
from .verbs.deletions import Deleter
from .verbs.writes import Writer

INITIAL_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The settings of a cluster.

    ``history``: how many last changes of every resource can be watched from.
    ``bookmark_interval``: how often idle watches get bookmarks, in seconds.
    ``watch_timeout``: how long watches live if they do not say, in seconds.
    ``ready``: whether workloads (deployments, jobs, pods, etc.) become ready by themselves.
    ``rbac``: whether the roles and their bindings decide who may do what. Without it, clients
    need no credentials. The sandbox does not prevent the escalation of rights, and has no roles
    for people in the beginning, such as ``edit`` or ``view``.
    ``sharded``: whether ``shardSelector`` selects objects, as with the gate ``ShardedListAndWatch``
    of real servers, which is closed by default. Otherwise, the parameter is ignored.
    ``nature``: the wall clock, and the chance that the identities of objects come from.
    """

    history: int = 20_000
    bookmark_interval: float = 60
    watch_timeout: float = 1800
    ready: bool = False
    rbac: bool = False
    sharded: bool = False
    nature: Nature = field(default_factory=Nature)


class Cluster:
    """A cluster in memory; it belongs to the event loop in which it is started."""

    def __init__(self, options: ClusterOptions) -> None:
        self.options = options
        self.versions = Versions(options.nature)
        self.registry = Registry()
        register_builtins(self.registry, self.versions, options.history)
        self.admission = Admission(self.registry)
        self.writer = Writer(self.registry, self.admission)
        self.deleter = Deleter(self.writer, self.admission)
        self.garbage = Garbage(self.registry, self.deleter)
        for resource in self.registry:
            self.garbage.watch(resource)
        self.accounts = ServiceAccounts(self.registry, self.writer)
        self.workloads = Workloads(self.registry, self.writer)
        self.authorizer = Authorizer(self.registry) if options.rbac else None
        self.definitions = Definitions(
            self.registry,
            self.versions,
            self.deleter,
            self.garbage.watch,
            history=options.history,
        )

    async def start(self) -> None:
        """Create what exists in every cluster from its very start."""
        endpoint = self.registry.find("namespaces")
        for name in INITIAL_NAMESPACES:
            await self.writer.create(endpoint, "", {"metadata": {"name": name}}, WriteOptions())
        if self.options.ready:
            self.workloads.start()
        if self.options.rbac:
            for plural, body in list_defaults():
                await self.writer.create(self.registry.find(plural), "", body, WriteOptions())

    def compact(self) -> None:
        """Forget the history of all resources: older versions are answered with 410 since now."""
        for resource in self.registry:
            resource.store.compact()

    async def close(self) -> None:
        """End all watches, and forget the webhooks."""
        for resource in self.registry:
            resource.store.close()
        await self.admission.close()
