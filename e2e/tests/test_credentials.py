"""Logging in to a real API server: with kubeconfigs of all kinds, and by users' own handlers."""

from __future__ import annotations

import asyncio
import base64
import copy
import dataclasses
import datetime
import json
import os
import pathlib
import stat
import sys
from collections.abc import Callable
from typing import Any

import pytest

from e2e.clusters import Cluster
from e2e.tests.accounts import Account
from e2e.tests.harness import GROUP, Calls, World
from e2e.tests.test_logins import issue_certificate
from kopf_cogs.clients import piggyback
from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.credentials import ConnectionInfo, LoginError
from kopf_core.actions.errors import PermanentError
from kopf_core.engines import authentication
from kopf_core.engines.activities import ActivityError
from kopf_core.intents import decorators as on

KEX = (GROUP, "kexes")
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
ME, ADMIN = "(the account)", "expiring"

Obj = dict[str, Any]


@pytest.fixture(autouse=True)
def _real(cluster: Cluster) -> None:
    if cluster.name == "emulator":
        pytest.skip("the emulator checks neither tokens nor certificates")


# --- B17: kubeconfigs ---


@dataclasses.dataclass
class Materials:
    """What kubeconfigs are made of."""

    cluster: Cluster
    account: Account
    token: str
    folder: pathlib.Path

    def config(self, user: Obj, **described: Any) -> Obj:
        """A kubeconfig of this cluster; ``None`` removes a field from its description."""
        config = copy.deepcopy(self.cluster.kubeconfig)
        cluster = config["clusters"][0]["cluster"] | described
        config["clusters"][0]["cluster"] = {k: v for k, v in cluster.items() if v is not None}
        config["users"][0]["user"] = user
        return config

    def write(self, config: Obj, name: str = "kubeconfig") -> str:
        path = self.folder / name
        path.write_text(json.dumps(config))
        return str(path)

    def issue(self) -> tuple[bytes, bytes]:
        """A certificate of an admin with its key, also in the files."""
        if self.cluster.authority is None:
            pytest.skip("there is no authority to sign the certificates of clients")
        paths = self.folder / "client.crt", self.folder / "client.key"
        issue_certificate(self.cluster.authority, *paths, lifetime=600)
        return paths[0].read_bytes(), paths[1].read_bytes()

    def plugin(self, status: Obj, version: str = V1, **fields: Any) -> Obj:
        """A user with a plugin that counts its runs, and brings the status."""
        credential = {"apiVersion": version, "kind": "ExecCredential", "status": status}
        path = self.folder / "plugin"
        path.write_text(
            f"#!{sys.executable} -IS\n"
            f"open({str(self.folder / 'runs')!r}, 'a').write('x')\n"
            f"print({json.dumps(credential)!r})\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        fields = {"apiVersion": version, "command": "./plugin", "interactiveMode": "Never"} | fields
        return {"exec": fields}


@pytest.fixture
async def materials(cluster: Cluster, account: Account, tmp_path: pathlib.Path) -> Materials:
    return Materials(cluster, account, await account.request_token(), tmp_path)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def make_relative_token_file(m: Materials) -> str:
    (m.folder / "relative").write_text(m.token)
    return m.write(m.config({"tokenFile": "relative"}))


def make_relative_authority(m: Materials) -> str:
    data = m.cluster.kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]
    (m.folder / "ca.crt").write_bytes(base64.b64decode(data))
    fields: Obj = {"certificate-authority": "ca.crt", "certificate-authority-data": None}
    return m.write(m.config({"token": m.token}, **fields))


def make_several_files(m: Materials) -> str:
    config = m.config({"token": m.token})
    users = {"users": config.pop("users")}
    paths = [str(m.folder / "absent"), m.write(config, "clusters"), m.write(users, "users")]
    return os.pathsep.join(paths)


def make_certificate_files(m: Materials) -> str:
    m.issue()
    return m.write(m.config({"client-certificate": "client.crt", "client-key": "client.key"}))


def make_certificate_data(m: Materials) -> str:
    certificate, key = m.issue()
    user = {"client-certificate-data": b64(certificate), "client-key-data": b64(key)}
    return m.write(m.config(user))


def make_certificate_of_plugin(m: Materials) -> str:
    certificate, key = (data.decode() for data in m.issue())
    status = {"clientCertificateData": certificate, "clientKeyData": key}
    return m.write(m.config(m.plugin(status)))


def make_impersonation(m: Materials) -> str:
    admin = m.cluster.kubeconfig["users"][0]["user"]
    name = f"system:serviceaccount:{m.account.world.namespace}:{m.account.name}"
    return m.write(m.config({**admin, "as": name, "as-groups": ["system:serviceaccounts"]}))


def make_insecure(m: Materials) -> str:
    fields: Obj = {"insecure-skip-tls-verify": True, "certificate-authority-data": None}
    return m.write(m.config({"token": m.token}, **fields))


KUBECONFIGS: dict[str, tuple[Callable[[Materials], str], str]] = {
    "token": (lambda m: m.write(m.config({"token": m.token})), ME),
    "token-file": (make_relative_token_file, ME),
    "authority-file": (make_relative_authority, ME),
    "several-files": (make_several_files, ME),
    "server-name": (
        lambda m: m.write(m.config({"token": m.token}, **{"tls-server-name": "localhost"})),
        ME,
    ),
    "insecure": (make_insecure, ME),
    "plugin": (lambda m: m.write(m.config(m.plugin({"token": m.token}))), ME),
    "plugin-beta": (lambda m: m.write(m.config(m.plugin({"token": m.token}, V1BETA1))), ME),
    "plugin-certificate": (make_certificate_of_plugin, ADMIN),
    "certificate-files": (make_certificate_files, ADMIN),
    "certificate-data": (make_certificate_data, ADMIN),
    "impersonation": (make_impersonation, ME),
}


