import importlib
import logging
import sys

import pytest
import yaml

from kopf_cogs.clients import incluster
from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_cogs.clients.piggyback import (
    login_via_async_client,
    login_via_client,
    login_via_pykube,
)
from kopf_cogs.structs.credentials import ConnectionInfo, LoginError

logger = logging.getLogger(__name__)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


async def via_client(settings):
    return login_via_client(logger=logger, settings=settings, extra=1)


async def via_async_client(settings):
    return await login_via_async_client(logger=logger, settings=settings, extra=1)


async def via_pykube(settings):
    return login_via_pykube(logger=logger, settings=settings, extra=1)


LIBRARIES = {
    via_client: "kubernetes.config",
    via_async_client: "kubernetes.aio.config",
    via_pykube: "pykube",
}


@pytest.fixture(autouse=True)
def outside(tmp_path, monkeypatch):
    """Neither in a cluster, nor with the credentials of the developer."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("PYKUBE_KUBERNETES_SERVICE_HOST", raising=False)
    for name in ["kubernetes.config.kube_config", "kubernetes.aio.config.kube_config"]:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        monkeypatch.setattr(module, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture
def kubeconfig(outside):
    def write(user, **cluster):
        (outside / "config").write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "ctx",
                    "contexts": [
                        {
                            "name": "ctx",
                            "context": {"cluster": "clu", "user": "usr", "namespace": "ns"},
                        }
                    ],
                    "clusters": [
                        {"name": "clu", "cluster": {"server": "https://host:1"} | cluster}
                    ],
                    "users": [{"name": "usr", "user": user}],
                }
            )
        )

    return write


@pytest.fixture(params=LIBRARIES, ids=lambda fn: fn.__name__)
def login(request):
    pytest.importorskip(LIBRARIES[request.param])
    return request.param


async def test_tokens(login, kubeconfig, settings):
    kubeconfig({"token": "tok"})
    info = await login(settings)
    assert isinstance(info, ConnectionInfo)
    assert info.server == "https://host:1"
    assert info.as_http_headers() == {"Authorization": "Bearer tok"}
    assert not info.trust_env
    assert "tok" not in repr(info).replace("token", "")


@pytest.mark.parametrize("key", ["BearerToken", "authorization"])
async def test_tokens_in_versions_with_no_aliases_of_keys(kubeconfig, settings, monkeypatch, key):
    kubernetes = pytest.importorskip("kubernetes")
    config = kubernetes.client.Configuration()
    config.api_key = {key: "Bearer tok"}
    monkeypatch.setattr(
        type(config), "get_api_key_with_prefix", lambda self, name: self.api_key.get(name)
    )
    monkeypatch.setattr(type(config), "get_default_copy", classmethod(lambda cls: config))
    kubeconfig({})
    info = await via_client(settings)
    assert info.as_http_headers() == {"Authorization": "Bearer tok"}


async def test_passwords(login, kubeconfig, settings):
    kubeconfig({"username": "usr", "password": "pwd"})
    info = await login(settings)
    assert info.as_http_headers() == {"Authorization": "Basic dXNyOnB3ZA=="}


async def test_certificates(login, kubeconfig, settings, outside):
    for name in ["ca.crt", "c.crt", "k.key"]:
        (outside / name).write_text(name)
    kubeconfig(
        {"client-certificate": str(outside / "c.crt"), "client-key": str(outside / "k.key")},
        **{"certificate-authority": str(outside / "ca.crt")},
    )
    info = await login(settings)
    assert info.ca_path == str(outside / "ca.crt")
    assert info.certificate_path == str(outside / "c.crt")
    assert info.private_key_path == str(outside / "k.key")
    assert info.as_http_headers() == {}


async def test_insecurity(login, kubeconfig, settings):
    kubeconfig({}, **{"insecure-skip-tls-verify": True})
    assert (await login(settings)).insecure is True
    kubeconfig({})
    assert not (await login(settings)).insecure


async def test_trusting_the_environment(login, kubeconfig, settings):
    settings.networking.trust_env = True
    kubeconfig({})
    assert (await login(settings)).trust_env


async def test_no_credentials(login, settings):
    with pytest.raises(LoginError, match=r"neither in-cluster, nor via kubeconfig: .* exist"):
        await login(settings)


async def test_no_kubeconfig_at_the_usual_place(login, settings, monkeypatch, tmp_path):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(LoginError, match=r"KUBECONFIG is not set, and there is no ~/.kube/config"):
        await login(settings)


@pytest.mark.parametrize("login", LIBRARIES, ids=lambda fn: fn.__name__)
async def test_absent_libraries(login, settings, monkeypatch):
    for name in ["kubernetes", "kubernetes_asyncio", "pykube"]:
        for module in [key for key in sys.modules if key.split(".")[0] == name]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, name, None)
    assert await login(settings) is None


async def test_log1_all_logins_know_the_namespace_of_the_context(
    login, kubeconfig, settings, outside
):
    kubeconfig({"token": "tok"})
    add_context(outside, "east", "https://east:1", namespace="easterly")
    assert (await login(settings)).default_namespace == "ns"
    assert (await login(settings.for_cluster("east"))).default_namespace == "easterly"


@pytest.mark.parametrize("login", [via_client, via_async_client])
async def test_log1_clients_know_the_namespace_of_the_pod(
    kubeconfig, settings, outside, monkeypatch, login
):
    pytest.importorskip(LIBRARIES[login])
    kubeconfig({"token": "tok"})
    monkeypatch.setattr(incluster, "_FOLDER", outside)
    (outside / "token").write_text("tok")
    (outside / "namespace").write_text("pods")
    assert (await login(settings)).default_namespace == "pods"


async def test_priorities_of_pykube(kubeconfig, settings):
    pytest.importorskip("pykube")
    kubeconfig({})
    assert (await via_pykube(settings)).priority == 20


async def test_priorities_of_the_client(kubeconfig, settings):
    pytest.importorskip("kubernetes")
    kubeconfig({})
    assert (await via_client(settings)).priority == 10


@pytest.mark.parametrize("user", [{"exec": {"command": "x"}}, {"tokenFile": "/token"}])
async def test_pykube_is_not_anonymous_if_it_does_not_understand(
    kubeconfig, settings, caplog, user
):
    pytest.importorskip("pykube")
    kubeconfig(user)
    assert await via_pykube(settings) is None
    [message] = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert message.startswith(f"Pykube does not support {next(iter(user))!r} of the kubeconfig")
    kubeconfig({"token": "tok"} | user)
    assert (await via_pykube(settings)).token == "tok"


@pytest.mark.parametrize("login", [via_client, via_async_client])
async def test_b17_clients_are_not_anonymous_if_their_plugins_fail(kubeconfig, settings, login):
    pytest.importorskip(LIBRARIES[login])
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
    kubeconfig({"exec": plugin | {"command": "no-such-command"}})
    with pytest.raises(LoginError, match="has given no credentials"):
        await login(settings)


def add_context(outside, name, server, **context):
    """Another context, which is not the current one."""
    path = outside / "config"
    config = yaml.safe_load(path.read_text())
    config["contexts"].append({"name": name, "context": {"cluster": name, "user": name} | context})
    config["clusters"].append({"name": name, "cluster": {"server": server}})
    config["users"].append({"name": name, "user": {"token": f"token of {name}"}})
    path.write_text(yaml.safe_dump(config))


async def test_o_logins_take_the_context_of_their_cluster(
    login, kubeconfig, settings, outside, monkeypatch
):
    kubeconfig({"token": "tok"})
    add_context(outside, "east", "https://east:1")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    info = await login(settings.for_cluster("east"))
    assert (info.server, info.token) == ("https://east:1", "token of east")
    assert (await login(settings)).server == "https://host:1"


async def test_o_unknown_contexts_are_named(login, kubeconfig, settings):
    kubeconfig({"token": "tok"})
    with pytest.raises(LoginError, match="via the context 'absent' of the kubeconfig"):
        await login(settings.for_cluster("absent"))


async def test_o_own_login_takes_the_context_of_its_cluster(kubeconfig, settings, outside):
    kubeconfig({"token": "tok"})
    add_context(outside, "east", "https://east:1")
    info = login_with_kubeconfig(settings=settings.for_cluster("east"))
    assert (info.server, info.token) == ("https://east:1", "token of east")
    with pytest.raises(LoginError, match="There is no context 'absent'"):
        login_with_kubeconfig(settings=settings.for_cluster("absent"))
