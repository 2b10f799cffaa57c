"""Visits to the cluster: log in, run an errand, and explain a failed login in one line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from kopf_cogs.clients.errors import APIConnectionError, hide_credentials
from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.credentials import LoginError
from kopf_core.actions.retrying import telling_message
from kopf_core.engines.activities import ActivityError
from kopf_core.reactor.process.errands import run_errand
from kopf_kits.cli.interrupts import interruptible

if TYPE_CHECKING:
    from kopf_core.reactor.process.errands import Access

T = TypeVar("T")

CHECK = "Check the server in the kubeconfig, the proxies, and the network."


def visit(access: Access, errand: Callable[[Client], Awaitable[T]]) -> T:
    """Run the errand in the cluster, and get its result.

    Raises :class:`LoginError` if the login fails, and :class:`APIConnectionError` with the address
    of the server if it gives no answer. Other errors of the errand pass unchanged.
    """

    async def go(client: Client) -> T:
        try:
            return await errand(client)
        except APIConnectionError as e:
            server = hide_credentials(client.server or "an unknown address")
            raise APIConnectionError(f"The API at {server} gives no answer: {e}. {CHECK}") from e

    with interruptible():
        try:
            return asyncio.run(run_errand(access, go))
        except ActivityError as e:
            reason = _explain_kubeconfig(access) or _join_reasons(e)
            raise LoginError(f"Cannot log in to the cluster: {reason}") from e


def _explain_kubeconfig(access: Access) -> str | None:
    """The error of the kubeconfig, if it has one: client libraries often do not tell it."""
    try:
        login_with_kubeconfig(settings=access.settings)
    except LoginError as e:
        return str(e)
    return None


def _join_reasons(exc: ActivityError) -> str:
    errors = [outcome.exception for outcome in exc.outcomes.values()]
    texts = [" ".join(telling_message(error).split()) for error in errors if error is not None]
    return "; ".join(dict.fromkeys(texts))
