"""The public surface: what is promised to others."""

import ast
import asyncio
import contextlib
import importlib
import inspect
import json
import os
import pathlib
import subprocess
import sys

import pytest

import kopf_cogs

ROOT = pathlib.Path(__file__).parent.parent


def test_names():
    assert set(kopf_cogs.__all__) == {
        "APIClientError",
        "APIConflictError",
        "APIConnectionError",
        "APIError",
        "APIForbiddenError",
        "APIGoneError",
        "APINotFoundError",
        "APIRedirectError",
        "APIResponseError",
        "APIServerError",
        "APIStatusError",
        "APITooDeepError",
        "APITooManyRequestsError",
        "APIUnauthorizedError",
        "APIUnprocessableError",
        "AiohttpSession",
        "AmbiguousKindError",
        "Body",
        "Client",
        "ConnectionInfo",
        "Diff",
        "DiffItem",
        "DiffOperation",
        "EVERYTHING",
        "EventSink",
        "Impersonation",
        "Kinds",
        "KubeContext",
        "Listing",
        "LoginError",
        "ObjectsAPI",
        "OperatorSettings",
        "Page",
        "Patch",
        "PatchResult",
        "RawBody",
        "RawEvent",
        "Reflector",
        "Resource",
        "ScanResult",
        "Selector",
        "UnknownKindError",
        "Vault",
        "build_object_reference",
        "build_owner_reference",
        "create_object",
        "diff",
        "list_objects",
        "login_via_async_client",
        "login_via_client",
        "login_via_pykube",
        "login_with_kubeconfig",
        "login_with_service_account",
        "patch_object",
        "post_event",
        "scan",
    }


@pytest.mark.parametrize("name", kopf_cogs.__all__)
def test_every_name_is_importable(name):
    assert getattr(kopf_cogs, name) is not None
    assert name in dir(kopf_cogs)


@pytest.mark.parametrize("name", kopf_cogs.__all__)
def test_everything_public_is_documented(name):
    value = getattr(kopf_cogs, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__doc__


def test_types_are_known_to_type_checkers():
    tree = ast.parse(inspect.getsource(kopf_cogs))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == kopf_cogs._SOURCES
    assert set(typed) == set(kopf_cogs.__all__)


def test_unknown_names():
    with pytest.raises(AttributeError, match="no attribute 'unknown'"):
        kopf_cogs.unknown  # noqa: B018


def test_version():
    assert kopf_cogs.__version__ == importlib.import_module("importlib.metadata").version(
        "kopf-cogs"
    )


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_imports_are_lazy():
    code = "import sys, kopf_cogs; print([name for name in sys.modules if '.' not in name])"
    modules = ast.literal_eval(run(code))
    assert not {"aiohttp", "yaml", "asyncio", "ssl", "kubernetes", "pykube"} & set(modules)


def test_clients_do_not_import_what_is_optional():
    code = "import sys; from kopf_cogs import *; print([*sys.modules])"
    modules = {name.split(".")[0] for name in ast.literal_eval(run(code))}
    assert not {"yaml", "kubernetes", "kubernetes_asyncio", "pykube", "requests"} & modules


def test_a_stranger_can_take_all():
    assert ast.literal_eval(
        run("from kopf_cogs import *; print([name for name in dir() if name[:2] != '__'])")
    ) == sorted(kopf_cogs.__all__)


def find_example():
    readme = (ROOT / "README.md").read_text()
    return readme.split("```python\n", 1)[1].split("```", 1)[0]


class FakeCluster:
    """Enough of a cluster for the example: config maps and events."""

    def __init__(self):
        self.requests = []
        self.objects = {}
        self.version = 5
        self.history = []
        self.watchers = []

    def change(self, type_, body):
        self.version += 1
        body["metadata"] |= {"namespace": "ns", "resourceVersion": str(self.version)}
        line = json.dumps({"type": type_, "object": body}).encode() + b"\n"
        self.history.append(b"%x\r\n%s\r\n" % (len(line), line))
        for writer in self.watchers:
            writer.write(self.history[-1])
        return body

    def handle(self, method, path, payload):
        name = path.rpartition("/")[2]
        match method:
            case "POST" if name == "configmaps":
                body = payload | {"metadata": {"name": "hello-1", "uid": "uid1"}}
                self.objects["hello-1"] = self.change("ADDED", body)
                return body
            case "POST":
                return payload
            case "PATCH":
                self.objects[name]["data"] |= payload["data"]
                return self.change("MODIFIED", self.objects[name])
            case "DELETE":
                return self.change("DELETED", self.objects.pop(name))
        return {
            "kind": "ConfigMapList",
            "apiVersion": "v1",
            "items": [*self.objects.values()],
            "metadata": {"resourceVersion": str(self.version)},
        }

    async def serve(self, reader, writer):
        with contextlib.closing(writer):
            while head := await self.read_head(reader):
                method, target, _ = head[0].split(" ")
                length = sum(
                    int(line.split(":")[1]) for line in head if line.startswith("Content-Length")
                )
                payload = json.loads(await reader.readexactly(length) or b"null")
                path = target.partition("?")[0]
                self.requests.append((method, path, payload))
                if "watch=true" in target:
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    writer.writelines(self.history)
                    self.watchers.append(writer)
                    await reader.read()
                    return
                body = json.dumps(self.handle(method, path, payload)).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async def read_head(self, reader):
        try:
            return (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        except asyncio.IncompleteReadError:
            return None


async def test_example_of_readme(tmp_path):
    cluster = FakeCluster()
    server = await asyncio.start_server(cluster.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    (tmp_path / "config").write_text(
        json.dumps(
            {
                "current-context": "x",
                "contexts": [{"name": "x", "context": {"cluster": "x", "namespace": "ns"}}],
                "clusters": [{"name": "x", "cluster": {"server": url}}],
            }
        )
    )
    (tmp_path / "example.py").write_text(find_example())
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(tmp_path / "example.py"),
        env=os.environ | {"KUBECONFIG": str(tmp_path / "config")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(60):
            stdout, stderr = await process.communicate()
    finally:
        server.close()
    assert stderr.decode() == ""
    assert process.returncode == 0
    assert stdout.decode().splitlines() == [
        "There are 0 config maps at version 5.",
        "ADDED: hello-1: {}",
        "MODIFIED: hello-1: {'greeting': 'Hello!'}",
    ]
    url = "/api/v1/namespaces/ns"
    assert [(method, path) for method, path, _ in cluster.requests] == [
        ("GET", f"{url}/configmaps"),
        ("GET", f"{url}/configmaps"),
        ("GET", f"{url}/configmaps"),
        ("POST", f"{url}/configmaps"),
        ("PATCH", f"{url}/configmaps/hello-1"),
        ("POST", f"{url}/events"),
        ("DELETE", f"{url}/configmaps/hello-1"),
    ]
    event = cluster.requests[5][2]
    assert event["reason"] == "Greeted"
    assert event["involvedObject"]["uid"] == "uid1"
