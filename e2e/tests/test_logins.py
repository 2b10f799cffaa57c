"""Tokens that are replaced and revoked, and permissions that are absent, on a real API server."""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from e2e.clusters import Cluster
from e2e.tests.accounts import Account
from e2e.tests.harness import CRDS, GROUP, PATIENCE, World, make_crd
from kopf_cogs.clients.errors import APIUnauthorizedError
from kopf_cogs.clients.session import Client
from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_core.intents import decorators as on

KEX = (GROUP, "kexes")


@pytest.fixture(autouse=True)
def _real(cluster: Cluster) -> None:
    if cluster.name == "emulator":
        pytest.skip("the emulator checks neither tokens nor permissions")


@pytest.fixture
def _handlers(world: World) -> None:
    @on.create(*KEX, id="fn", registry=world.registry)
    @on.update(*KEX, id="fn", registry=world.registry)
    def fn(name: str, spec: Any, **_: Any) -> None:
        world.calls((name, spec.get("n")))


def make_info(cluster: Cluster, token: str) -> ConnectionInfo:
    described = cluster.kubeconfig["clusters"][0]["cluster"]
    ca_data = described["certificate-authority-data"]
    return ConnectionInfo(server=cluster.url, ca_data=ca_data, token=token)


async def request_revocable(
    world: World, cluster: Cluster, account: Account
) -> tuple[str, Callable[[], Any]]:
    """A token, and how to revoke it and to wait until it is refused."""
    secrets = f"/api/v1/namespaces/{world.namespace}/secrets"
    secret = await world.request("POST", secrets, {"metadata": {"name": "first"}})
    token = await account.request_token(secret)

    async def finish() -> None:
        await world.request("DELETE", f"{secrets}/first")
        await until_refused(world, cluster, token)

    return token, finish


async def until_refused(world: World, cluster: Cluster, token: str) -> None:
    """Servers remember good tokens for 10 seconds."""
    async with asyncio.timeout(PATIENCE):
        while True:
            async with Client(make_info(cluster, token)) as client:
                try:
                    await client.get(world.path())
                except APIUnauthorizedError:
                    return
            await asyncio.sleep(0.2)


@pytest.mark.usefixtures("_handlers")
async def test_b6_tokens_are_rotated_and_revoked_under_load(world, cluster, account, messages):
    secrets = f"/api/v1/namespaces/{world.namespace}/secrets"
    world.settings.scanning.disabled = True
    secret = await world.request("POST", secrets, {"metadata": {"name": "first"}})
    token = await account.request_token(secret)
    account.token_path.write_text(token)
    async with world.operator():
        await world.create({"n": 0})
        await world.until_handled(spec={"n": 0})
        account.token_path.write_text(await account.request_token())
        await world.request("DELETE", f"{secrets}/first")
        refused = asyncio.create_task(until_refused(world, cluster, token))
        count = 0
        while not refused.done():
            count += 1
            await world.patch({"spec": {"n": count}})
            await world.until_handled(spec={"n": count})
        await refused
        await world.patch({"spec": {"n": -1}})
        await world.until_handled(spec={"n": -1})
    assert world.calls[-1] == ("obj", -1)
    assert not messages.find()


async def test_b5_many_refused_requests_cause_one_login(world, cluster, account):
    token, finish = await request_revocable(world, cluster, account)
    tokens = [token, await account.request_token()]
    vault, used = Vault(), []

    async def log_in() -> None:
        while True:
            await vault.wait_for_emptiness()
            used.append(tokens[min(len(used), 1)])
            vault.populate({"x": make_info(cluster, used[-1])})

    logins = asyncio.create_task(log_in())
    async with Client(vault) as client:
        await client.get(world.path())
        await finish()
        results = await asyncio.gather(*(client.get(world.path()) for _ in range(200)))
    logins.cancel()
    assert used == tokens
    assert {result["kind"] for result in results} == {"KexList"}


@pytest.mark.usefixtures("_handlers")
async def test_b7_refused_credentials_are_tried_again_until_there_are_others(
    world, cluster, account, messages
):
    token, finish = await request_revocable(world, cluster, account)
    account.token_path.write_text(token)
    world.settings.scanning.disabled = True
    async with world.operator():
        await world.create({"n": 0})
        await world.until_handled(spec={"n": 0})
        await finish()
        await world.patch({"spec": {"n": 1}})
        await messages.until("are refused by the server", times=3)
        account.token_path.write_text(await account.request_token())
        await world.until_handled(spec={"n": 1})
    assert world.calls == [("obj", 0), ("obj", 1)]