@pytest.mark.parametrize("kind", KUBECONFIGS)
async def test_b17_kubeconfigs_of_all_kinds_are_accepted_by_the_server(
    world, account, materials, monkeypatch, kind
):
    make, expected = KUBECONFIGS[kind]
    monkeypatch.setenv("KUBECONFIG", make(materials))
    info = await asyncio.to_thread(login_with_kubeconfig)
    async with Client(info) as client:
        review = await client.post(REVIEWS, {"kind": "SelfSubjectReview"})
    name = f"system:serviceaccount:{world.namespace}:{account.name}"
    assert review["status"]["userInfo"]["username"] == (name if expected == ME else expected)


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({"certificate-authority-data": None}, "certificate verify failed"),
        ({"tls-server-name": "elsewhere.example"}, "elsewhere.example"),
    ],
)
async def test_b17_untrusted_servers_get_no_tokens(materials, monkeypatch, described, message):
    monkeypatch.setenv(
        "KUBECONFIG", materials.write(materials.config({"token": materials.token}, **described))
    )
    info = await asyncio.to_thread(login_with_kubeconfig)
    settings = OperatorSettings()
    settings.networking.error_backoffs = ()
    async with Client(info, settings) as client:
        with pytest.raises(Exception, match=message):
            await client.post(REVIEWS, {"kind": "SelfSubjectReview"})


@pytest.fixture
def handled(world: World) -> Calls:
    @on.create(*KEX, id="fn", registry=world.registry)
    @on.update(*KEX, id="fn", registry=world.registry)
    def fn(spec: Any, **_: Any) -> None:
        world.calls(spec.get("n"))

    world.settings.scanning.disabled = True
    return world.calls


async def test_b17_expiring_results_of_plugins_are_renewed_ahead(
    world, materials, handled, messages, monkeypatch
):
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=12)
    status = {"token": materials.token, "expirationTimestamp": f"{later:%Y-%m-%dT%H:%M:%SZ}"}
    monkeypatch.setenv("KUBECONFIG", materials.write(materials.config(materials.plugin(status))))
    runs, count = materials.folder / "runs", 0
    async with world.operator():
        await world.create({"n": 0})
        await world.until_handled(spec={"n": 0})
        materials.plugin({"token": await materials.account.request_token()})
        while len(runs.read_text()) < 2:
            count += 1
            await world.patch({"spec": {"n": count}})
            await world.until_handled(spec={"n": count})
    assert handled == [*range(count + 1)]
    assert not messages.find()


# --- B8: login handlers ---


def make_info(cluster: Cluster, token: str, **fields: Any) -> ConnectionInfo:
    ca_data = cluster.kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]
    return ConnectionInfo(server=cluster.url, ca_data=ca_data, token=token, **fields)


def misbehave(how: str, cluster: Cluster) -> Callable[..., Any]:
    async def login(**_: Any) -> Any:
        match how:
            case "raises":
                raise PermanentError("no way")
            case "fails-forever":
                raise LoginError("not yet")
            case "hangs":
                await asyncio.Event().wait()
            case "wrong-type":
                return {"token": "x"}
            case "nothing":
                return None
            case "expired":
                return make_info(cluster, "x", expiration=datetime.datetime(2020, 1, 1))
            case "refused":
                return make_info(cluster, "wrong", priority=100)

    return login


@pytest.mark.parametrize(
    "how", ["raises", "fails-forever", "hangs", "wrong-type", "nothing", "expired", "refused"]
)
async def test_b8_misbehaving_handlers_do_not_matter_if_others_succeed(
    world, cluster, materials, handled, monkeypatch, how
):
    monkeypatch.setattr(authentication, "PATIENCE", 0.5)
    on.login(id="bad", registry=world.registry)(misbehave(how, cluster))
    async with world.operator(login=lambda **_: make_info(cluster, materials.token)):
        await world.create({"n": 0})
        await world.until_handled(spec={"n": 0})
    assert handled == [0]


@pytest.mark.parametrize("how", ["raises", "wrong-type", "nothing", "expired"])
async def test_b8_operators_with_no_usable_credentials_end_with_one_error(
    world, cluster, account, how
):
    with pytest.raises((ActivityError, LoginError), match=r"no way|no usable credentials"):
        async with world.operator(login=misbehave(how, cluster)) as operator:
            await operator.exit.requested.wait()


@pytest.mark.parametrize("library", ["client", "async_client", "pykube"])
async def test_piggybacked_libraries_log_in(world, materials, handled, monkeypatch, library):
    pytest.importorskip({"client": "kubernetes", "pykube": "pykube"}.get(library, "kubernetes.aio"))
    # Not all of them understand the files of tokens.
    monkeypatch.setenv("KUBECONFIG", materials.write(materials.config({"token": materials.token})))
    login = getattr(piggyback, f"login_via_{library}")
    async with world.operator(login=login):
        await world.create({"n": 0})
        await world.until_handled(spec={"n": 0})
    assert handled == [0]
