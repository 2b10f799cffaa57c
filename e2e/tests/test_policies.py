"""Admission policies of models: the API enforces them by itself, no operator runs."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Annotated, Any

import kopf
from e2e.tests.harness import Answer, World
from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_cogs.clients.session import Client
from kopf_kits.definitions.applying import apply_definitions, apply_policies
from kopf_kits.definitions.crds import make_definitions
from kopf_kits.definitions.policies import make_policies
from kopf_kits.sandbox.base.statuses import qualified

MERGE = "application/merge-patch+json"


@dataclasses.dataclass
class Spec:
    domain: Annotated[str, kopf.schema.DefaultFrom("object.metadata.name + '.example.com'")]
    title: Annotated[str | None, kopf.schema.DefaultFrom("object.spec.domain + '!'")] = None
    replicas: int = 1
    protected: bool = False


POLICIES = (
    kopf.schema.Policy(
        "!oldObject.spec.protected",
        operations=["DELETE"],
        message="The site is protected.",
        reason="Forbidden",
    ),
    kopf.schema.Policy(
        "object.spec.replicas <= 5 || request.namespace == 'big'",
        message_expression="string(object.spec.replicas) + ' is too many'",
    ),
)


class Sites:
    """A kind of its own for a test: policies are for the whole cluster."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.group = f"{world.namespace}.dev"
        site = dataclasses.make_dataclass("Site", [("spec", Spec)])
        self.model = kopf.resource(f"sites.{self.group}/v1", policies=POLICIES)(site)
        self.url = f"/apis/{self.group}/v1/namespaces/{world.namespace}/sites"

    async def define(self) -> None:
        credentials = login_with_kubeconfig()
        assert credentials is not None
        (policies,) = make_policies([self.model]).values()
        async with Client(credentials) as client:
            await apply_definitions(client, make_definitions([self.model]))
            await apply_policies(client, policies)
            await apply_policies(client, policies)  # nothing of it is refused if it is there

    async def create(self, name: str, *, real: bool = True, **spec: Any) -> Answer:
        body = {"kind": "Site", "apiVersion": f"{self.group}/v1", "metadata": {"name": name}}
        url = self.url if real else f"{self.url}?dryRun=All"
        return await self.world.attempt("POST", url, {**body, "spec": spec})

    async def until_enforced(self) -> None:
        """Servers notice policies a moment later than they are created."""
        async with asyncio.timeout(self.world.patience):
            while (await self.create("x", real=False, domain="d", replicas=6)).status != 422:
                pass
            while (await self.create("x", real=False)).status != 201:
                pass


async def test_policies_are_enforced_by_the_api(world: World) -> None:
    sites = Sites(world)
    await sites.define()
    await sites.until_enforced()
    name = f"v1.sites.{sites.group}"
    start = f'{qualified(sites.group, "sites")} "x" is forbidden: '
    policy = f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: "

    refused = await sites.create("x", replicas=6)
    assert (refused.status, refused.body["reason"]) == (422, "Invalid")
    assert refused.body["message"] == f"{start}{policy}6 is too many"
    created = await sites.create("x", protected=True)
    assert created.body["spec"] == {
        "domain": "x.example.com",
        "title": "x.example.com!",
        "replicas": 1,
        "protected": True,
    }
    changed = await world.attempt("PATCH", f"{sites.url}/x", {"spec": {"replicas": 7}}, MERGE)
    assert changed.body["message"] == f"{start}{policy}7 is too many"

    kept = await world.attempt("DELETE", f"{sites.url}/x")
    assert (kept.status, kept.body["reason"]) == (403, "Forbidden")
    assert kept.body["message"] == f"{start}{policy}The site is protected."
    await world.request("PATCH", f"{sites.url}/x", {"spec": {"protected": False}}, MERGE)
    assert (await world.attempt("DELETE", f"{sites.url}/x")).status == 200


async def test_given_values_are_not_replaced_by_defaults(world: World) -> None:
    sites = Sites(world)
    await sites.define()
    await sites.until_enforced()
    created = await sites.create("x", domain="mine.com", title="Mine")
    assert created.body["spec"]["domain"] == "mine.com"
    assert created.body["spec"]["title"] == "Mine"
    changed = await world.request("PATCH", f"{sites.url}/x", {"spec": {"domain": None}}, MERGE)
    assert changed["spec"]["domain"] == "x.example.com"
