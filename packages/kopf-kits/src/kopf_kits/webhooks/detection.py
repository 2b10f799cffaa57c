"""Guessing the kind of the cluster, and the name by which it knows this machine."""

import logging
from typing import Any

from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.session import Client
from kopf_core.actions.context import operator_var

from .servers import WebhookDockerDesktopServer, WebhookK3dServer, WebhookMinikubeServer

logger = logging.getLogger("kopf._kits.webhooks")


def get_client() -> Client | None:
    """The connection of the operator that runs the server; ``None`` outside of operators."""
    operator = operator_var.get(None)
    return None if operator is None else operator.client


class ClusterDetector:
    """Recognises local clusters by what they tell of themselves."""

    @staticmethod
    async def guess_host() -> str | None:
        """The hostname of this machine as seen from the cluster; ``None`` if it is not known.

        Nodes are looked at if it is permitted, and the version of the API server if it is not.
        """
        client = get_client()
        if client is None:
            return None
        return recognise(await _ask(client, "/version"), await _ask(client, "/api/v1/nodes"))


async def _ask(client: Client, url: str) -> Any:
    params = {"limit": "1"} if url.endswith("/nodes") else None
    try:
        return await client.get(url, params=params, backoffs=())
    except APIError as e:
        logger.debug(f"The kind of the cluster is guessed without {url}: {e}")
        return None


def recognise(version: Any, nodes: Any) -> str | None:
    """Decide by the version of the server, and by its first node, if they are known."""
    metadata = [item.get("metadata", {}) for item in (nodes or {}).get("items") or []]
    names = {str(meta.get("name", "")) for meta in metadata}
    labels = {label for meta in metadata for label in meta.get("labels") or {}}
    if "minikube.k8s.io/name" in labels:
        return WebhookMinikubeServer.DEFAULT_HOST
    if "docker-desktop" in names:
        return WebhookDockerDesktopServer.DEFAULT_HOST
    if "+k3s" in str((version or {}).get("gitVersion", "")):
        return WebhookK3dServer.DEFAULT_HOST
    return None