@pytest.mark.parametrize("account", ["namespaced", "cluster-wide"], indirect=True)
async def test_documented_permissions_are_enough(world, account, messages, request):
    world.settings.posting.enabled = True
    world.settings.scanning.disabled = request.node.callspec.params["account"] == "namespaced"

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(body: Any, **_: Any) -> str:
        from kopf_core.engines.posting import info

        info(body, reason="Tested", message="Well.")
        info(body, reason="Tested", message="Well.")
        return "result"

    @on.delete(*KEX, id="fn", registry=world.registry)
    def delete_fn(name: str, **_: Any) -> None:
        world.calls(name)

    async with world.operator():
        await world.create()
        await world.until(lambda obj: obj and obj.get("status") == {"fn": "result"})
        await world.until_handled()
        await world.delete()
        await world.until_gone()
    assert [*world.calls] == ["obj"]
    assert not messages.find()


@pytest.mark.parametrize(
    ("verb", "resource", "group"),
    [
        ("list", "kexes", GROUP),
        ("watch", "kexes", GROUP),
        ("patch", "kexes", GROUP),
        ("create", "events", ""),
    ],
)
async def test_b3_b4_absent_permissions_are_named_once_and_recovered_from(
    world, account, messages, verb, resource, group
):
    world.settings.posting.enabled = True
    world.settings.scanning.disabled = True

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(body: Any, name: str, **_: Any) -> None:
        from kopf_core.engines.posting import info

        world.calls(name)
        info(body, reason="Tested", message=f"{name} is well.")

    await account.restrict(verb, resource)
    await world.create(name="before")
    text = f'cannot {verb} resource "{resource}" in API group "{group}" in the namespace'
    async with world.operator():
        if resource == "events":
            for name in ["second", "third"]:
                await world.create(name=name)
                await world.until_handled(name)
        else:
            await messages.until(text, times=3)
        complaints = messages.find()
        await account.restore()
        await world.create(name="after")
        await world.until_handled("after")
        await world.until_handled("before")
    assert len(complaints) == 1, complaints
    assert text in complaints[0]
    assert len(world.calls) == len({*world.calls})  # nothing is repeated
    assert {*world.calls} >= {"after", "before"}


@pytest.mark.usefixtures("_handlers")
async def test_b3_permissions_are_taken_away_and_given_back(world, account, messages):
    """The streams are ended by servers from time to time, and only then the rights matter."""
    world.settings.scanning.disabled = True
    world.settings.watching.server_timeout = 1
    async with world.operator():
        await world.create({"n": 0})
        await world.until_handled(spec={"n": 0})
        await account.restrict("watch", "kexes")
        await messages.until('cannot watch resource "kexes"', times=2)
        await world.patch({"spec": {"n": 1}})
        await world.create({"n": 1}, "meanwhile")
        await account.restore()
        await world.until_handled(spec={"n": 1})
        await world.until_handled("meanwhile")
        await account.restrict("patch", "kexes")
        for name in ["obj", "meanwhile"]:
            await world.patch({"spec": {"n": 2}}, name)
        await messages.until('cannot patch resource "kexes"', times=2)
        await account.restore()
        for name in ["obj", "meanwhile"]:
            await world.until_handled(name, {"n": 2})
    assert sorted(world.calls) == sorted(
        [("obj", 0), ("obj", 1), ("meanwhile", 1), ("obj", 2), ("meanwhile", 2)]
    )
    (watch, patch) = messages.find("cannot")
    assert 'cannot watch resource "kexes" in API group "e2e.kopf.dev" in the namespace' in watch
    assert 'cannot patch resource "kexes" in API group "e2e.kopf.dev" in the namespace' in patch


async def test_b4_absent_rights_to_the_status_are_told_once_for_all_objects(
    world, account, messages
):
    world.settings.scanning.disabled = True
    world.plural = "subs"
    names = ["a", "b", "c"]

    @on.create(GROUP, "subs", id="fn", registry=world.registry)
    def fn(name: str, **_: Any) -> str:
        world.calls(name)
        return "result"

    await account.restrict("patch", "subs/status")
    async with world.operator():
        for name in names:
            await world.create(name=name)
        await messages.until('cannot patch resource "subs/status"', times=6)
        complaints = messages.find()
        await account.restore()
        for name in names:
            await world.until(lambda obj: obj and obj.get("status") == {"fn": "result"}, name)
            await world.until_handled(name)
    (complaint,) = complaints
    assert 'cannot patch resource "subs/status" in API group "e2e.kopf.dev" in the' in complaint
    assert sorted(world.calls) == names


@pytest.mark.parametrize(("verb", "resource"), [("get", "kexes"), ("patch", "events")])
async def test_b4_some_rights_are_of_use_in_rare_cases_only(
    world, account, messages, verb, resource
):
    world.settings.posting.enabled = True
    world.settings.scanning.disabled = True

    @on.create(*KEX, id="fn", registry=world.registry)
    def fn(body: Any, **_: Any) -> str:
        from kopf_core.engines.posting import info

        for _n in range(3):
            info(body, reason="Tested", message="Well.")
        return "result"

    await account.restrict(verb, resource)
    async with world.operator():
        await world.create()
        await world.until(lambda obj: obj and obj.get("status") == {"fn": "result"})
        await world.until_handled()
    assert not messages.find()
    found = await world.request("GET", f"/api/v1/namespaces/{world.namespace}/events")
    tested = [event for event in found["items"] if event["reason"] == "Tested"]
    assert sum(event.get("count") or 1 for event in tested) == 3


