"""Tunnels, and guessing of clusters: with fakes of what is outside of this machine."""

import pathlib
import stat
import sys
import types
from collections.abc import Iterator
from typing import Any, cast

import aiohttp
import pytest

from kopf_cogs.clients.errors import APIForbiddenError
from kopf_cogs.configs.settings import OperatorSettings
from kopf_core.actions.context import OperatorContext, operator_var
from kopf_kits.webhooks import (
    WebhookAutoServer,
    WebhookAutoTunnel,
    WebhookNgrokTunnel,
    WebhookServerError,
)
from kopf_kits.webhooks.detection import recognise

from .conftest import REVIEW, Serve


class FakeConfig:
    """The same names as of pyngrok; the token comes from the environment, too."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options
        self.auth_token: str | None = "taken from the environment"


class FakeNgrok:
    """Remembers the calls; its public URL is wherever it forwards to."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []
        self.url = "https://random.ngrok.example/"
        self.error: Exception | None = None
        self.config: FakeConfig | None = None
        self.content = b""
        self.mode = 0

    def connect(self, addr: str, proto: str, *, pyngrok_config: FakeConfig, schemes: Any) -> Any:
        self.calls.append(("connect", addr, proto, tuple(schemes)))
        self.config = pyngrok_config
        if "config_path" in pyngrok_config.options:
            path = pathlib.Path(pyngrok_config.options["config_path"])
            self.content = path.read_bytes()
            self.mode = stat.S_IMODE(path.stat().st_mode)
        if self.error is not None:
            raise self.error
        return types.SimpleNamespace(public_url=self.url)

    def kill(self, pyngrok_config: FakeConfig) -> None:
        assert pyngrok_config is self.config
        self.calls.append(("kill",))


@pytest.fixture
def ngrok(monkeypatch: pytest.MonkeyPatch) -> FakeNgrok:
    ngrok = FakeNgrok()
    package = types.ModuleType("pyngrok")
    package.conf = types.SimpleNamespace(PyngrokConfig=FakeConfig)  # type: ignore[attr-defined]
    package.ngrok = ngrok  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyngrok", package)
    for name in ("conf", "ngrok"):
        monkeypatch.setitem(sys.modules, f"pyngrok.{name}", getattr(package, name))
    monkeypatch.delenv("NGROK_AUTHTOKEN", raising=False)
    return ngrok


@pytest.mark.parametrize("path", [None, "/hooks"])
async def test_tunnel_forwards_to_a_local_server(
    serve: Serve, ngrok: FakeNgrok, session: aiohttp.ClientSession, path: str | None
) -> None:
    async with serve(WebhookNgrokTunnel(path=path)) as served:
        assert served.configs == [{"url": f"https://random.ngrok.example{path or ''}"}]
        [(_, addr, proto, schemes)] = ngrok.calls
        assert addr.startswith("127.0.0.1:")
        assert (proto, schemes) == ("http", ("https",))
        url = f"http://{addr}{path or ''}/fn1"
        async with session.post(url, json=REVIEW) as response:
            assert response.status == 200
    assert served.handlers.calls[0]["webhook"] == "fn1"
    assert ngrok.calls[-1] == ("kill",)


