"""Subresources other than ``status``: ``scale``, and what only some built-in kinds have."""

from __future__ import annotations

from .calls import Call, Reply
from .cluster import Cluster
from .resources import Endpoint
from .storage import Key


class Subresources:
    """Answers requests to the subresources of objects."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def answer(self, call: Call, endpoint: Endpoint, key: Key, name: str) -> Reply | None:
        """Answer the request; none if the resource has no such subresource."""
        return None
