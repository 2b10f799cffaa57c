"""Applying definitions to a cluster, and comparing them with what is there."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest

import kopf
from kopf import schema
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_kits.definitions import applying
from kopf_kits.definitions.applying import (
    URL,
    BreakingChangesError,
    apply_definitions,
    find_changes,
    get_definition,
)
from kopf_kits.definitions.crds import make_definitions
from kopf_kits.definitions.errors import DefinitionError
from kopf_kits.sandbox import Sandbox

NAME = "websites.example.com"


def declare(type_: Any, **options: Any) -> list[dict[str, Any]]:
    spec = dataclasses.make_dataclass("Spec", [("n", type_)])
    cls = dataclasses.make_dataclass("Website", [("spec", spec)])
    return make_definitions([kopf.resource("websites.example.com/v1", **options)(cls)])


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
async def client(sandbox: Sandbox) -> AsyncIterator[Client]:
    async with Client(ConnectionInfo(server=sandbox.url)) as client:
        yield client


async def create(sandbox: Sandbox, name: str, **spec: Any) -> None:
    meta = {"name": name, "namespace": "default"}
    await sandbox.create(
        {"apiVersion": "example.com/v1", "kind": "Website", "metadata": meta, "spec": spec}
    )


async def test_kinds_are_served_when_they_are_applied(client: Client, sandbox: Sandbox) -> None:
    assert await apply_definitions(client, declare(int)) == [NAME]
    await create(sandbox, "x", n=1)
    found = await get_definition(client, NAME)
    assert found is not None
    assert {entry["manager"] for entry in found["metadata"]["managedFields"]} >= {"kopf"}


async def test_same_definitions_are_applied_again(client: Client, sandbox: Sandbox) -> None:
    await apply_definitions(client, declare(int))
    await create(sandbox, "x", n=1)
    before = await get_definition(client, NAME)
    sandbox.journal.clear()
    await apply_definitions(client, declare(int))
    after = await get_definition(client, NAME)
    assert before is not None
    assert after is not None
    assert before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
    assert not sandbox.journal.select("GET", "/apis/example.com/*")


async def test_breaking_changes_are_refused_and_listed(client: Client, sandbox: Sandbox) -> None:
    await apply_definitions(client, declare(int))
    await create(sandbox, "x", n=1)
    narrowed = declare(Annotated[int, schema.Limits(ge=3)])
    changes = [str(change) for change in await find_changes(client, narrowed[0]) or ()]
    assert changes == [
        "websites.example.com v1 .spec.n: minimum is narrowed from none to 3",
        "Website default/x: spec.n: Invalid value: 1: "
        "spec.n in body should be greater than or equal to 3",
    ]
    with pytest.raises(BreakingChangesError, match=r"use --force to apply\): .*narrowed.*x: spec"):
        await apply_definitions(client, narrowed)
    found = await get_definition(client, NAME)
    assert "minimum" not in str(found)
    await apply_definitions(client, narrowed, force=True)
    assert "minimum" in str(await get_definition(client, NAME))


async def test_nothing_is_applied_if_something_is_refused(client: Client) -> None:
    await apply_definitions(client, declare(int))
    other = dataclasses.make_dataclass("Blog", [("spec", dict[str, str])])
    blogs = make_definitions([kopf.resource("blogs.example.com/v1")(other)])
    with pytest.raises(BreakingChangesError):
        await apply_definitions(client, [*blogs, *declare(str)])
    assert await get_definition(client, "blogs.example.com") is None


async def test_refusals_of_the_api_are_named(client: Client) -> None:
    with pytest.raises(DefinitionError, match=r"websites\.example\.com is not applied: .*scope"):
        await apply_definitions(client, declare(int, scope="Nowhere"))


async def test_taken_names_are_named(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "POLLING", 0)
    await apply_definitions(client, declare(int, short=["web"]))
    other = dataclasses.make_dataclass("Blog", [("spec", dict[str, str])])
    blogs = make_definitions([kopf.resource("blogs.example.com/v1", short=["web"])(other)])
    with pytest.raises(DefinitionError, match=r"blogs.*: its names are not accepted: .*\"web\""):
        await apply_definitions(client, blogs)


async def test_missing_rights_are_named(client: Client, sandbox: Sandbox) -> None:
    sandbox.faults.fail(403, method="GET", path=f"{URL}/*")
    with pytest.raises(DefinitionError, match=r"^websites\.example\.com cannot be read: "):
        await apply_definitions(client, declare(int))


@pytest.fixture
def unestablished() -> bytes:
    """The definition as it is before the server has looked at it."""
    (definition,) = declare(int)
    meta = {**definition["metadata"], "uid": "u", "resourceVersion": "1"}
    return json.dumps({**definition, "metadata": meta, "status": {}}).encode()


async def test_n_definitions_are_waited_for_with_few_requests(
    client: Client, sandbox: Sandbox, unestablished: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "POLLING", 0)
    path = f"{URL}/{NAME}"
    await apply_definitions(client, declare(int))
    sandbox.journal.clear()
    sandbox.faults.fail(200, method="GET", path=path, times=3, skip=1, body=unestablished)
    sandbox.faults.fail(200, method="PATCH", path=path, body=unestablished)
    assert await apply_definitions(client, declare(int)) == [NAME]
    assert len(sandbox.journal.select("GET", path)) == 5
    assert not [entry for entry in sandbox.journal if entry.watch]


async def test_n_names_refused_before_the_change_are_not_refused_after_it(
    client: Client, sandbox: Sandbox, unestablished: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply to the change has the status from before: the server has not looked at it yet."""
    monkeypatch.setattr(applying, "POLLING", 0)
    await apply_definitions(client, declare(int))
    refused = json.loads(unestablished)
    condition = {"type": "NamesAccepted", "status": "False", "message": "it was taken"}
    refused["status"] = {"conditions": [condition]}
    body = json.dumps(refused).encode()
    sandbox.faults.fail(200, method="PATCH", path=f"{URL}/{NAME}", body=body)
    assert await apply_definitions(client, declare(int)) == [NAME]


