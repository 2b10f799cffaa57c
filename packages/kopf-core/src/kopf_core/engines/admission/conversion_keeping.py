"""Keeping a definition of a kind in line with where its conversions are served.

Only ``spec.conversion`` of the definition is ours. It remains when the operator exits: if it were
removed, the API would take the objects of one version for those of another one, and their fields
would be lost. Until the operator is back, objects can only be read as they are stored.
"""

import asyncio
import logging
from typing import Any

from kopf_cogs.clients.errors import APIError, APIForbiddenError, APINotFoundError
from kopf_cogs.clients.patching import MERGE_PATCH
from kopf_cogs.clients.reflector import Reflector
from kopf_cogs.clients.rights import hint_at_role
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.resources import CRDS
from kopf_cogs.structs.reviews import WebhookClientConfig
from kopf_core.actions.retrying import ExponentialBackoff
from kopf_core.engines.admission.configurations import extend_client_config
from kopf_core.engines.admission.converting import PREFIX
from kopf_core.engines.admission.managing import (
    POLLING_INTERVAL,
    RETRY,
    ObjectSink,
    Revision,
    get_revision,
)
from kopf_core.intents.conversions import Conversions

logger = logging.getLogger("kopf._core.engines.admission")

_ADDRESSES = ("url", "service", "caBundle")


def build_conversion(config: WebhookClientConfig, kind: str) -> dict[str, Any]:
    """What is to be in the definition of the kind. Nulls are for what must not be there."""
    path = f"{PREFIX}{kind}"
    client = extend_client_config(config, path, path)
    webhook = {
        "clientConfig": {name: client.get(name) for name in _ADDRESSES},
        "conversionReviewVersions": ["v1"],
    }
    return {"strategy": "Webhook", "webhook": webhook}


def is_kept(known: Any, wanted: Any) -> bool:
    """Whether everything that is wanted is there; defaults of the API can be there, too."""
    if isinstance(wanted, dict):
        known = known if isinstance(known, dict) else {}
        return all(is_kept(known.get(key), value) for key, value in wanted.items())
    return bool(known == wanted)


class ConversionKeeper:
    """Keeps the conversion of one kind, from the start of the server on."""

    def __init__(self, client: Client, kind: str, conversions: Conversions) -> None:
        self._client = client
        self._kind = kind
        self._conversions = conversions
        self._wanted: WebhookClientConfig | None = None
        self._revision: Revision | None = None
        self._wakeup = asyncio.Event()
        self._complaint: str | None = None
        self._backoff = ExponentialBackoff(initial=RETRY, maximum=POLLING_INTERVAL)

    def want(self, config: WebhookClientConfig) -> None:
        """Set where the conversions are served."""
        self._wanted = config
        self._wakeup.set()

    async def run(self) -> None:
        """Keep it for as long as the operator runs. It does not fail: definitions come and go."""
        await self._wakeup.wait()
        for source, target in self._conversions.missing:
            logger.warning(f"There are no conversions of {self._kind} from {source} to {target}.")
        watcher = asyncio.create_task(self._watch())
        try:
            await self._keep()
        finally:
            watcher.cancel()
            await asyncio.wait([watcher])

    async def _keep(self) -> None:
        failures = 0
        while True:
            self._wakeup.clear()
            delay = POLLING_INTERVAL
            try:
                await self._apply()
                failures, self._complaint = 0, None
            except APIError as e:
                self._complain(e)
                delay = self._backoff(failures)
                failures += 1
            try:
                async with asyncio.timeout(delay):
                    await self._wakeup.wait()
            except TimeoutError:
                pass

    async def _apply(self) -> None:
        if self._wanted is None:
            return
        url = CRDS.get_url(name=self._kind)
        body = await self._client.get(url)
        wanted = build_conversion(self._wanted, self._kind)
        self._warn_of_versions(body)
        if not is_kept(body["spec"].get("conversion"), wanted):
            logger.info(f"Reconfiguring the conversions of {self._kind}.")
            payload = {"spec": {"conversion": wanted}}
            body = await self._client.patch(url, payload, content_type=MERGE_PATCH)
        self._revision = get_revision(body["metadata"])

    def _warn_of_versions(self, body: Any) -> None:
        names = {version["name"] for version in body["spec"].get("versions") or ()}
        left = sorted(names.difference(self._conversions.versions))
        if left and self._revision is None:
            logger.warning(f"There are no conversions of {self._kind} for {', '.join(left)}.")

    async def _watch(self) -> None:
        sink = ObjectSink(self._kind, self._on_change)
        while True:
            try:
                await Reflector(self._client, CRDS, None, sink=sink, logger=logger).run()
            except (APINotFoundError, APIForbiddenError):
                await asyncio.sleep(POLLING_INTERVAL)

    def _on_change(self, revision: Revision | None) -> None:
        if revision != self._revision:
            self._wakeup.set()

    def _complain(self, error: APIError) -> None:
        """Log the problem, but only once while it lasts."""
        hint = hint_at_role(error, also=("get", "patch"))
        text = f"The conversions of {self._kind} are not set up: {error}{hint}".rstrip(".")
        text += ". Will retry."
        logger.log(logging.DEBUG if text == self._complaint else logging.WARNING, text)
        self._complaint = text
