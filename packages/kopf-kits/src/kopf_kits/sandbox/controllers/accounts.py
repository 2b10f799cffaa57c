"""Service accounts: there is the default one in each namespace, as in any cluster."""

from __future__ import annotations

import asyncio

from kopf_kits.sandbox.base.statuses import StatusError
from kopf_kits.sandbox.store.resources import Registry
from kopf_kits.sandbox.store.storage import Change
from kopf_kits.sandbox.store.writeoptions import WriteOptions
from kopf_kits.sandbox.verbs.writes import Writer

DEFAULT = "default"


class ServiceAccounts:
    """Creates the default service accounts of namespaces, soon after the namespaces."""

    def __init__(self, registry: Registry, writer: Writer) -> None:
        self._endpoint = registry.find("serviceaccounts")
        self._writer = writer
        self._tasks: set[asyncio.Task[None]] = set()
        registry.find("namespaces").resource.store.listeners.append(self._observe)

    def _observe(self, change: Change) -> None:
        if change.type == "ADDED":
            task = asyncio.get_running_loop().create_task(self._create(change.now.key[1]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _create(self, namespace: str) -> None:
        body = {"metadata": {"name": DEFAULT}}
        try:
            await self._writer.create(self._endpoint, namespace, body, WriteOptions())
        except StatusError:
            pass  # the account exists already, or the namespace is gone