async def test_n_definitions_that_are_never_established(
    client: Client, sandbox: Sandbox, unestablished: bytes
) -> None:
    sandbox.faults.fail(200, method="PATCH", path=f"{URL}/{NAME}", body=unestablished)
    with pytest.raises(DefinitionError, match=r"websites.* is not established in 0 seconds"):
        await apply_definitions(client, declare(int), timeout=0)
    assert len(sandbox.journal) <= 3


async def test_n_definitions_applied_by_two_operators_at_once(
    client: Client, sandbox: Sandbox
) -> None:
    sandbox.faults.fail(409, method="PATCH", path=f"{URL}/{NAME}", times=3)
    assert await apply_definitions(client, declare(int)) == [NAME]
    sandbox.faults.fail(409, method="PATCH", path=f"{URL}/{NAME}")
    with pytest.raises(DefinitionError, match=r"websites.* is not applied: 409"):
        await apply_definitions(client, declare(int))


def declare_versions() -> list[dict[str, Any]]:
    models = []
    for version, field in (("v1beta1", "n"), ("v1", "replicas")):
        spec = dataclasses.make_dataclass("Spec", [(field, int)])
        cls = dataclasses.make_dataclass("Website", [("spec", spec)])
        path = f"websites.example.com/{version}"
        models.append(kopf.resource(path, kind="Website", storage=version == "v1")(cls))
    return make_definitions(models)


@pytest.mark.parametrize("exists", [True, False])
async def test_n_no_object_is_converted_until_the_functions_are_served(
    client: Client, sandbox: Sandbox, exists: bool
) -> None:
    if exists:
        await apply_definitions(client, [_rename(declare(int)[0], "v1beta1")])
        meta = {"name": "x", "namespace": "default"}
        body = {"apiVersion": "example.com/v1beta1", "kind": "Website", "metadata": meta}
        await sandbox.create({**body, "spec": {"n": 5}})
        with pytest.raises(BreakingChangesError, match=r"as v1: spec.n would be lost"):
            await apply_definitions(client, declare_versions())
        sandbox.journal.clear()
    await apply_definitions(client, declare_versions(), converted=[NAME])
    found = await get_definition(client, NAME)
    assert found is not None
    assert found["spec"]["conversion"]["strategy"] == "Webhook"
    changes = sandbox.journal.select("PATCH", f"*/{NAME}")
    if exists:  # before there is another version at all
        assert "conversion" in changes[0].json["spec"]

    served = {"clientConfig": {"url": "https://served.example.com"}}
    await sandbox.patch(
        "customresourcedefinitions", NAME, {"spec": {"conversion": {"webhook": served}}}
    )
    await apply_definitions(client, declare_versions(), converted=[NAME])
    found = await get_definition(client, NAME)
    assert found is not None
    url = found["spec"]["conversion"]["webhook"]["clientConfig"]["url"]
    assert url == "https://served.example.com"


def _rename(definition: dict[str, Any], version: str) -> dict[str, Any]:
    definition["spec"]["versions"][0]["name"] = version
    return definition
