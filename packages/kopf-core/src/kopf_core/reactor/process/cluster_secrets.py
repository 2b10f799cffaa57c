"""Clusters whose kubeconfigs are in Secrets: they come and go with the Secrets."""

import asyncio
import base64
import binascii
import logging
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from kopf_cogs.clients.kubeconfig import parse_kubeconfig
from kopf_cogs.clients.reflector import Reflector
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import RawBody, RawEvent
from kopf_cogs.structs.credentials import ConnectionInfo, LoginError
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.resources import SECRETS
from kopf_core.intents.causes import Activity
from kopf_core.intents.handlers import ActivityHandler
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.life.clusters import Cluster
from kopf_core.reactor.life.lease_names import detect_namespace
from kopf_core.reactor.process.errands import Access, run_errand

logger = logging.getLogger("kopf.clusters")


@dataclass(frozen=True, slots=True)
class SecretCluster(Cluster):
    """A cluster of a Secret. It is another one if it is in another place."""

    place: ConnectionInfo | None = field(default=None, repr=False)
    """Where the cluster is, without credentials: new credentials are used without a restart."""


class KubeconfigSecrets:
    """Provides the clusters whose kubeconfigs are in Secrets with these labels.

    The name of a Secret is the name of the cluster. The context is the current one. By default, the
    Secrets are in the namespace of this pod, or in that of the current context of the kubeconfig.
    ``key`` is where a Secret has its kubeconfig. ``login`` is for the cluster with the Secrets; by
    default, it is the service account of the pod, or the current context.

    Kubeconfigs in Secrets must name neither programs nor files. Otherwise, the authors of Secrets
    could run programs in the pod, and could read its files.
    """

    def __init__(
        self,
        selector: str,
        *,
        namespace: str | None = None,
        key: str = "kubeconfig",
        login: Callable[..., Any] | None = None,
    ) -> None:
        self.namespace = namespace
        """The namespace of the Secrets; ``None`` until it is known by the pod or the context."""

        self._selector = selector
        self._key = key
        self._login = login
        self._found: dict[str, ConnectionInfo] = {}

    async def __call__(
        self, *, settings: OperatorSettings, **_: Any
    ) -> AsyncIterator[Collection[Cluster]]:
        """Yield all clusters at each change. Raises the errors of the login."""
        access = Access(settings=settings, registry=self._make_registry())
        sink = _SecretSink(self._found, self._key, is_trusting_env=settings.networking.trust_env)

        async def watch(client: Client) -> None:
            namespace = self.namespace or await detect_namespace(client)
            reflector = Reflector(
                client, SECRETS, namespace, settings=settings, sink=sink, selector=self._selector
            )
            await reflector.run()

        watching = asyncio.create_task(run_errand(access, watch), name="kopf-cluster-secrets")
        watching.add_done_callback(lambda _: sink.changed.set())
        try:
            while True:
                await sink.changed.wait()
                sink.changed.clear()
                if watching.done():
                    watching.result()
                yield [self._make_cluster(name, info) for name, info in self._found.items()]
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    def _make_registry(self) -> OperatorRegistry:
        registry = OperatorRegistry()
        if self._login is not None:
            id, activity = HandlerId("login_for_secrets"), Activity.AUTHENTICATION
            registry.append(ActivityHandler(fn=self._login, id=id, activity=activity))
        return registry

    def _make_cluster(self, name: str, info: ConnectionInfo) -> Cluster:
        place = replace(
            info,
            token=None,
            username=None,
            password=None,
            certificate_data=None,
            private_key_data=None,
        )

        def log_in(**_: Any) -> ConnectionInfo:
            if name not in self._found:
                raise LoginError(f"There is no Secret of cluster {name} anymore.")
            return self._found[name]

        return SecretCluster(name, login=log_in, place=place)


class _SecretSink:
    """Reads the kubeconfigs of Secrets, and tells when they have changed."""

    def __init__(
        self, found: dict[str, ConnectionInfo], key: str, *, is_trusting_env: bool
    ) -> None:
        self.changed = asyncio.Event()
        self._found = found
        self._key = key
        self._is_trusting_env = is_trusting_env
        self._seen: set[str] = set()
        self._is_listed = False

    def on_event(self, event: RawEvent) -> None:
        name = event["object"]["metadata"]["name"]
        self._seen.add(name)
        if event["type"] == "DELETED":
            self._found.pop(name, None)
        else:
            self._read(name, event["object"])
        if self._is_listed:
            self.changed.set()

    def on_listed(self) -> None:
        if not self._is_listed:  # these can be left of the previous run
            for name in self._found.keys() - self._seen:
                del self._found[name]
        self._is_listed = True
        self.changed.set()

    async def drain(self) -> None:
        """Do nothing: the Secrets are read at once."""

    def _read(self, name: str, body: RawBody) -> None:
        title = f"{body['metadata'].get('namespace')}/{name}"
        try:
            data = self._decode(body)
            self._found[name] = parse_kubeconfig(data, title, trust_env=self._is_trusting_env)
        except (LoginError, ValueError) as e:
            kept = " Its cluster remains as it is." if name in self._found else ""
            logger.warning(f"Secret {title} is not used: {e}{kept}")

    def _decode(self, body: RawBody) -> bytes:
        """The text of the kubeconfig. The errors must not contain any part of it."""
        data: Any = body.get("data")
        value = data.get(self._key) if isinstance(data, dict) else None
        if not isinstance(value, str):
            raise LoginError(f"It has no key {self._key!r}.")
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            raise LoginError(f"Its key {self._key!r} is not in base64.") from None
