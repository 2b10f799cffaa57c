"""Tunnels: endpoints in the internet, from which requests are forwarded to this machine."""

import asyncio
import contextlib
import importlib
import logging
import os
import pathlib
import tempfile
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from kopf_cogs.helpers import jsons
from kopf_cogs.structs.reviews import WebhookClientConfig, WebhookFn

from .contexts import WebhookContextManager
from .endpoints import make_root
from .listeners import WebhookServerError
from .servers import WebhookServer

logger = logging.getLogger("kopf._kits.webhooks")


class WebhookNgrokTunnel(WebhookContextManager):
    """A tunnel through ngrok: to develop webhooks for clusters that cannot reach this machine.

    - ``addr``, ``port``, ``path`` are of the local server, as in :class:`WebhookServer`.
    - ``token`` is of your account; by default, the one that ngrok itself is configured with.
    - ``region`` is where in the world the endpoint is; the nearest one by default.
    - ``binary`` is the path to ngrok; by default, ``pyngrok`` downloads it when it is needed.

    The local server talks HTTP, as ngrok decrypts the traffic. Its certificates are trusted
    by default, so there is nothing for the clients to trust additionally.

    Everyone in the internet who knows the URL can send requests to your handlers. A random ``path``
    makes the URL more difficult to guess, but this is not a protection.
    """

    def __init__(
        self,
        *,
        addr: str | None = None,
        port: int | None = None,
        path: str | None = None,
        token: str | None = None,
        region: str | None = None,
        binary: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        self.addr = addr
        self.port = port
        self.path = path
        self.token = token
        self.region = region
        self.binary = binary

    async def _serve(self, fn: WebhookFn) -> AsyncGenerator[WebhookClientConfig, None]:
        pyngrok = import_pyngrok()
        # Only ngrok has to reach the server, and ngrok is on the same machine.
        addr = self.addr or "127.0.0.1"
        server = WebhookServer(addr=addr, port=self.port, path=self.path, insecure=True)
        with contextlib.ExitStack() as stack:
            config = stack.enter_context(self._configure(pyngrok.conf))
            async with server, contextlib.aclosing(_Tunnel(pyngrok.ngrok, config)) as tunnel:
                async for local in server(fn):
                    url = await tunnel.open(str(local["url"]).removesuffix(make_root(self.path)))
                    yield {"url": f"{url}{make_root(self.path)}"}

    @contextlib.contextmanager
    def _configure(self, conf: Any) -> Iterator[Any]:
        """Pass the token in a private file: all users of the machine see the arguments."""
        options: dict[str, Any] = {}
        if self.binary is not None:
            options["ngrok_path"] = os.fspath(self.binary)
        if self.region is not None:
            options["region"] = self.region
        token = self.token or os.environ.get("NGROK_AUTHTOKEN")
        with tempfile.TemporaryDirectory(prefix="kopf-ngrok-") as folder:
            if token:
                path = pathlib.Path(folder) / "ngrok.yml"
                path.touch(mode=0o600)
                path.write_bytes(jsons.dumps({"version": "3", "agent": {"authtoken": token}}))
                options["config_path"] = str(path)
            config = conf.PyngrokConfig(**options)
            config.auth_token = None  # it would be an argument
            yield config


class _Tunnel:
    """One tunnel of ngrok. Its client is not asynchronous, so it works in threads."""

    def __init__(self, ngrok: Any, config: Any) -> None:
        super().__init__()
        self._ngrok = ngrok
        self._config = config
        self._is_started = False

    async def open(self, target: str) -> str:
        """Forward the requests to the target; returns the public URL."""
        addr = target.partition("://")[2]
        self._is_started = True
        try:
            tunnel = await asyncio.to_thread(
                self._ngrok.connect, addr, "http", pyngrok_config=self._config, schemes=["https"]
            )
        except Exception as e:  # without the library, its errors have no common base
            reason = str(e).strip().partition("\n")[0] or type(e).__name__
            raise WebhookServerError(f"Cannot open a tunnel with ngrok: {reason}") from None
        url = str(tunnel.public_url).rstrip("/")
        if not url.startswith("https://"):
            raise WebhookServerError(f"The tunnel of ngrok is not HTTPS: {url}")
        return url

    async def aclose(self) -> None:
        """End the process of ngrok, and all its tunnels with it."""
        if self._is_started:
            await asyncio.to_thread(self._ngrok.kill, self._config)


def import_pyngrok() -> Any:
    """Import the library; raises :class:`WebhookServerError` with a way out if it is absent."""
    try:
        importlib.import_module("pyngrok.conf")
        importlib.import_module("pyngrok.ngrok")
    except ImportError:
        raise WebhookServerError(
            "Tunnels of ngrok need the `pyngrok` library: install it with "
            "`pip install 'kopf[dev]'`, or use another webhook server."
        ) from None
    return importlib.import_module("pyngrok")