@pytest.mark.parametrize("account", ["cluster-wide"], indirect=True)
@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_b3_new_kinds_are_noticed_as_soon_as_it_is_permitted(world, account, messages, verb):
    text = (
        f'cannot {verb} resource "customresourcedefinitions" in API group '
        '"apiextensions.k8s.io" at the cluster scope'
    )

    @on.event(GROUP, "kexes", id="fn", registry=world.registry)
    @on.event(GROUP, "rares", id="fn", registry=world.registry)
    def fn(resource: Any, **_: Any) -> None:
        world.calls(resource.plural)

    await account.restrict(verb, "customresourcedefinitions")
    await world.create()
    try:
        async with world.operator():
            await world.calls.until(lambda calls: "kexes" in calls)
            await messages.until(text, times=2)
            await world.request("POST", CRDS, make_crd("rares", "Rare"))
            await account.restore()
            await _until_created(world, "rares", "Rare")
            await world.calls.until(lambda calls: "rares" in calls)
    finally:
        await world.request("DELETE", f"{CRDS}/rares.{GROUP}")
        await _until_absent(world, f"{CRDS}/rares.{GROUP}")
    complaints = messages.find("customresourcedefinitions")
    (complaint,) = [line for line in complaints if "lacks rights" not in line]
    assert text in complaint


async def _until_created(world: World, plural: str, kind: str) -> None:
    """It takes a moment until a new kind is served."""
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "obj"}}
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await world.request("POST", world.path(plural=plural), body)
            except Exception:
                await asyncio.sleep(0.1)
            else:
                return


async def _until_absent(world: World, path: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await world.attempt("GET", path)).status != 404:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("account", ["cluster-wide"], indirect=True)
@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.usefixtures("_handlers")
async def test_b3_namespaces_are_noticed_as_soon_as_it_is_permitted(world, account, messages, verb):
    text = f'cannot {verb} resource "namespaces" in API group "" at the cluster scope'
    await account.restrict(verb, "namespaces")
    original, later = world.namespace, f"{world.namespace}-later"
    async with world.operator(namespaces=[original, f"{original}-*"]):
        await world.create({"n": 0})
        await world.until_handled()
        await messages.until(text, times=2)
        await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": later}})
        world.namespace = later
        try:
            await world.create({"n": 1})
            await account.restore()
            await world.until_handled()
        finally:
            world.namespace = original
            await world.request("DELETE", f"/api/v1/namespaces/{later}")
    assert world.calls == [("obj", 0), ("obj", 1)]
    assert len(messages.find(text)) == 1


@pytest.mark.usefixtures("_handlers")
async def test_b16_expired_client_certificates_are_replaced(
    world, cluster, messages, tmp_path, monkeypatch
):
    """The kubeconfig is the same; the files that it names are replaced only after the expiry."""
    if cluster.authority is None:
        pytest.skip("there is no authority to sign the certificates of clients")
    certificate, key = tmp_path / "client.crt", tmp_path / "client.key"
    issue_certificate(cluster.authority, certificate, key, lifetime=6)
    config = json.loads(json.dumps(cluster.kubeconfig))
    config["users"][0]["user"] = {"client-certificate": "client.crt", "client-key": "client.key"}
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    async with world.operator():
        await world.create({"n": 0})
        await world.until_handled(spec={"n": 0})
        count = 0
        while not messages.find("are refused by the server", logging.INFO):
            count += 1
            await world.patch({"spec": {"n": count}})
            await world.calls.until(
                lambda calls, n=count: (
                    ("obj", n) in calls or messages.find("are refused by the server", logging.INFO)
                )
            )
            await asyncio.sleep(0.1)
        issue_certificate(cluster.authority, certificate, key, lifetime=600)
        await world.until_handled(spec={"n": count})
        await world.patch({"spec": {"n": -1}})
        await world.until_handled(spec={"n": -1})
    assert world.calls[-1] == ("obj", -1)


def issue_certificate(
    authority: pathlib.Path, certificate: pathlib.Path, key: pathlib.Path, *, lifetime: float
) -> None:
    """A certificate of an admin for so many seconds."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    ca = x509.load_pem_x509_certificate((authority / "ca.crt").read_bytes())
    ca_key = serialization.load_pem_private_key((authority / "ca.key").read_bytes(), None)
    private = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    name = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters"),
        x509.NameAttribute(NameOID.COMMON_NAME, "expiring"),
    ]
    usage = [x509.ExtendedKeyUsageOID.CLIENT_AUTH]
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(name))
        .issuer_name(ca.subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(seconds=lifetime))
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        .sign(ca_key, hashes.SHA256())  # type: ignore[arg-type]
    )
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key.write_bytes(private.private_bytes(pem, pkcs8, serialization.NoEncryption()))
    certificate.write_bytes(made.public_bytes(pem))
