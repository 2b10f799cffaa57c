"""The names in Leases: of this operator, and of the namespace where its Leases are."""

import asyncio
import logging
import pathlib
import re
import uuid

from kopf_cogs.aiokits.surroundings import get_chance
from kopf_cogs.clients.session import Client
from kopf_cogs.helpers.hostnames import get_hostname
from kopf_core.actions.retrying import safe_message

logger = logging.getLogger("kopf.leasing")

POD_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


def make_identity() -> str:
    """The name of this operator among its replicas: the name of the pod, and a random part."""
    bits = get_chance().getrandbits(128)
    return f"{get_hostname()}_{uuid.UUID(int=bits, version=4)}"


def make_shard_name() -> str:
    """The name of this operator among the shards of a ring: a name of a Lease, and a label."""
    host = re.sub("[^a-z0-9]+", "-", get_hostname().lower())[:52].strip("-") or "shard"
    return f"{host}-{get_chance().getrandbits(40):010x}"


async def detect_namespace(client: Client) -> str:
    """The namespace of this pod; outside of pods, of the current context."""
    try:
        text = await asyncio.to_thread(pathlib.Path(POD_NAMESPACE).read_text, "utf-8")
    except OSError as e:
        logger.debug(f"This is not a pod: {safe_message(e)}")
        return client.default_namespace or "default"
    return text.strip()
