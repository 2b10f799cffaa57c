"""A webhook configuration in the cluster is kept in line with the served webhooks.

Kopf uses server-side apply. So the API server itself tells the webhooks and fields of this operator
from foreign ones. Kopf never touches foreign ones, and restores its own ones. It needs only
the permissions to create and to patch. If it may, it also watches the object.

Replicas of one operator share the configuration. Each of them keeps it, and leaves a mark there.
The last replica cleans it up: see :mod:`.replica_marks`.
"""

import asyncio
import hashlib
import itertools
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kopf_cogs.aiokits.clocks import TimeLimit
from kopf_cogs.clients.errors import (
    APIClientError,
    APIConflictError,
    APIError,
    APIForbiddenError,
    APINotFoundError,
    APIUnprocessableError,
)
from kopf_cogs.clients.patching import JSON_PATCH, MERGE_PATCH
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.retrying import ExponentialBackoff, describe
from kopf_core.engines.admission.configurations import Webhook
from kopf_core.engines.admission.keeping import Keeper, Revision, get_revision
from kopf_core.engines.admission.replica_marks import ReplicaMarks, is_annotated
from kopf_core.intents.webhooks import WebhookHandler, WebhookType

logger = logging.getLogger("kopf._core.engines.admission")

APPLY_PATCH = "application/apply-patch+yaml"

EXIT_TIMEOUT = 5.0
"""How long (in seconds) the cleanup can take at the exit of the operator."""

PROPAGATION_TIME = 1.0
"""How long (in seconds) the API can still call webhooks that are removed from the configuration."""

HANDOVER_TIME = 5.0
"""How long (in seconds) the API can still call a replica that is not ready anymore."""

MAX_RESTORATIONS = 2
"""How many changes by others in a row Kopf undoes at once. Then it slows down."""

MAX_CONFLICTS = 5
"""How many times to try again at once while others change the configuration."""

CONFLICT_DELAY = 0.1
"""The first delay (in seconds) before the next attempt; later delays are longer."""


class ConfigurationError(Exception):
    """The API refuses the configuration as it is declared: later attempts cannot succeed."""

    expected = True


def make_manager(handlers: Collection[WebhookHandler]) -> str:
    """Make the name of the field manager: the same for the same handlers, another for other ones.

    So several operators can share a configuration by mistake, and do not fight for it.
    """
    ids = sorted(f"{handler.type.value}/{handler.id}" for handler in handlers)
    digest = hashlib.md5("\n".join(ids).encode("utf-8", "replace"), usedforsecurity=False)
    return f"kopf-{digest.hexdigest()[:8]}"


def is_final(error: APIError) -> bool:
    """Whether the declarations cause the error. Missing permissions can be granted at any time."""
    is_refused = isinstance(error, APIClientError) and not error.is_temporary
    return is_refused and not isinstance(error, APIForbiddenError)


def find_unwanted(body: Mapping[str, Any], names: Collection[str]) -> list[int]:
    """Find the indices of the webhooks with these names, the last one first."""
    webhooks = [*enumerate(body.get("webhooks") or ())]
    return [index for index, webhook in reversed(webhooks) if webhook["name"] in names]


def find_shared(body: Mapping[str, Any], manager: str) -> set[str]:
    """Find the webhooks that other operators keep there, too, alone or together with this one."""
    keys = {
        key
        for entry in body["metadata"].get("managedFields") or ()
        if entry.get("operation") == "Apply" and entry.get("manager") != manager
        for key in (entry.get("fieldsV1") or {}).get("f:webhooks") or ()
    }
    return {name for name in get_names(body) if f'k:{{"name":"{name}"}}' in keys}


def get_names(body: Mapping[str, Any]) -> set[str]:
    return {webhook["name"] for webhook in body.get("webhooks") or ()}


