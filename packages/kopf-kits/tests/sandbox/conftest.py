import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from kopf_kits.sandbox import Sandbox

GROUP = "/apis/kopf.dev/v1"
OBJECTS = f"{GROUP}/namespaces/default/kopfexamples"


def make_crd(**version: Any) -> dict[str, Any]:
    """A CRD which keeps unknown fields; the only version can be changed by the arguments."""
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": loose, "status": loose}}
    names = {
        "kind": "KopfExample",
        "plural": "kopfexamples",
        "singular": "kopfexample",
        "shortNames": ["kex"],
        "categories": ["all"],
    }
    base = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "kopfexamples.kopf.dev"},
        "spec": {
            "group": "kopf.dev",
            "scope": "Namespaced",
            "names": names,
            "versions": [{**base, **version}],
        },
    }


def make_schema(**properties: Any) -> dict[str, Any]:
    """A strict schema with these fields in the spec."""
    spec = {"type": "object", "properties": properties}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}


@dataclass
class Answer:
    status: int
    text: str
    headers: Any

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def short(self) -> list[tuple[str, str]]:
        """Events of a watch-stream: their types and the names of the objects."""
        return [(line["type"], line["object"]["metadata"].get("name", "")) for line in self.lines]


class Client:
    """An HTTP client that speaks as clients of Kubernetes do."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def call(
        self, method: str, path: str, body: Any = None, type: str = "", accept: str = "*/*"
    ) -> Answer:
        headers = {"Accept": accept, "User-Agent": "tester/1.0"}
        if body is not None:
            headers["Content-Type"] = type or "application/json"
        data = body if isinstance(body, (str, bytes)) or body is None else json.dumps(body)
        async with self.session.request(method, path, data=data, headers=headers) as response:
            return Answer(response.status, await response.text(), response.headers)

    async def get(self, path: str, accept: str = "*/*") -> Answer:
        return await self.call("GET", path, accept=accept)

    async def post(self, path: str, body: Any) -> Answer:
        """Custom objects must have their kinds and versions in the body: they are added."""
        if path.partition("?")[0].endswith("/kopfexamples") and isinstance(body, dict):
            version = path.split("/")[3]
            body = {"apiVersion": f"kopf.dev/{version}", "kind": "KopfExample", **body}
        return await self.call("POST", path, body)

    async def put(self, path: str, body: Any) -> Answer:
        return await self.call("PUT", path, body)

    async def delete(self, path: str, body: Any = None) -> Answer:
        return await self.call("DELETE", path, body)

    async def merge(self, path: str, body: Any) -> Answer:
        return await self.call("PATCH", path, body, "application/merge-patch+json")

    async def json_patch(self, path: str, body: Any) -> Answer:
        return await self.call("PATCH", path, body, "application/json-patch+json")

    async def strategic(self, path: str, body: Any) -> Answer:
        return await self.call("PATCH", path, body, "application/strategic-merge-patch+json")

    async def apply(self, path: str, body: Any, manager: str = "me", more: str = "") -> Answer:
        path = f"{path}?fieldManager={manager}{more}"
        return await self.call("PATCH", path, body, "application/apply-patch+yaml")


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
async def client(sandbox: Sandbox) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(sandbox.url) as session:
        yield Client(session)


@pytest.fixture
async def crd(sandbox: Sandbox) -> dict[str, Any]:
    """The kopfexamples with a status subresource."""
    [crd] = await sandbox.apply(make_crd(subresources={"status": {}}))
    return crd


@pytest.fixture
def make_object() -> Any:
    def make(name: str = "x", **fields: Any) -> dict[str, Any]:
        fields.setdefault("metadata", {})
        body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", **fields}
        body["metadata"] = {"name": name, **body["metadata"]}
        return body

    return make
