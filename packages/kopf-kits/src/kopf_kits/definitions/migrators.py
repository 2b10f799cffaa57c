"""The migrator of the cluster itself: ``StorageVersionMigration`` objects, and their executor.

The API server accepts such objects even if there is no executor: users enable the controller
apart from the API. So Kopf trusts only the progress in the status.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kopf_cogs.clients.errors import APIConflictError, APIError, APINotFoundError
from kopf_cogs.clients.session import Client

Obj = dict[str, Any]

GROUP: Final = "storagemigration.k8s.io"
VERSIONS: Final = ("v1", "v1beta1")
"""The versions with the same fields. The rare ``v1alpha1`` had other fields."""

DEFINITION: Final = "kopf.zalando.org/definition"
"""The annotation with the state of the definition that the migration was requested for."""

POLLING: Final = 0.5  # seconds


class ClusterMigrator:
    """Has the objects of one kind rewritten by the cluster.

    Its object remains until :meth:`forget`: it also tells later runs that a migration is not over.
    """

    def __init__(self, client: Client, version: str, definition: Obj) -> None:
        spec, meta = definition["spec"], definition["metadata"]
        self.version = f"{GROUP}/{version}"
        self._client = client
        self._resource = {"group": spec["group"], "resource": spec["names"]["plural"]}
        self._name = f"kopf.{meta['name']}"
        self._mark = f"{meta['uid']}/{meta.get('generation')}"
        self._root = f"/apis/{self.version}/storageversionmigrations"
        self._url = f"{self._root}/{self._name}"

    async def get(self) -> Obj | None:
        """The object of an earlier run, if it is there."""
        try:
            found: Obj = await self._client.get(self._url)
        except APINotFoundError:
            return None
        return found

    async def run(self, patience: float) -> str | None:
        """Ask for the migration, and wait until it is over.

        Returns why it has not been done, e.g. if its status does not change for so many seconds.
        """
        try:
            await self._start()
            return await self._wait(patience)
        except APIError as e:
            return str(e)

    async def forget(self) -> None:
        """Remove the object. It is only a request: migrated objects remain migrated."""
        try:
            await self._client.delete(self._url)
        except APINotFoundError:
            pass

    def _is_current(self, found: Obj) -> bool:
        """Whether the request is for the current definition, e.g. with the same storage version."""
        return (found["metadata"].get("annotations") or {}).get(DEFINITION) == self._mark

    async def _start(self) -> None:
        """Continue an earlier request, unless it is over, or is for another definition."""
        found = await self.get()
        is_over = found is not None and (_is(found, "Succeeded") or _is(found, "Failed"))
        if found is not None and not is_over and self._is_current(found):
            return
        if found is not None:
            await self.forget()
        meta = {"name": self._name, "annotations": {DEFINITION: self._mark}}
        spec = {"resource": self._resource}
        kind = "StorageVersionMigration"
        body = {"apiVersion": self.version, "kind": kind, "metadata": meta, "spec": spec}
        try:
            await self._client.post(self._root, body)
        except APIConflictError:
            pass  # of the same request, whose reply was lost, or of another run

    async def _wait(self, patience: float) -> str | None:
        loop = asyncio.get_running_loop()
        status: object = None
        deadline = loop.time() + patience
        while True:
            found = await self.get()
            if found is None:
                return "another client has deleted the request"
            if not self._is_current(found):
                return "there is a request for an earlier definition"
            if found.get("status") != status:
                status, deadline = found.get("status"), loop.time() + patience
            if _is(found, "Failed"):
                return _explain(found, "Failed")
            is_late = loop.time() >= deadline
            if _is(found, "Succeeded") and (is_late or not _is(found, "Running")):
                return None  # the definition gets its own marks after the end of the run
            if is_late:
                return f"there is no progress for {patience:g} seconds"
            await asyncio.sleep(POLLING)


async def find_migrator(client: Client, definition: Obj) -> ClusterMigrator | None:
    """The migrator of the cluster, if its API is served. The API does not tell of an executor."""
    try:
        found = await client.get(f"/apis/{GROUP}")
    except APIError:
        return None
    served = {version.get("version") for version in found.get("versions") or ()}
    for version in VERSIONS:
        if version in served:
            return ClusterMigrator(client, version, definition)
    return None


def _find(obj: Obj, condition: str) -> Obj:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item.get("type") == condition), {})


def _is(obj: Obj, condition: str) -> bool:
    return bool(_find(obj, condition).get("status") == "True")


def _explain(obj: Obj, condition: str) -> str:
    found = _find(obj, condition)
    return str(found.get("message") or found.get("reason") or condition)
