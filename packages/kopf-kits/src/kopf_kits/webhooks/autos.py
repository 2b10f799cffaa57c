"""A server or a tunnel by the kind of the cluster, if Kopf can guess this kind."""

import logging
from collections.abc import AsyncGenerator

from kopf_cogs.structs.reviews import WebhookClientConfig, WebhookFn

from .contexts import WebhookContextManager
from .detection import ClusterDetector
from .servers import WebhookServer
from .tunnels import WebhookNgrokTunnel

logger = logging.getLogger("kopf._kits.webhooks")


class WebhookAutoServer(ClusterDetector, WebhookServer):
    """A local server which guesses its hostname for K3d, Minikube, and Docker Desktop.

    For all other clusters, it is the same as :class:`WebhookServer`. It never tunnels.
    """

    async def _find_host(self) -> str:
        guessed = None if self.host else await self.guess_host()
        if guessed is not None:
            logger.debug(f"The cluster is recognised: this machine is {guessed} for it.")
        return guessed or await super()._find_host()


class WebhookAutoTunnel(ClusterDetector, WebhookContextManager):
    """A local server if the cluster is recognised, or else a tunnel through ngrok.

    ``addr``, ``port``, ``path`` are of the local server; there are no other parameters, as there
    are none in common. Use specific classes if you need them.
    """

    def __init__(
        self,
        *,
        addr: str | None = None,
        port: int | None = None,
        path: str | None = None,
    ) -> None:
        super().__init__()
        self.addr = addr
        self.port = port
        self.path = path

    async def _serve(self, fn: WebhookFn) -> AsyncGenerator[WebhookClientConfig, None]:
        host = await self.guess_host()
        target: WebhookContextManager
        if host is not None:
            target = WebhookServer(addr=self.addr, port=self.port, path=self.path, host=host)
        else:
            target = WebhookNgrokTunnel(addr=self.addr, port=self.port, path=self.path)
        logger.debug(f"The webhooks are served by {type(target).__name__}.")
        async with target:
            async for config in target(fn):
                yield config
