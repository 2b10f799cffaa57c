"""Definitions made of Python types: they are accepted by the API, and mean there the same."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Annotated, Any

import model_catalogue as catalogue
import pydantic
import pytest
from hypothesis import given, settings

import kopf
from e2e.clusters import Cluster
from e2e.tests.harness import CRDS, World
from kopf import schema
from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_cogs.clients.session import Client
from kopf_kits.definitions.applying import BreakingChangesError, apply_definitions
from kopf_kits.definitions.crds import make_definitions

GROUP = "models.kopf.dev"
PROBES = f"/apis/{GROUP}/v1/namespaces/{{}}/probes"
CASES = [pytest.param(case, id=case.id) for case in catalogue.CASES]


def make_probe() -> dict[str, Any]:
    """One kind with all the types of the catalogue: each is a field, none is required."""
    fields: dict[str, Any] = {
        f"field_{number}": (case.type, pydantic.Field(None, alias=case.id))
        for number, case in enumerate(catalogue.CASES)
    }
    spec = pydantic.create_model("Spec", **fields)
    probe = pydantic.create_model("Probe", spec=(spec, ...))
    (definition,) = make_definitions([kopf.resource(f"probes.{GROUP}/v1")(probe)])
    return definition


async def apply(*definitions: dict[str, Any], **options: Any) -> list[str]:
    credentials = login_with_kubeconfig()
    assert credentials is not None
    async with Client(credentials) as client:
        return await apply_definitions(client, definitions, **options)


@pytest.mark.parametrize("case", CASES)
async def test_types_are_accepted_in_definitions(world: World, case: catalogue.Case) -> None:
    model = kopf.resource(f"trials.{GROUP}/v1")(case.model)
    (definition,) = make_definitions([model])
    answer = await world.attempt("POST", f"{CRDS}?dryRun=All", definition)
    assert answer.status == 201, answer.body["message"]


@pytest.mark.parametrize("case", CASES)
async def test_models_and_the_api_agree(world: World, case: catalogue.Case) -> None:
    """What is refused there, is refused by models; what is accepted there, fits the models."""
    await apply(make_probe())
    loop = asyncio.get_running_loop()
    url = f"{PROBES.format(world.namespace)}?dryRun=All"
    await world.request("GET", PROBES.format(world.namespace))

    def send(value: Any) -> Any:
        body = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Probe",
            "metadata": {"name": "x"},
            "spec": {case.id: value},
        }
        sending = world.attempt("POST", url, body)
        return asyncio.run_coroutine_threadsafe(sending, loop).result()

    @given(case.values)
    @settings(max_examples=25, deadline=None, database=None)
    def check(value: Any) -> None:
        answer = send(value)
        if answer.status != 201:
            assert answer.status == 422, answer.body
            assert not case.accepts(value), answer.body["message"]
        elif case.id in answer.body["spec"]:
            assert case.accepts(answer.body["spec"][case.id]), answer.body["spec"]
        else:
            assert value is None  # it is dropped by the API, as the field is not nullable

    await asyncio.to_thread(check)


@dataclasses.dataclass
class Part:
    name: str
    size: schema.Quantity | None = None


@dataclasses.dataclass
class Range:
    low: int = 1
    high: int = 9


@dataclasses.dataclass
class Everything:
    """What has no counterpart in Python: each marker is once here."""

    immutable: Annotated[str | None, schema.Immutable(), schema.Limits(max_length=9)] = None
    parts: Annotated[list[Part], schema.MapKeys("name")] = dataclasses.field(default_factory=list)
    words: Annotated[list[str], schema.ListType("set")] = dataclasses.field(default_factory=list)
    atomic: Annotated[dict[str, str] | None, schema.MapType("atomic")] = None
    number: Annotated[int | None, schema.Rule("self > 0", message="must be positive")] = None
    grown: Annotated[
        int | None,
        schema.Rule(
            "!oldSelf.hasValue() || self >= oldSelf.value()",
            message_expression="'must ' + 'not decrease'",
            reason="FieldValueForbidden",
            optional_old_self=True,
        ),
    ] = None
    port: Annotated[Any, schema.IntOrString()] = 80
    template: Annotated[dict[str, Any] | None, schema.EmbeddedObject()] = None
    free: Annotated[Part | None, schema.PreserveUnknown()] = None
    any: Annotated[complex | None, schema.Schemaless()] = None
    typed: Annotated[complex | None, schema.Type("string"), schema.Format("date")] = None
    choice: Annotated[str, schema.Enumerated("a", "b"), schema.Example("a")] = "a"
    odd: Annotated[int | None, schema.Schema({"anyOf": [{"maximum": 3}, {"minimum": 7}]})] = None
    renamed: Annotated[int, schema.Name("re-named"), schema.Title("T"), schema.Description("D")] = 1
    nullable: Annotated[str, schema.Nullable()] = "x"
    replicas: int = 1
    range: Annotated[
        Range | None, schema.Rule("self.low <= self.high", field_path=".low", message="too high")
    ] = None


@dataclasses.dataclass
class Either:
    a: Annotated[int | None, schema.Nullable(False)] = None
    b: Annotated[int | None, schema.Nullable(False)] = None
    c: Annotated[int | None, schema.Nullable(False)] = None


@kopf.resource(
    f"everythings.{GROUP}/v1",
    kind="Everything",
    short=["evr"],
    categories=["all"],
    storage=True,
    status=True,
    scale=schema.Scale(".spec.replicas", ".status.replicas", ".status.selector"),
    columns=[
        schema.Column("Choice", ".spec.choice", description="which", priority=1),
        schema.Column("Age", ".metadata.creationTimestamp", "date"),
    ],
    selectable=[".spec.choice"],
    labels={"app": "x"},
    annotations={"note": "x"},
    rules=[schema.Rule("self.metadata.name != 'bad'", message="a bad name")],
)
@dataclasses.dataclass
class EverythingV1:
    spec: Everything
    status: dict[str, Any] | None = None


@kopf.resource(
    f"everythings.{GROUP}/v1beta1",
    kind="Everything",
    short=["evr"],
    categories=["all"],
    deprecated="use v1",
    labels={"app": "x"},
)
@dataclasses.dataclass
class EverythingV1beta1:
    spec: Annotated[
        Either,
        schema.ExactlyOneOf("a", "b"),
        schema.AtLeastOneOf("b", "c"),
        schema.AtMostOneOf("b", "c"),
    ]


@kopf.resource(
    f"everythings.{GROUP}/v1alpha1", kind="Everything", short=["evr"], categories=["all"],
    served=False,
)  # fmt: skip
@dataclasses.dataclass
class EverythingV1alpha1:
    spec: dict[str, Any]


EVERYTHING: list[type] = [EverythingV1, EverythingV1beta1, EverythingV1alpha1]
URL = f"/apis/{GROUP}/v1/namespaces/{{}}/everythings"


async def create(world: World, spec: dict[str, Any], dry: bool = True, version: str = "v1") -> Any:
    body = {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Everything",
        "metadata": {"name": "x"},
        "spec": spec,
    }
    url = URL.format(world.namespace) + ("?dryRun=All" if dry else "")
    url = url.replace("/v1/", f"/{version}/")
    return await world.attempt("POST", url, body)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"immutable": "x" * 10}, "spec.immutable"),
        ({"parts": [{"name": "a"}, {"name": "a"}]}, "Duplicate"),
        ({"parts": [{"name": "a", "size": "1 Gi"}]}, "spec.parts[0].size"),
        ({"words": ["a", "a"]}, "Duplicate"),
        ({"number": 0}, "must be positive"),
        ({"port": 1.5}, "spec.port"),
        ({"template": {"kind": "ConfigMap"}}, "spec.template.apiVersion"),
        ({"typed": "x"}, "spec.typed"),
        ({"choice": "c"}, "spec.choice"),
        ({"odd": 5}, "anyOf"),
        ({"re-named": "x"}, "spec.re-named"),
        ({"range": {"low": 10}}, "spec.range.low: Invalid value: too high"),
    ],
)
async def test_markers_are_checked_by_the_api(
    world: World, spec: dict[str, Any], message: str
) -> None:
    (definition,) = make_definitions(EVERYTHING)
    await apply(definition)
    answer = await create(world, spec)
    assert answer.status == 422
    assert message in answer.body["message"]


async def test_markers_accept_the_rest(world: World) -> None:
    (definition,) = make_definitions(EVERYTHING)
    await apply(definition)
    spec = {
        "immutable": "a",
        "parts": [{"name": "a", "size": "1Gi"}, {"name": "b"}],
        "words": ["a", "b"],
        "number": 1,
        "port": "http",
        "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"a": "b"}},
        "free": {"name": "x", "unknown": 1},
        "any": [1, {"x": None}],
        "typed": "2020-01-02",
        "choice": "b",
        "odd": 9,
        "re-named": 5,
        "nullable": None,
        "replicas": 2,
    }
    answer = await create(world, spec)
    assert answer.status == 201, answer.body
    assert answer.body["spec"] == spec


def is_kept(ours: Any, theirs: Any) -> bool:
    """Whether there is all of ours; the server can have more."""
    if isinstance(ours, dict):
        return isinstance(theirs, dict) and all(
            key in theirs and is_kept(value, theirs[key]) for key, value in ours.items()
        )
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(is_kept, ours, theirs))
    return bool(ours == theirs)


async def test_markers_of_definitions_are_all_kept_by_the_api(world: World) -> None:
    (definition,) = make_definitions(EVERYTHING)
    await apply(definition)
    stored = await world.request("GET", f"{CRDS}/{definition['metadata']['name']}")
    for version, kept in zip(
        definition["spec"]["versions"], stored["spec"]["versions"], strict=True
    ):
        assert is_kept(version, kept), version["name"]
    assert is_kept(definition, stored)
    created = await create(world, {"choice": "b"}, dry=False)
    assert created.status == 201, created.body
    url = URL.format(world.namespace)
    scale = await world.request("GET", f"{url}/x/scale")
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 1)
    found = await world.request("GET", f"{url}?fieldSelector=spec.choice%3Db")
    assert [item["metadata"]["name"] for item in found["items"]] == ["x"]
    assert (await world.request("GET", f"{url}?fieldSelector=spec.choice%3Da"))["items"] == []
    await world.request("DELETE", f"{url}/x")


async def test_groups_and_versions_are_checked_by_the_api(world: World) -> None:
    (definition,) = make_definitions(EVERYTHING)
    await apply(definition)
    answer = await create(world, {"b": 1}, version="v1beta1")
    assert (answer.status, answer.warnings) == (201, ["use v1"])
    answer = await create(world, {"a": 1, "b": 1}, version="v1beta1")
    assert "exactly one of the fields in [a b] must be set" in answer.body["message"]
    answer = await create(world, {"a": 1}, version="v1beta1")
    assert "at least one of the fields in [b c] must be set" in answer.body["message"]
    answer = await create(world, {"b": 1, "c": 1}, version="v1beta1")
    assert "at most one of the fields in [b c] must be set" in answer.body["message"]
    served = (await world.request("GET", f"/apis/{GROUP}"))["versions"]
    assert f"{GROUP}/v1alpha1" not in [version["groupVersion"] for version in served]


async def test_kinds_can_be_of_the_cluster(world: World) -> None:
    cls = dataclasses.make_dataclass("Planet", [("spec", dict[str, Any])])
    await apply(*make_definitions([kopf.resource(f"planets.{GROUP}/v1", scope="Cluster")(cls)]))
    meta = {"name": "mars"}
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Planet", "metadata": meta, "spec": {}}
    answer = await world.attempt("POST", f"/apis/{GROUP}/v1/planets?dryRun=All", body)
    assert answer.status == 201, answer.body


async def test_changes_are_checked_by_the_api(world: World, cluster: Cluster) -> None:
    (definition,) = make_definitions(EVERYTHING)
    await apply(definition)
    answer = await create(world, {"immutable": "a", "grown": 2}, dry=False)
    assert answer.status == 201, answer.body
    url = f"{URL.format(world.namespace)}/x"
    for spec, message in (
        ({"immutable": "b"}, "Value is immutable"),
        ({"immutable": None}, "Value is immutable"),
        ({"grown": 1}, "must not decrease"),
    ):
        merge = "application/merge-patch+json"
        if (
            cluster.name != "emulator" or "grown" not in spec
        ):  # optionals are unknown to the emulator
            answer = await world.attempt("PATCH", url, {"spec": spec}, merge)
            assert answer.status == 422
            assert message in answer.body["message"]
    await world.request("DELETE", url)


async def test_breaking_changes_are_seen_before_they_are_made(world: World) -> None:
    def declare(type_: Any) -> dict[str, Any]:
        spec = dataclasses.make_dataclass("Spec", [("n", type_)])
        cls = dataclasses.make_dataclass("Change", [("spec", spec)])
        (definition,) = make_definitions([kopf.resource(f"changes.{GROUP}/v1")(cls)])
        return definition

    await apply(declare(int), force=True)
    await apply(declare(int))  # what the API has added is not a change
    url = f"/apis/{GROUP}/v1/namespaces/{world.namespace}/changes"
    meta = {"name": "x"}
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Change", "metadata": meta, "spec": {"n": 1}}
    await world.request("POST", url, body)
    with pytest.raises(BreakingChangesError) as info:
        await apply(declare(Annotated[int, schema.Limits(ge=3)]))
    assert "minimum is narrowed from none to 3" in str(info.value)
    assert f"Change {world.namespace}/x: spec.n: Invalid value: 1" in str(info.value)
    await world.request("DELETE", f"{url}/x")


async def test_n_no_field_is_lost_until_the_functions_are_served(
    world: World, cluster: Cluster
) -> None:
    """With an added version and no webhook, any write by that version loses other fields."""
    merge = "application/merge-patch+json"

    def declare(version: str, field: str, storage: bool) -> type:
        spec = dataclasses.make_dataclass("Spec", [(field, int)])
        cls = dataclasses.make_dataclass("Tool", [("spec", spec)])
        return kopf.resource(f"tools.{GROUP}/{version}", kind="Tool", storage=storage)(cls)

    old, new = declare("v1beta1", "size", False), declare("v1", "replicas", True)
    name, root = f"tools.{GROUP}", f"/apis/{GROUP}/{{}}/namespaces/{world.namespace}/tools"
    body = {"apiVersion": f"{GROUP}/v1beta1", "kind": "Tool", "metadata": {"name": "x"}}
    await apply(*make_definitions([declare("v1beta1", "size", True)]), force=True)
    await world.request("POST", root.format("v1beta1"), {**body, "spec": {"size": 5}})
    for _ in range(2):  # the same again, as after a restart
        await apply(*make_definitions([old, new]), converted=[name])
        found = await world.request("GET", f"{CRDS}/{name}")
        assert found["spec"]["conversion"]["strategy"] == "Webhook"
        if cluster.name != "emulator":  # it calls no webhooks for conversions
            label = {"metadata": {"labels": {"a": "b"}}}
            answer = await world.attempt("PATCH", f"{root.format('v1')}/x", label, merge)
            assert answer.status == 500
            assert "not-served-yet" in answer.body["message"]
            found = await world.request("GET", f"{root.format('v1beta1')}/x")
            assert found["spec"] == {"size": 5}
    none = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
    await world.request("PATCH", f"{CRDS}/{name}", none, merge)
    await world.request("DELETE", f"{CRDS}/{name}")
