"""The definition of a kind names the server of its conversions: this module keeps it so.

Only ``spec.conversion`` of the definition is ours. It remains when the operator exits. Without it,
the API would take the objects of one version for objects of another one, and would lose their
fields. Until the operator is back, objects can be read only in their stored version.
"""

import logging
from typing import Any

from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.patching import MERGE_PATCH
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.resources import CRDS
from kopf_cogs.structs.reviews import WebhookClientConfig
from kopf_core.engines.admission.configurations import extend_client_config
from kopf_core.engines.admission.converting import PREFIX
from kopf_core.engines.admission.keeping import Keeper, get_revision
from kopf_core.intents.conversions import Conversions

logger = logging.getLogger("kopf._core.engines.admission")

_ADDRESSES = ("url", "service", "caBundle")


def build_conversion(config: WebhookClientConfig, kind: str) -> dict[str, Any]:
    """Build the wanted conversion in the definition. Nulls stand for fields that must be absent."""
    path = f"{PREFIX}{kind}"
    client = extend_client_config(config, path, path)
    webhook = {
        "clientConfig": {name: client.get(name) for name in _ADDRESSES},
        "conversionReviewVersions": ["v1"],
    }
    return {"strategy": "Webhook", "webhook": webhook}


def is_kept(known: Any, wanted: Any) -> bool:
    """Whether the definition has all wanted fields; it can also have defaults of the API."""
    if isinstance(wanted, dict):
        known = known if isinstance(known, dict) else {}
        return all(is_kept(known.get(key), value) for key, value in wanted.items())
    return bool(known == wanted)


class ConversionKeeper(Keeper):
    """Keeps the conversion of one kind, from the start of the server on.

    It does not fail: definitions come and go.
    """

    verbs = ("get", "patch")

    def __init__(self, client: Client, kind: str, conversions: Conversions) -> None:
        super().__init__(client, CRDS, kind)
        self._conversions = conversions
        self._wanted: WebhookClientConfig | None = None

    def want(self, config: WebhookClientConfig) -> None:
        """Set the address of the server of conversions."""
        self._wanted = config
        self._wakeup.set()

    async def run(self) -> None:
        await self._wakeup.wait()
        for source, target in self._conversions.missing:
            logger.warning(f"There are no conversions of {self._name} from {source} to {target}.")
        await super().run()

    async def _apply(self) -> None:
        if self._wanted is None:
            return
        url = CRDS.get_url(name=self._name)
        body = await self._client.get(url)
        wanted = build_conversion(self._wanted, self._name)
        self._warn_of_versions(body)
        if not is_kept(body["spec"].get("conversion"), wanted):
            logger.info(f"Reconfiguring the conversions of {self._name}.")
            payload = {"spec": {"conversion": wanted}}
            body = await self._client.patch(url, payload, content_type=MERGE_PATCH)
        self._revision = get_revision(body["metadata"])

    def _warn_of_versions(self, body: Any) -> None:
        names = {version["name"] for version in body["spec"].get("versions") or ()}
        left = sorted(names.difference(self._conversions.versions))
        if left and self._revision is None:
            logger.warning(f"There are no conversions of {self._name} for {', '.join(left)}.")

    def _explain(self, error: APIError) -> str:
        return f"The conversions of {self._name} are not set up: {error}"