class ConfigurationKeeper(Keeper):
    """Keeps one configuration object: either of validating or of mutating webhooks.

    Only :class:`ConfigurationError` ends its run.
    """

    verbs = ("create", "patch")

    def __init__(
        self,
        client: Client,
        type: WebhookType,
        resource: Resource,
        *,
        name: str,
        manager: str,
        replica_marks: ReplicaMarks,
    ) -> None:
        super().__init__(client, resource, name)
        self._type = type
        self._manager = manager
        self._replica_marks = replica_marks
        self._wanted: Sequence[Webhook] | None = None
        self._announced: Sequence[Webhook] | None = None
        self._applied: set[str] | None = None
        self._is_released = False
        self._lock = asyncio.Lock()
        self._restorations = 0

    def want(self, webhooks: Sequence[Webhook]) -> None:
        """Set the wanted webhooks."""
        if webhooks != self._wanted:
            self._wanted = webhooks
            self._wakeup.set()

    @property
    def _is_contested(self) -> bool:
        """Whether others undo the changes of this operator again and again: then it slows down."""
        return self._restorations >= MAX_RESTORATIONS

    def _get_interval(self) -> float:
        return self._backoff(self._restorations) if self._is_contested else super()._get_interval()

    async def _apply(self) -> None:
        async with self._lock:
            if not self._is_released:
                level = logging.DEBUG if self._wanted == self._announced else logging.INFO
                logger.log(level, f"Reconfiguring the {self._type.value} webhook {self._name}.")
                self._announced = self._wanted
                await self._put(self._wanted or ())

    async def release(
        self, webhooks: Sequence[Webhook], limit: TimeLimit = asyncio.timeout
    ) -> float:
        """Leave only these webhooks there, for ever; or leave all of them to the other replicas.

        Returns for how many seconds the API can still call the other webhooks. Never raises: the
        caller cannot help when the operator exits.
        """
        if self._wanted is None:
            return 0.0
        logger.info(f"Cleaning up the admission webhook {self._name}.")
        try:
            async with limit(EXIT_TIMEOUT), self._lock:
                self._is_released = True
                body = await self._sweep(get_names({"webhooks": webhooks}), is_leaving=True)
        except (APIError, TimeoutError) as e:
            level = logging.DEBUG if self._complaint else logging.ERROR  # it is logged already
            logger.log(level, f"The webhooks remain in {self._name}: {describe(e)}")
            return 0.0
        others = [] if body is None else self._replica_marks.list_others(body)
        if self._wanted and others:
            replicas = ", ".join(others)
            logger.info(f"The webhooks in {self._name} are left to the other replicas: {replicas}.")
            return HANDOVER_TIME
        return 0.0 if [*webhooks] == [*self._wanted] else PROPAGATION_TIME

    async def _put(self, webhooks: Sequence[Webhook]) -> None:
        """Put exactly these webhooks there; the mark goes first, so that other replicas see it."""
        names = get_names({"webhooks": webhooks})
        before = await self._sweep(names)
        body = await self._request(webhooks)
        self._count_restorations(before, body)
        self._applied, self._revision = names, get_revision(body["metadata"])
        marks = self._replica_marks.enter(before)
        if not is_annotated(body, marks):  # also with the marks of the dead, which were unknown
            await self._annotate(marks)

    def _count_restorations(self, before: Any, body: Any) -> None:
        """Count the changes by others in a row, with no quiet interval between."""
        found = None if before is None else get_revision(before["metadata"])
        is_changed = self._revision is not None and found != self._revision
        is_restored = is_changed and found != get_revision(body["metadata"])
        if is_restored:
            self._restorations += 1
        elif not self._is_woken:
            self._restorations = 0
        if is_restored and self._restorations == MAX_RESTORATIONS:
            others = ", ".join(self._replica_marks.list_others(body))
            reason = (
                f": by replicas with other addresses or certificates: {others}" if others else ""
            )
            logger.warning(
                f"The {self._type.value} webhook configuration {self._name!r} is changed by others "
                f"again and again{reason}. It will be restored ever less often."
            )

    async def _sweep(self, names: Collection[str], *, is_leaving: bool = False) -> Any:
        """Enter or leave, and remove all webhooks of ours except for these, unless other replicas
        use them.

        Webhooks are removed as a whole, even if others have set some of their fields. At first, all
        webhooks with our suffix are ours: crashed or earlier processes can have left them. Later,
        only the webhooks that this process has put there.

        Returns the configuration before that; ``None`` if it is absent.
        """
        replicas = self._replica_marks
        backoff = ExponentialBackoff(initial=CONFLICT_DELAY, maximum=1.0)
        body: Any = None
        for attempt in itertools.count():
            try:
                body = await self._annotate(
                    replicas.leave(body) if is_leaving else replicas.enter(body)
                )
                indices = self._find_removable(body, names)
                if not indices or (is_leaving and replicas.list_others(body)):
                    return body
                return await self._remove(body, indices)
            except APINotFoundError:
                return None
            except APIConflictError:  # a leaving replica tries it for as long as there is time
                if attempt >= MAX_CONFLICTS and not is_leaving:
                    raise
                await asyncio.sleep(backoff(attempt))

    def _find_removable(self, body: Mapping[str, Any], names: Collection[str]) -> list[int]:
        present = {name for name in get_names(body) if name.endswith(f".{self._name}")}
        shared = find_shared(body, self._manager)
        ours = present if self._applied is None else self._applied - shared
        return find_unwanted(body, ours - {*names})

    async def _remove(self, body: Mapping[str, Any], indices: Collection[int]) -> Any:
        """Remove these webhooks if the configuration is still as it was seen."""
        version = body["metadata"].get("resourceVersion")
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
        removals = [{"op": "remove", "path": f"/webhooks/{index}"} for index in indices]
        try:
            return await self._patch([test, *removals], JSON_PATCH)
        except APIUnprocessableError as e:  # the test has failed
            raise APIConflictError(status=e.status, message=str(e)) from e

    async def _annotate(self, annotations: Mapping[str, str | None]) -> Any:
        return await self._patch({"metadata": {"annotations": annotations}}, MERGE_PATCH)

    async def _request(self, webhooks: Sequence[Webhook]) -> Any:
        payload = {
            "apiVersion": self._resource.api_version,
            "kind": self._resource.kind,
            "metadata": {"name": self._name},
            "webhooks": [*webhooks],
        }
        params = {"fieldManager": self._manager, "force": "true"}
        return await self._patch(payload, APPLY_PATCH, params=params)

    async def _patch(self, payload: object, content_type: str, **options: Any) -> Any:
        url = self._resource.get_url(name=self._name)
        return await self._client.patch(url, payload, content_type=content_type, **options)

    async def _is_watchable(self) -> bool:
        try:
            await self._client.get(self._resource.get_url(), params={"limit": "1"})
        except APIForbiddenError:
            logger.debug(f"Not enough permissions to list & watch {self._resource}.")
            return False
        except APIError:
            pass  # the reflector retries
        return True

    def _on_change(self, revision: Revision | None) -> None:
        """Apply everything again if the change is not our own. If all is well, that changes
        nothing.
        """
        is_foreign = self._revision is not None and revision != self._revision
        if is_foreign and not self._is_contested:
            self._wakeup.set()

    def _explain(self, error: APIError) -> str:
        return f"The {self._type.value} webhook configuration {self._name!r} is not set up: {error}"

    def _complain(self, error: APIError, advice: str = "") -> None:
        if is_final(error):
            raise ConfigurationError(self._explain(error)) from error
        if isinstance(error, APIForbiddenError):
            advice = " Grant the permissions, or do not set `settings.admission.managed`."
        super()._complain(error, advice)
