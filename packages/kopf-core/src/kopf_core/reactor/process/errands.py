"""Errands: short work in the cluster, with no operator running."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.aiokits.surroundings import get_clock
from kopf_cogs.clients.session import Client
from kopf_cogs.clients.unanswered import PATIENCE
from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.memos import Memo
from kopf_core.engines.activities import ActivityRunner
from kopf_core.engines.authentication import Authenticator
from kopf_core.intents.registries import OperatorRegistry

T = TypeVar("T")

MAX_LOGINS = 2
"""How many times to log in if the credentials are refused: once more, as they can expire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The means to reach the cluster."""

    settings: OperatorSettings
    registry: OperatorRegistry
    """The registry with the login handlers, if there are any."""

    vault: Vault | None = None
    patience: float = PATIENCE
    """How long (in seconds) the API may be silent before the log tells of it."""

    clock: Clock = field(default_factory=get_clock)


async def run_errand(access: Access, errand: Callable[[Client], Awaitable[T]]) -> T:
    """Log in, run the errand with the client, and return its result.

    Raises :class:`ActivityError` if logging in fails, :class:`LoginError` if the credentials are
    refused again and again, and all errors of the errand itself.
    """
    vault = access.vault or Vault(clock=access.clock)
    activities = ActivityRunner(access.settings, Memo(), {}, access.clock)
    authenticator = Authenticator(vault=vault, registry=access.registry, activities=activities)
    client = Client(vault, access.settings, clock=access.clock, patience=access.patience)
    login = asyncio.create_task(authenticator.run(MAX_LOGINS))
    working = asyncio.ensure_future(errand(client))
    try:
        done, _ = await asyncio.wait([login, working], return_when=asyncio.FIRST_COMPLETED)
        if login in done:
            login.result()
        return await working
    finally:
        for task in (login, working):
            task.cancel()
        await asyncio.wait([login, working])
        activities.close()
        await client.close()
