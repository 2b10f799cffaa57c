"""The context managers of servers and tunnels: they close their connections in time."""

from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Self

from kopf_cogs.structs.reviews import WebhookClientConfig, WebhookFn


class WebhookContextManager:
    """A callable server or tunnel, which is also a context manager, though it can do without.

    Python closes forgotten generators late or never. So, the exit from the context closes
    all its generators.
    """

    def __init__(self) -> None:
        super().__init__()
        self._generators: list[AsyncGenerator[WebhookClientConfig, None]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        while self._generators:
            await self._generators.pop().aclose()

    def __call__(self, fn: WebhookFn, /) -> AsyncIterator[WebhookClientConfig]:
        """Serve until closed; yields where and how the API can reach it, again if it changes."""
        generator = self._serve(fn)
        self._generators.append(generator)
        return generator

    def _serve(self, fn: WebhookFn) -> AsyncGenerator[WebhookClientConfig, None]:
        raise NotImplementedError
