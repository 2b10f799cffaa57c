"""A server of admission webhooks in this process, to be called by the API server."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import pathlib
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator
from typing import Any

import aiohttp.web

from kopf_kits.envtest.certificates import write_certificates

from .api import PATIENCE, Api
from .objects import GROUP

KINDS = {"mutating": "MutatingWebhookConfiguration", "validating": "ValidatingWebhookConfiguration"}
RULE = {"apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["plains"], "operations": ["*"]}
PROBE_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


def patching(*ops: Any) -> dict[str, Any]:
    """Make a response that allows and changes an object."""
    patch = base64.b64encode(json.dumps(ops).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


class Hooks:
    """The webhooks and their calls.

    The answer of each is by its name: a response of the admission review, a text to be sent as it
    is, a number for the HTTP status, or a number of seconds to hang as a float.
    """

    def __init__(self, api: Api, url: str, bundle: str) -> None:
        super().__init__()
        self.api = api
        self.url = url
        self.bundle = bundle
        self.answers: dict[str, Any] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.paths: list[str] = []

    @property
    def names(self) -> list[str]:
        """The called webhooks, in the order of the calls."""
        return [name for name, _ in self.calls]

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [review["request"] for _, review in self.calls]

    def hook(self, name: str, answer: Any = None, **options: Any) -> dict[str, Any]:
        """Describe a webhook, and what it answers; it is only for the own namespace."""
        self.answers[name] = {"allowed": True} if answer is None else answer
        labels = {"kubernetes.io/metadata.name": self.api.namespace}
        return {
            "name": f"{name}.example.dev",
            "clientConfig": {"url": f"{self.url}/{name}", "caBundle": self.bundle},
            "rules": [{**RULE, **options.pop("rule", {})}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": labels},
            **options,
        }

    async def configure(self, type: str, *hooks: dict[str, Any], name: str = "x") -> None:
        """Create a configuration of webhooks, and wait until it is in use."""
        probe = f"probe-{type}-{name}"
        probing = self.hook(probe, rule={**PROBE_RULE, "operations": ["CREATE"]})
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": KINDS[type],
            "metadata": {"name": f"{self.api.namespace}-{name}"},
            "webhooks": [*hooks, probing],
        }
        plural = f"{KINDS[type].lower()}s"
        reply = await self.api.create(plural, body)
        assert reply.ok, reply.body
        self.paths.append(f"{plural}/{self.api.namespace}-{name}")
        async with asyncio.timeout(PATIENCE):
            while probe not in self.names:
                await self.api.create("configmaps", {"metadata": {"name": "p"}}, dryRun="All")
        self.calls = [call for call in self.calls if not call[0].startswith("probe-")]

    async def handle(self, request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        name = request.path.strip("/")
        review = await request.json()
        self.calls.append((name, review))
        answer = self.answers[name]
        if isinstance(answer, float):
            await asyncio.sleep(answer)
        elif isinstance(answer, str):
            return aiohttp.web.Response(text=answer, content_type="application/json")
        elif isinstance(answer, int):
            return aiohttp.web.Response(status=answer, text="some text")
        response = {"uid": review["request"]["uid"], **(answer if isinstance(answer, dict) else {})}
        versions = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return aiohttp.web.json_response({**versions, "response": response})


@contextlib.asynccontextmanager
async def serve_hooks(api: Api) -> AsyncIterator[Hooks]:
    """Serve the webhooks; at the end, remove their configurations."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_certificates(folder)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(folder / "server.crt", folder / "server.key")
        bundle = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    app = aiohttp.web.Application()
    runner = aiohttp.web.AppRunner(app, shutdown_timeout=0.1)
    sock = socket.create_server(("127.0.0.1", 0))
    hooks = Hooks(api, f"https://127.0.0.1:{sock.getsockname()[1]}", bundle)
    app.router.add_post("/{name}", hooks.handle)
    await runner.setup()
    try:
        await aiohttp.web.SockSite(runner, sock, ssl_context=context).start()
        yield hooks
    finally:
        for path in hooks.paths:
            await api.delete(path)
        await abort_connections(sock)
        await runner.cleanup()


async def abort_connections(sock: socket.socket) -> None:
    """Accept no more connections, and abort those amid their TLS handshakes.

    Asyncio leaks the connections that it accepts while the server is closed (gh-109564), and
    aiohttp does not know of the connections before the ends of their handshakes.
    """
    loop = asyncio.get_running_loop()
    loop.remove_reader(sock.fileno())
    for _ in range(5):  # the accepted connections get their transports
        await asyncio.sleep(0)
    for transport in [*loop._transports.values()]:  # type: ignore[attr-defined]
        if transport.get_extra_info("sockname") == sock.getsockname():
            transport.abort()
    await asyncio.sleep(0)
