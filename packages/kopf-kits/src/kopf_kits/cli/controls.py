"""The means to control the commands when they are called from code."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from kopf_cogs.aiokits.flags import Flag
    from kopf_cogs.clients.vault import Vault
    from kopf_cogs.configs.settings import OperatorSettings
    from kopf_core.intents.registries import OperatorRegistry


@dataclasses.dataclass
class CLIControls:
    """The options that only code can give: pass them as ``obj`` of a click command.

    The flags are raised to stop the operator, and by the operator when it is ready.
    All the rest replaces what the operator would make by itself.
    """

    ready_flag: Flag | None = None
    stop_flag: Flag | None = None
    vault: Vault | None = None
    registry: OperatorRegistry | None = None
    settings: OperatorSettings | None = None
    loop: asyncio.AbstractEventLoop | None = None

    def as_kwargs(self) -> dict[str, Any]:
        """The arguments of the operator, without the ones that are not set."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None}
