"""Background work of objects: daemons and timers."""
from collections.abc import Callable

from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.execution import Execution
from kopf_core.engines.indexing import Indices
from kopf_core.engines.memories import ObjectMemory
from kopf_core.intents.causes import SpawningCause
from kopf_core.intents.registries import ResourceHandlers


class BackgroundEngine:
    def __init__(
            self, *, client: Client, settings: OperatorSettings, indices: Indices,
            execution: Execution, wake: Callable[[ObjectKey], None],
    ) -> None:
        self._wake = wake

    def adjust(
            self, key: ObjectKey, memory: ObjectMemory, cause: SpawningCause,
            handlers: ResourceHandlers,
    ) -> None:
        pass

    def stop_deleted(self, memory: ObjectMemory) -> None:
        pass

    def is_running(self, memory: ObjectMemory) -> bool:
        return False

    def stop_resource(self, resource: Resource, namespace: str | None) -> None:
        pass

    async def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    async def exit(self) -> None:
        pass