def list_files(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


@pytest.mark.parametrize("is_from_environment", [False, True])
async def test_g8_tokens_are_in_private_files_not_in_arguments(
    serve: Serve,
    ngrok: FakeNgrok,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    is_from_environment: bool,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if is_from_environment:
        monkeypatch.setenv("NGROK_AUTHTOKEN", "s3cret")
    token = None if is_from_environment else "s3cret"
    async with serve(WebhookNgrokTunnel(token=token, region="eu", binary="/bin/x")):
        pass
    assert ngrok.config is not None
    assert ngrok.config.auth_token is None
    config_path = ngrok.config.options.pop("config_path")
    assert config_path.startswith(str(tmp_path))
    assert ngrok.config.options == {"ngrok_path": "/bin/x", "region": "eu"}
    assert (b"s3cret" in ngrok.content, ngrok.mode) == (True, 0o600)
    assert list_files(tmp_path) == []


async def test_no_token(serve: Serve, ngrok: FakeNgrok) -> None:
    async with serve(WebhookNgrokTunnel()):
        pass
    assert ngrok.config is not None
    assert ngrok.config.options == {}


async def test_failing_tunnel(serve: Serve, ngrok: FakeNgrok) -> None:
    ngrok.error = RuntimeError("authentication failed\nmore lines")
    with pytest.raises(WebhookServerError, match=r"^Cannot .* with ngrok: authentication failed$"):
        async with serve(WebhookNgrokTunnel()):
            pass
    assert ngrok.calls[-1] == ("kill",)


async def test_insecure_tunnel(serve: Serve, ngrok: FakeNgrok) -> None:
    ngrok.url = "http://random.ngrok.example"
    with pytest.raises(WebhookServerError, match="is not HTTPS"):
        async with serve(WebhookNgrokTunnel()):
            pass


async def test_absent_library(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyngrok", None)
    monkeypatch.setitem(sys.modules, "pyngrok.conf", None)
    with pytest.raises(WebhookServerError, match=r"`pip install 'kopf\[dev\]'`"):
        async with serve(WebhookNgrokTunnel()):
            pass


# Guessing of clusters.

MINIKUBE = {"items": [{"metadata": {"name": "x", "labels": {"minikube.k8s.io/name": "minikube"}}}]}
DOCKER = {"items": [{"metadata": {"name": "docker-desktop", "labels": None}}]}
OTHER = {"items": [{"metadata": {"name": "node1", "labels": {"a": "b"}}}]}


@pytest.mark.parametrize(
    ("version", "nodes", "host"),
    [
        ({"gitVersion": "v1.33.1+k3s1"}, None, "host.k3d.internal"),
        ({"gitVersion": "v1.33.1+k3s1"}, OTHER, "host.k3d.internal"),
        ({"gitVersion": "v1.33.1"}, MINIKUBE, "host.minikube.internal"),
        ({"gitVersion": "v1.33.1"}, DOCKER, "host.docker.internal"),
        ({"gitVersion": "v1.33.1"}, OTHER, None),
        ({"gitVersion": "v1.33.1"}, {"items": None}, None),
        ({}, {}, None),
        (None, None, None),
    ],
)
def test_recognising(version: Any, nodes: Any, host: str | None) -> None:
    assert recognise(version, nodes) == host


class FakeClient:
    """The API of a cluster of some kind; the nodes are not permitted."""

    def __init__(self, version: str) -> None:
        super().__init__()
        self.version = version

    async def get(self, url: str, **_: Any) -> Any:
        if url != "/version":
            raise APIForbiddenError(None, status=403)
        return {"gitVersion": self.version}


@pytest.fixture(params=["v1.33.1+k3s1", "v1.33.1", None])
def version(request: pytest.FixtureRequest) -> Iterator[str | None]:
    client = None if request.param is None else cast(Any, FakeClient(request.param))
    context = OperatorContext(OperatorSettings(), cast(Any, None), client)
    token = operator_var.set(context)
    yield request.param
    operator_var.reset(token)


@pytest.mark.usefixtures("cryptography")
async def test_auto_server(serve: Serve, version: str | None) -> None:
    async with serve(WebhookAutoServer(addr="127.0.0.1")) as served:
        host = "host.k3d.internal" if "k3s" in str(version) else "127.0.0.1"
        assert served.url.startswith(f"https://{host}:")


@pytest.mark.usefixtures("cryptography")
async def test_auto_server_with_a_host(serve: Serve, version: str | None) -> None:
    async with serve(WebhookAutoServer(addr="127.0.0.1", host="x.example")) as served:
        assert served.url.startswith("https://x.example:")


@pytest.mark.usefixtures("cryptography")
async def test_auto_tunnel(serve: Serve, version: str | None, ngrok: FakeNgrok) -> None:
    async with serve(WebhookAutoTunnel(addr="127.0.0.1", path="/p")) as served:
        if "k3s" in str(version):
            assert served.url.startswith("https://host.k3d.internal:")
            assert ngrok.calls == []
        else:
            assert served.url == "https://random.ngrok.example/p"
        assert served.url.endswith("/p")
